"""Cache: what a host keeps of the code and packages sent to it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation


class Cached(Check):
    """Cache of remote hosts; without one everything is sent again to every agent."""

    topic = "cache"
    rank = 52

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check a host that keeps a cache."""
        kept = observed.cache
        if not kept:
            return
        if kept.note:
            yield self.doubtful(
                observed.host.name, f"none is used: {kept.note}", "correct that, or everything is sent each time"
            )
        elif not kept.folder:
            yield self.doubtful(observed.host.name, "there can be none", "give the user a writable home directory")
        else:
            count = f"{kept.entries} {'entry' if kept.entries == 1 else 'entries'}"
            yield self.well(observed.host.name, f"{count} ({kept.bytes / 1e6:.1f} MB), in {kept.folder}")


check = Cached()
