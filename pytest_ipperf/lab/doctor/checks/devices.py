"""Devices: what those on the measured link do to packets."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_LIMITING = ("tbf", "netem", "htb", "hfsc", "cbq", "cake")
_MERGING = ("gro", "gso", "tso")


class Devices(Check):
    """Of this machine's labs they are as they are meant to be."""

    topic = "devices"
    rank = 45

    def of_host(self, seen: HostObservation) -> Iterator[Finding]:
        """Speed, offloads, and queues that limit."""
        for device, told in seen.fact("addresses").get("devices", {}).items():
            if told["queueing"] in _LIMITING:
                rate = f" at {rate_text(told['rate_bit_s'])}" if told["rate_bit_s"] else ""
                said = f"{device} is shaped by {told['queueing']}{rate}"
                yield self.doubtful(
                    seen.host.name, said, f"tc qdisc del dev {device} root, unless that is what you measure"
                )
                continue
            if told["duplex"] == "half":
                yield self.doubtful(seen.host.name, f"{device} is half duplex", "see to its cable and its switch port")
            speed = f" {told['speed']} Mbit/s" if told["speed"].isdecimal() else ""
            driver = f" ({told['driver']})" if told["driver"] else ""
            on = [name for name in _MERGING if told["offloads"].get(name)]
            yield self.well(
                seen.host.name,
                f"{device}{speed}{driver}, {told['queueing'] or 'unknown'} queueing, offloads {' '.join(on) or 'off'}",
            )


check = Devices()
