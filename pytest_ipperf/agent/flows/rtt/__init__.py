"""Round-trip time: probes of the near end, and the reflectors of the far end."""
