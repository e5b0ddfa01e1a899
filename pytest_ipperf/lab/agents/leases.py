"""Lease hosts, so that two jobs never measure on the same host at once."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.facts.leftovers import LeftoverFacts
from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.rpc_method import PATIENCE_S
from pytest_ipperf.lab.inventory.model import Testbed

if TYPE_CHECKING:  # execnet comes with it
    from pytest_ipperf.lab.agents.client import AgentClient

_LOGGED: set[tuple[str, str, str]] = set()
"""Owners, hosts and jobs for which the wait was logged already."""


def new_owner(command: Sequence[str]) -> str:
    """Return the owner text of a job for a `Lease`: a unique id, and a description for those who wait for it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user has no name
        user = str(os.getuid())
    return f"{uuid.uuid4().hex}\n{user}@{socket.gethostname()}: {shlex.join(command)}"


@contextlib.contextmanager
def leased(testbed: Testbed, owner: str, wait_s: float, log: Callable[[str], None]) -> Iterator[None]:
    """Hold this machine, if the testbed uses it, until the context ends; log who is waited for.

    Hosts behind ssh are leased by their agents, see `acquire_remote`.
    """
    if all(ACCESS_METHODS[host.way].far for host in testbed.hosts):
        yield
        return
    lease = Lease(owner)
    try:
        _acquire(lease.acquire, "this machine", wait_s, partial(_log_once, owner, log))
        yield
    finally:
        lease.release()


def acquire_remote(agent: AgentClient, owner: str, wait_s: float, log: Callable[[str], None]) -> None:
    """Make a host's agent hold its lease as long as the agent lives; log who is waited for."""

    def acquire(wait_s: float) -> str:
        return agent.within(wait_s + PATIENCE_S).lease(owner, wait_s)

    _acquire(acquire, f"host {agent.host.name}", wait_s, partial(_log_once, owner, log))


def lease_for(owner: str, wait_s: float, log: Callable[[str], None]) -> Callable[[AgentClient], None]:
    """Return a function that leases a host for an owner and waits up to `wait_s` for it."""
    return lambda agent: acquire_remote(agent, owner, wait_s, log)


def lease_holder(agent: AgentClient) -> str:
    """Return who holds a host's lease; empty if nobody does, or if the host cannot tell."""
    leftovers = agent.collect_facts(["leftovers"], FactsRequest()).of(LeftoverFacts)
    return leftovers.holder if leftovers else ""


def _log_once(owner: str, log: Callable[[str], None], what: str, holder: str) -> None:
    """Log who an owner waits for, once for each job, which may take turns with it epoch by epoch."""
    job = holder.partition(" (")[2] or holder  # each epoch's agent is another process
    if (owner, what, job) not in _LOGGED:
        _LOGGED.add((owner, what, job))
        log(f"waiting for {what}, which is held by {holder}")


def _acquire(acquire: Callable[[float], str], what: str, wait_s: float, log_holder: Callable[[str, str], None]) -> None:
    holder = acquire(0.0)
    if holder:
        log_holder(what, holder)
        holder = acquire(wait_s)
    if holder:
        raise LabError(f"{what} is still held by {holder} after {wait_s:g} s; wait for it or end it")
