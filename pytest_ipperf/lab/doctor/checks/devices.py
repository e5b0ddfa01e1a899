"""Devices: speed, offloads and queues of the devices on the measured link."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.addresses import AddressFacts
from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_LIMITING = ("tbf", "netem", "htb", "hfsc", "cbq", "cake")
_MERGING = ("gro", "gso", "tso")


class Devices(Check):
    """Devices of hosts; those of a lab's nodes are shaped on purpose and not checked."""

    topic = "devices"
    rank = 45

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check speed, duplex, offloads, and queues that limit the rate."""
        addresses = observed.fact(AddressFacts)
        for device, facts in addresses.devices.items() if addresses else ():
            if facts.queueing in _LIMITING:
                rate = f" at {rate_text(facts.rate_bit_s)}" if facts.rate_bit_s else ""
                said = f"{device} is shaped by {facts.queueing}{rate}"
                yield self.doubtful(
                    observed.host.name, said, f"tc qdisc del dev {device} root, unless that is what you measure"
                )
                continue
            if facts.duplex == "half":
                yield self.doubtful(
                    observed.host.name, f"{device} is half duplex", "check its cable and its switch port"
                )
            speed = f" {facts.speed} Mbit/s" if facts.speed.isdecimal() else ""
            driver = f" ({facts.driver})" if facts.driver else ""
            on = [name for name in _MERGING if facts.offloads.get(name)]
            yield self.well(
                observed.host.name,
                f"{device}{speed}{driver}, {facts.queueing or 'unknown'} queueing, offloads {' '.join(on) or 'off'}",
            )


check = Devices()
