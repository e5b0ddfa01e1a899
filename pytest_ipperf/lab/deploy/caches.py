"""Purge the caches of agents on hosts, and of agents and pip on this machine; that is safe at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pytest_ipperf.agent.host_state.private_dir import remove_stale
from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.leases import lease_holder
from pytest_ipperf.lab.deploy.wheels import CACHE_SECTION
from pytest_ipperf.lab.inventory.model import Host, Testbed


@dataclass(frozen=True, slots=True)
class Purged:
    """A host, or this machine, and what was removed there; or `trouble`, a sentence that names it.

    `holder` names who is measuring on the host just now. The purge does not disturb it: missing entries are sent again.
    """

    name: str
    removed: str = ""
    trouble: str = ""
    holder: str = ""


def caching_hosts(testbeds: Iterable[Testbed]) -> list[Host]:
    """Return the hosts that cache something, once for each user of a machine."""
    hosts = {(host.machine, host.sudo): host for each in testbeds for host in each.hosts if _caches(host)}
    return list(hosts.values())


def purge(hosts: Sequence[Host]) -> list[Purged]:
    """Purge hosts in parallel; an unreachable host does not affect the others."""
    with ThreadPoolExecutor(max(len(hosts), 1)) as pool:
        return list(pool.map(_purge_host, hosts))


def purge_here() -> Purged:
    """Remove fetched wheels, agents' cache entries, and directories left by killed agents, on this machine."""
    folders, wheels, packages = remove_stale(), Cache(CACHE_SECTION), Cache()
    if note := wheels.note or packages.note:
        return Purged("this machine", trouble=note)
    parts = [(wheels, "wheel"), (packages, "entry of agents")]
    removed = [_counted(len(sizes), what, sum(sizes)) for each, what in parts if (sizes := each.clear())]
    removed += [_counted(folders, "private folder")] if folders else []
    return Purged("this machine", _listed(removed))


def _caches(host: Host) -> bool:
    return ACCESS_METHODS[host.way].far


def _purge_host(host: Host) -> Purged:
    try:
        with AgentClient(host, keeps=False) as agent:
            holder = lease_holder(agent)
            report = agent.clean()
    except IpperfError as error:
        return Purged(host.name, trouble=str(error))
    cache = report.cache
    if cache.note:
        return Purged(host.name, trouble=f"host {host.name}: {cache.note}")
    parts = [_counted(cache.entries, "entry of the cache", cache.bytes)] if cache.entries else []
    parts += [_counted(report.folders, "private folder")] if report.folders else []
    return Purged(host.name, _listed(parts), holder=holder)


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def _counted(number: int, what: str, size_bytes: int | None = None) -> str:
    noun, of, rest = what.partition(" of ")
    many = noun if number == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    size = "" if size_bytes is None else f" ({size_bytes / 1e6:.1f} MB)"
    return f"{number} {many}{of}{rest}{size}"
