"""Rebooting: the hosts of a testbed started anew, each by the command that `hosts.ini` has for it."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pytest_ipperf.core.errors import AgentError, LabError
from pytest_ipperf.core.units import seconds_text
from pytest_ipperf.lab.link import Link
from pytest_ipperf.lab.testbed import Host, Testbed

_WITHIN_S = 600.0
_LOOK_S = 0.2
_AGAIN_S = 1.0


def start_anew(testbed: Testbed, lease: Callable[[Link], None], within_s: float = _WITHIN_S) -> Mapping[str, float]:
    """Starts the hosts of a testbed anew, all at a time; by name the seconds until each was back.

    `lease` is called for each before, so that none is taken away from another job. LabError where one refuses, does not
    go down or does not come back.
    """
    hosts = sorted({host.machine: host for host in testbed.hosts}.values(), key=lambda host: host.machine)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        links = []
        for host in hosts:
            links.append(stack.enter_context(Link(host)))
            lease(links[-1])
        with ThreadPoolExecutor(len(links)) as pool:
            ending = [pool.submit(_ended, link, began + within_s, within_s) for link in links]
        before = [end.result() for end in ending]
    with ThreadPoolExecutor(len(hosts)) as pool:
        coming = [pool.submit(_back, host, boot, began, within_s) for host, boot in zip(hosts, before, strict=True)]
    return {host.name: come.result() for host, come in zip(hosts, coming, strict=True)}


def _ended(link: Link, end: float, within_s: float) -> str:
    """Gives the command and waits until it has ended the agent; the host's boot until then."""
    before: str = link.order("boot_id")
    with contextlib.suppress(AgentError):  # it may be gone before it can answer
        link.order("reboot", shlex.split(link.host.reboot))
    while not link.ended:
        if time.monotonic() > end:
            link.order("stay")
            raise LabError(
                f"host {link.host.name} did not go down within {seconds_text(within_s)} of its reboot command "
                f"{link.host.reboot!r}"
            )
        time.sleep(_LOOK_S)
    return before


def _back(host: Host, before: str, began: float, within_s: float) -> float:
    """Asks a host again and again, until an agent starts there in another boot and with all of its addresses."""
    seen = "nothing"
    while time.monotonic() < began + within_s:
        try:
            with Link(host) as link:
                if link.order("boot_id") == before:
                    seen = "it answers, and was not started anew"
                elif lacking := link.order("lacking", _addresses(host)):
                    seen = f"it is back without its address {lacking[0]}"
                else:
                    return round(time.monotonic() - began, 1)
        except AgentError as error:
            seen = str(error).removeprefix(f"host {host.name}: ")
        time.sleep(_AGAIN_S)
    raise LabError(
        f"host {host.name} was not back within {seconds_text(within_s)} of its reboot command {host.reboot!r}; seen "
        f"last: {seen}"
    )


def _addresses(host: Host) -> list[str]:
    return [*filter(None, (host.ipv4, host.ipv6)), *(address for _, address in host.tunnels.values())]
