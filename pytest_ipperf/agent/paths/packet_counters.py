"""Counters of a run's packets and of TCP's errors on this host, from one reading to the next."""

from __future__ import annotations

from typing import Any

from pytest_ipperf.agent.kernel.counters import deltas, tcp_error_counters
from pytest_ipperf.agent.paths import routes


class RunCounters:
    """Packet counters from construction until `close`; a reading resets them for all readers."""

    def __init__(self) -> None:
        self._protocol41 = routes.Protocol41()
        self._bare: routes.BareIpv6 | None = None
        self._tcp = tcp_error_counters()
        self._sent = routes.ip_packets()

    def watch(self, device: str) -> None:
        """Count the bare IPv6 packets of this device too, from now on."""
        self._bare = routes.BareIpv6(device)

    def packets(self) -> dict[str, Any]:
        """Return the packets of protocol 41 and bare IPv6 packets since the last reading; None if not counted."""
        bare = self._bare.count() if self._bare else None
        return {"protocol41": self._protocol41.count(), "bare_ipv6": bare}

    def begin(self) -> None:
        """Reset the counters, as a run begins."""
        self.packets()
        self._sent = routes.ip_packets()

    def run(self) -> dict[str, Any]:
        """Return `packets` since the run began, with those that this host has sent in it, by IP version."""
        after = routes.ip_packets()
        sent = {version: after[version] - before for version, before in self._sent.items()}
        return {"packets": sent, **self.packets()}

    def tcp(self) -> dict[str, int]:
        """Return the TCP error counters that have moved since the last reading."""
        before, self._tcp = self._tcp, tcp_error_counters()
        return deltas(before, self._tcp)

    def close(self) -> None:
        """Stop counting."""
        if self._bare:
            self._bare.close()
        self._protocol41.close()
