"""Servers: which real server programs can run, by protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_ipperf.agent.facts.servers import ServerFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding, as_root
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.protocols import applications
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports.base import SERVER

_LACKING = re.compile(r"is (not|neither) installed")


class Servers(Check):
    """Real server programs; the figures of an embedded server depend more on Python than on the network."""

    topic = "servers"
    rank = 30

    def findings(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Check the host that serves."""
        for observed in observations.reached():
            if SERVER in observed.roles and not observed.node:
                yield from self.of_host(observed)

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Report the programs that can run in one finding, and each protocol without any in another."""
        facts = observed.fact(ServerFacts)
        if not facts:
            return
        name, named, missing = observed.host.name, observed.host.servers, facts.missing
        if not facts.setpriv:
            yield self.wrong(name, "setpriv is not installed", "Debian: apt-get install util-linux")
        for each in named or ():
            if missing[each] and not SERVERS[each].embedded:
                yield self.wrong(
                    name,
                    f"key servers names {each}: {missing[each]}",
                    _remedy([missing[each]], observed.host, key=True),
                )
        able = {}
        for protocol in applications():
            real = [each for each in SERVERS if SERVERS[each].protocol == protocol and not SERVERS[each].embedded]
            may = [each for each in real if named is None or each in named]
            able[protocol] = [each for each in may if not missing[each]]
            if not able[protocol] and named is None and real:
                whys = [missing[each] for each in real]
                said = f"{protocol} by an embedded server only: {'; '.join(whys)}"
                yield self.doubtful(name, said, _remedy(whys, observed.host))
        if shown := [f"{protocol} {', '.join(usable)}" for protocol, usable in able.items() if usable]:
            yield self.well(name, "; ".join(shown))


def _remedy(whys: list[str], host: Host, *, key: bool = False) -> str:
    """Return what makes one of these servers run; with `key` the host's key may be wrong instead."""
    lacking = [why for why in whys if _LACKING.search(why)]
    remedies = []
    if any(why.endswith(" needs root") for why in whys):
        remedies.append(as_root(host))
    elif len(lacking) < len(whys):
        remedies.append("provide what it needs")
    elif lacking:
        remedies.append("install one of them" if len(whys) > 1 else "install it")
    return ", or ".join([*remedies, *(["correct the key"] if key else [])])


check = Servers()
