"""Read the interface counters of a testbed's hosts by SNMP, if `hosts.ini` configures it.

Counters are optional: a host that does not answer is reported once and not asked again.
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

    def _of_each(self, ask: Callable[[Source], _Reply]) -> dict[str, _Reply]:
        replies = {}
        for role, source in list(self._sources.items()):
            try:
                replies[role] = ask(source)
            except LabError as error:
                del self._sources[role]
                self._log(f"host {self._names[role]} gives no SNMP counters: {error}")
        return replies
