"""Read the interface counters of a testbed's hosts by SNMP, where `hosts.ini` says how they are asked.

It is beside the measurement: a host that does not answer is reported once and asked no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.inventory.snmp_source import Source
from pytest_ipperf.lab.snmp.client import counters, description

_Reply = TypeVar("_Reply")


class InterfaceCounters:
    """Those of a testbed; `log` gets a sentence about a host that does not answer."""

    def __init__(self, testbed: Testbed, log: Callable[[str], None]) -> None:
        self._sources = {role: host.snmp for role, host in testbed.roles.items() if isinstance(host.snmp, Source)}
        self._names = {role: host.name for role, host in testbed.roles.items()}
        self._log = log

    def descriptions(self) -> dict[str, str]:
        """By role: what its host says that it is."""
        return self._of_each(description)

    def counters(self) -> dict[str, dict[str, Any]]:
        """By role: the seconds since its host's SNMP agent was started, and its interfaces' counters."""
        return self._of_each(counters)

    def _of_each(self, ask: Callable[[Source], _Reply]) -> dict[str, _Reply]:
        found = {}
        for role, source in list(self._sources.items()):
            try:
                found[role] = ask(source)
            except LabError as error:
                del self._sources[role]
                self._log(f"host {self._names[role]} tells nothing by SNMP: {error}")
        return found
