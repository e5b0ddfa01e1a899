"""Clocks: the offset of the wall clock from the controller's, and its synchronisation."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.clock import ClockFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_FAR_S = 1.0
_SLOW = ("acpi_pm", "hpet", "jiffies", "refined-jiffies", "pit")


class Clocks(Check):
    """The wall clock, which dates logs and records; measurements use CLOCK_MONOTONIC, which nobody sets."""

    topic = "clock"
    rank = 25

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check the offset with its uncertainty, NTP, and the clock's source."""
        kept, name = observed.fact(ClockFacts), observed.host.name
        if not kept or observed.skew_s is None:
            return
        skew_s, error_s = observed.skew_s
        offset = "this machine's own"
        if error_s:
            offset = f"{1000 * skew_s:+.1f} ms against this machine's (+- {1000 * error_s:.1f})"
        if kept.source in _SLOW:
            remedy = "clocksource=tsc at the kernel's start, if the processor has a steady one"
            yield self.doubtful(name, f"the clock's source {kept.source} is slow to read", remedy)
        if abs(skew_s) - error_s > _FAR_S:
            remedy = "have NTP set it (chronyd, systemd-timesyncd), or logs of two hosts cannot be compared"
            yield self.doubtful(name, offset, remedy)
        elif kept.synchronised is False:
            remedy = "have NTP keep it (chronyd, systemd-timesyncd), slewing and not stepping"
            yield self.doubtful(name, f"{offset}; not synchronised", remedy)
        else:
            yield self.well(name, f"{offset}{', synchronised' if kept.synchronised else ''}, source {kept.source}")


check = Clocks()
