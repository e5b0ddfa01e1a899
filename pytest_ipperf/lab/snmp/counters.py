"""Read the interface counters of a testbed's hosts by SNMP, if `hosts.ini` configures it.

Counters are optional: a host that does not answer is reported once and not asked again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.inventory.snmp_source import Source
from pytest_ipperf.lab.runs.result import RunResult
from pytest_ipperf.lab.snmp.client import counters, description
from pytest_ipperf.transports.base import CLIENT

_Reply = TypeVar("_Reply")
# A shorter run would consist of an agent's delay.
_LEAST_S = 30.0


class InterfaceCounters:
    """Interface counters of a testbed's hosts; `log` receives a sentence about a host that does not answer."""

    def __init__(self, testbed: Testbed, log: Callable[[str], None]) -> None:
        self._sources = {role: host.snmp for role, host in testbed.roles.items() if isinstance(host.snmp, Source)}
        self._names = {role: host.name for role, host in testbed.roles.items()}
        self._log = log

    def descriptions(self) -> dict[str, str]:
        """Return the description of each host, by role."""
        return self._of_each(description)

    def counters(self) -> dict[str, dict[str, Any]]:
        """Return the uptime of each host's SNMP agent in seconds and the host's interface counters, by role."""
        return self._of_each(counters)

    def around(self, run: Callable[[], RunResult], run_s: float) -> RunResult:
        """Make a run; if it counts octets and lasts long enough, return it with what the client's SNMP agent counted.

        That is its fact `snmp_bit_s`, for the interface that received most. An agent may be some seconds behind.
        """
        if CLIENT not in self._sources or run_s < _LEAST_S:
            return run()
        before, result = self.counters(), run()
        if "interface_bytes" not in result.data.facts:
            return result
        found = received_bit_s(before.get(CLIENT), self.counters().get(CLIENT))
        facts = result.data.facts if found is None else {**result.data.facts, "snmp_bit_s": found}
        return dataclasses.replace(result, data=dataclasses.replace(result.data, facts=facts))

    def _of_each(self, ask: Callable[[Source], _Reply]) -> dict[str, _Reply]:
        replies = {}
        for role, source in list(self._sources.items()):
            try:
                replies[role] = ask(source)
            except LabError as error:
                del self._sources[role]
                self._log(f"host {self._names[role]} gives no SNMP counters: {error}")
        return replies


def received_bit_s(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> float | None:
    """Return the rate of the interface that received most between two readings, by the agent's own clock.

    None if a reading is missing, the agent has restarted, or no interface is in both. A counter may have wrapped once.
    """
    if not before or not after or not before["uptime_s"] or not after["uptime_s"]:
        return None
    took_s = after["uptime_s"] - before["uptime_s"]
    grown = [
        (count["in_bytes"] - before["interfaces"][name]["in_bytes"]) % 2 ** count["bits"]
        for name, count in after["interfaces"].items()
        if name in before["interfaces"]
    ]
    return 8 * max(grown) / took_s if grown and took_s > 0 else None
