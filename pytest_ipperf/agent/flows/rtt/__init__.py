"""Probes of the round-trip time: what asks at the near end, and what echoes at the far one."""
