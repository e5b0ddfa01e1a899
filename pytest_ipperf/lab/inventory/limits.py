"""Limits of a testbed's hosts, as `hosts.ini` states them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_ipperf.core.design.cell import Cell, Workload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.offload import OFFLOAD, UNCHANGED
from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host, Links, Testbed
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import Flow

_REBOOT = "--ipperf-reboot=yes"


def beyond(testbed: Testbed, workload: Workload) -> str:
    """Return why a workload exceeds a host's limit; empty if it does not.

    Each of several clients has a share of the run; every other host handles the whole run.
    """
    most, host = _most(testbed, lambda host: host.most_connections)
    if workload.connections > most:
        return f"testbed {testbed.name} takes {most:g} connections at most, by max_connections of host {host}"
    most, host = _most(testbed, lambda host: host.most_rate_bit_s)
    if most < math.inf and (excess := _excess(workload, most)):
        return f"testbed {testbed.name} takes {rate_text(most)} at most, by max_rate of host {host}, and {excess}"
    return ""


def no_offload(testbed: Testbed, cell: Cell) -> str:
    """Return why the offloads that a cell wants cannot be switched on a testbed; empty if they can."""
    name = OFFLOAD.name
    levels = values_of(cell.workload.levels)
    if levels.get(name, UNCHANGED) == UNCHANGED and cell.workload.against.partition("_")[0] != name:
        return ""
    if testbed.name in BUILTIN and not testbed.is_lab:
        return f"testbed {testbed.name} has no offloads to switch, as its packets never leave the kernel"
    if not testbed.is_lab and len({host.machine for host in testbed.hosts}) < len(testbed.hosts):
        # Two agents would switch the same devices, and the one that restores last would restore what the other had set.
        return f"testbed {testbed.name} has two hosts that are one machine, so their offloads are the same"
    if testbed.is_lab and testbed.links != Links():
        return (
            f"testbed {testbed.name} counts the packets of its links one by one, which takes its offloads off; measure "
            "offload on testbed lab, or on hosts"
        )
    if cell.arm.transport != "native":
        return f"offload is that of the hosts' ports, and {cell.arm.transport} has a device of its own"
    return ""


def too_many(testbed: Testbed, protocol: str) -> str:
    """Return why a flow, which needs exactly two hosts, cannot run with several clients; empty if it can."""
    if len(testbed.clients) <= PROTOCOLS[protocol].kind.most_clients:
        return ""
    return (
        f"testbed {testbed.name} has {len(testbed.clients)} clients, and {protocol} runs between two hosts; give it a "
        "testbed with one of them"
    )


def _most(testbed: Testbed, limit: Callable[[Host], float]) -> tuple[float, str]:
    """Return the testbed's overall limit, infinite if there is none, and the name of the host that sets it."""
    limited = {role: host for role, host in testbed.roles.items() if limit(host)}
    clients = testbed.clients if limited else ()
    limits = [(limit(host) * (len(clients) if role in clients else 1), host.name) for role, host in limited.items()]
    return min(limits, default=(math.inf, ""))


def _excess(workload: Workload, most_bit_s: float) -> str:
    """Return by what a workload exceeds a rate, as the end of a sentence; transactions have no known rate."""
    protocol = PROTOCOLS[workload.protocol]
    offered = [factor.name for factor in protocol.factors if factor.unit == "bit/s"]
    if not offered:
        return f"{workload.protocol} uses all that it gets" if isinstance(protocol, Flow) and protocol.greedy else ""
    rates = [level.value for level in workload.levels if level.name in offered]
    too_much = [rate for rate in rates if isinstance(rate, str) or rate > most_bit_s]
    return f"{workload.protocol} is to send more" if too_much else ""


def check_rebootable(testbed: Testbed) -> None:
    """Raise UsageError if a host of the testbed cannot be rebooted."""
    if testbed.is_lab:
        raise UsageError(
            f"testbed {testbed.name} is built anew before each epoch anyway; {_REBOOT} is for hosts of hosts.ini with "
            "a key reboot"
        )
    lacking = sorted({host.name for host in testbed.hosts if not host.reboot})
    if not lacking:
        return
    names = f"hosts {', '.join(lacking)} have" if len(lacking) > 1 else f"host {lacking[0]} has"
    here = sorted({host.name for host in testbed.hosts if not ACCESS_METHODS[host.way].far})
    why = f"; pytest runs on {' and '.join(here)}, and a reboot would end it" if here else ""
    raise UsageError(f"{names} no key reboot in hosts.ini, and {_REBOOT} needs one for each of {testbed.name}{why}")
