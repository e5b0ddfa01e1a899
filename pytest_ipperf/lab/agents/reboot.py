"""Reboot the hosts of a testbed, each by the command that `hosts.ini` has for it."""

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
    """Starts the hosts of a testbed anew, all at a time; by name the seconds until each was back.

    `lease` is called for each before, so that none is taken away from another job. LabError where one refuses, does not
    go down in `down_s`, or is not back `back_s` after that.
    """
    hosts = sorted({host.machine: host for host in testbed.hosts}.values(), key=lambda host: host.machine)
    began = time.monotonic()
    agents: list[AgentClient] = []
    try:
        for host in hosts:
            agents.append(AgentClient(host))
            lease(agents[-1])
        with ThreadPoolExecutor(len(agents)) as pool:  # whose end waits for all, also where one refuses
            ending = [pool.submit(_ended, agent, down_s) for agent in agents]
            before = [end.result() for end in ending]
    finally:  # side by side, as the end of a line to a host that is away takes its time
        with ThreadPoolExecutor(len(hosts)) as pool:
            list(pool.map(AgentClient.close, agents))
    with ThreadPoolExecutor(len(hosts)) as pool:
        coming = [pool.submit(_wait_back, host, boot, back_s) for host, boot in zip(hosts, before, strict=True)]
    return {host.name: round(come.result() - began, 1) for host, come in zip(hosts, coming, strict=True)}


def _ended(agent: AgentClient, down_s: float) -> str:
    """Gives the command and waits until no agent answers any more; the host's boot until then."""
    end = time.monotonic() + down_s
    before = agent.boot_id()
    # A host that goes without a word, as by a switch, leaves the line as it was: it has to be asked.
    try:
        agent.reboot(shlex.split(agent.host.reboot))
        while time.monotonic() < end:
            agent.within(_SILENT_S).boot_id()
            time.sleep(_POLL_S)
        agent.stay()
    except AgentError:
        if agent.lost:
            return before
        raise  # a fault of the agent itself, which is there
    raise LabError(
        f"host {agent.host.name} did not go down within {seconds_text(down_s)} of its reboot command "
        f"{agent.host.reboot!r}"
    )


def _wait_back(host: Host, before: str, back_s: float) -> float:
    """Asks a host again and again until it is back; our instant of that."""
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
    """Why a host is not back; empty where an agent starts there in another boot and with all of its addresses."""
    try:
        with AgentClient(host) as agent:
            if agent.boot_id() == before:
                return "it answers, and was not started anew"
            lacking = agent.lacking(list(host.addresses))
    except AgentError as error:
        return str(error).removeprefix(f"host {host.name}: ")
    return f"it is back without its address {lacking[0]}" if lacking else ""
