"""Reboot the hosts of a testbed, each by its command in `hosts.ini`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Host, Testbed

_DOWN_S = 300.0
_BACK_S = 600.0
_SILENT_S = 10.0
_POLL_S = 0.5
_AGAIN_S = 1.0


def reboot_hosts(
    testbed: Testbed, lease: Callable[[AgentClient], None], *, down_s: float = _DOWN_S, back_s: float = _BACK_S
) -> Mapping[str, float]:
    """Reboot the hosts of a testbed in parallel; return by name the seconds until each was back.

    `lease` is called for each host before, so that none is taken away from another job. Raises LabError if a host
    refuses, does not go down in `down_s`, or is not back `back_s` after that.
    """
    hosts = sorted({host.machine: host for host in testbed.hosts}.values(), key=lambda host: host.machine)
    began = time.monotonic()
    agents: list[AgentClient] = []
    try:
        for host in hosts:
            agents.append(AgentClient(host))
            lease(agents[-1])
        with ThreadPoolExecutor(len(agents)) as pool:  # waits for all at its end, even if one refuses
            ending = [pool.submit(_ended, agent, down_s) for agent in agents]
            before = [end.result() for end in ending]
    finally:  # in parallel, as closing the connection to a host that is down takes time
        with ThreadPoolExecutor(len(hosts)) as pool:
            list(pool.map(AgentClient.close, agents))
    with ThreadPoolExecutor(len(hosts)) as pool:
        coming = [pool.submit(_wait_back, host, boot, back_s) for host, boot in zip(hosts, before, strict=True)]
    return {host.name: round(come.result() - began, 1) for host, come in zip(hosts, coming, strict=True)}


def _ended(agent: AgentClient, down_s: float) -> str:
    """Run the command and wait until no agent answers any more; return the host's previous boot id."""
    end = time.monotonic() + down_s
    before = agent.boot_id()
    # A host that goes down abruptly leaves the connection open, so it must be polled.
    try:
        agent.reboot(shlex.split(agent.host.reboot))
        while time.monotonic() < end:
            agent.within(_SILENT_S).boot_id()
            time.sleep(_POLL_S)
        agent.stay()
    except AgentError:
        if agent.lost:
            return before
        raise  # an error of an agent that is still there
    raise LabError(
        f"host {agent.host.name} did not go down within {seconds_text(down_s)} of its reboot command "
        f"{agent.host.reboot!r}"
    )


def _wait_back(host: Host, before: str, back_s: float) -> float:
    """Ask a host repeatedly until it is back; return the instant of our clock."""
    end = time.monotonic() + back_s
    while seen := _why_not_back(host, before):
        if time.monotonic() > end:
            raise LabError(
                f"host {host.name} was not back {seconds_text(back_s)} after its reboot command {host.reboot!r} had "
                f"ended the agent; seen last: {seen}"
            )
        time.sleep(_AGAIN_S)
    return time.monotonic()


def _why_not_back(host: Host, before: str) -> str:
    """Return why a host is not back; empty if an agent starts there in another boot and all of its addresses exist."""
    try:
        with AgentClient(host) as agent:
            if agent.boot_id() == before:
                return "it answers, and was not started anew"
            lacking = agent.lacking(list(host.addresses))
    except AgentError as error:
        return str(error).removeprefix(f"host {host.name}: ")
    return f"it is back without its address {lacking[0]}" if lacking else ""
