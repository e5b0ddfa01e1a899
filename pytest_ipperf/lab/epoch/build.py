"""Build a testbed with its agents and the paths of its arms, before anything is served or measured on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pytest_ipperf.agent.host_state.dirty_marks import dirty_reason
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.fork_server import ForkServer
from pytest_ipperf.lab.agents.rpc_method import all_replies
from pytest_ipperf.lab.agents.shutdown import leftovers_error, remedy, shut_down
from pytest_ipperf.lab.agents.unreachable import UNREACHABLE
from pytest_ipperf.lab.epoch.teardowns import Teardowns
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host, Links, Testbed
from pytest_ipperf.lab.netns.namespaces import link_nodes, namespaces, node_of
from pytest_ipperf.lab.netns.veth import devices
from pytest_ipperf.lab.tunnels.setup import Tunnels, set_up_tunnels


@dataclass(frozen=True, slots=True)
class BuiltTestbed:
    """A testbed that is up: command prefixes by host name (in a lab), agents by role, and tunnels."""

    entries: Mapping[str, Sequence[str]]
    agents: Mapping[str, AgentClient]
    tunnels: Tunnels


@contextlib.contextmanager
def build_testbed(
    testbed: Testbed,
    *,
    transports: Collection[str] = (),
    backend: str = "",
    lease: Callable[[AgentClient], None] = lambda _: None,
    teardowns: Teardowns | None = None,
) -> Iterator[BuiltTestbed]:
    """Build a lab's nodes, start the agents, and set up the tunnels of these transports; undo all of it afterwards.

    With `teardowns` a testbed is undone in the background if nothing has failed: a lab once the nodes of the next one
    are linked, one of other hosts while its next agents start. Nothing that was built here before is left once the
    testbed is up; on other hosts than a lab's the new agents do nothing before that.

    `lease` is called for every host whose agent holds its lease, in the order of machine names, so that jobs that name
    their hosts alike cannot deadlock.
    """
    with contextlib.ExitStack() as stack:
        if testbed.is_lab and (mark := dirty_reason(networks=False)):  # a lab has networks of its own
            raise LabError(f"this machine: {mark}; {remedy(testbed.name)}")
        forks = stack.enter_context(ForkServer()) if testbed.is_lab else None
        entries = stack.enter_context(namespaces(testbed, linked=False)) if testbed.is_lab else {}
        agents = _start_agents(testbed, entries, forks, stack, teardowns or Teardowns())
        if teardowns and not testbed.is_lab:
            teardowns.finish()  # hosts have one lease, and one network for all epochs
        _prepare_hosts(testbed, agents, lease)
        tunnels = stack.enter_context(set_up_tunnels(testbed, agents, transports, backend))
        if testbed.links != Links():  # rate, loss and delay apply to single packets
            _unmerge(testbed, agents, tunnels)
        if testbed.is_lab:
            _watch(testbed, agents)
        if teardowns:
            teardowns.finish()  # nothing may be served or measured beside it
        yield BuiltTestbed(entries, agents, tunnels)
        if teardowns:
            teardowns.postpone(stack.pop_all())


def _prepare_hosts(testbed: Testbed, agents: Mapping[str, AgentClient], lease: Callable[[AgentClient], None]) -> None:
    """Lease and pin the hosts; LabError if one is marked as dirty."""
    for agent in sorted(agents.values(), key=lambda each: each.host.machine):
        if ACCESS_METHODS[agent.host.way].far:
            lease(agent)
        if agent.host.cpus:
            _pin(agent, wished=testbed.is_lab or testbed.name in BUILTIN)
    beside = list(agents.values())
    if testbed.is_lab:
        all_replies({role: agent.without_rollback.request() for role, agent in agents.items()}, beside=beside)
        return
    for role, mark in all_replies({role: agent.dirty_reason.request() for role, agent in agents.items()}).items():
        if mark:
            raise LabError(f"host {agents[role].host.name}: {mark}; {remedy(testbed.name)}")


def _watch(testbed: Testbed, agents: Mapping[str, AgentClient]) -> None:
    """Make each client count the bare IPv6 packets of its port."""
    ports = devices(testbed)
    for role in testbed.clients:
        (device,) = ports[role]
        agents[role].watch(device)


def _start_agents(
    testbed: Testbed,
    entries: Mapping[str, Sequence[str]],
    forks: ForkServer | None,
    stack: contextlib.ExitStack,
    teardowns: Teardowns,
) -> dict[str, AgentClient]:
    """Start the agents in parallel, and link the nodes of a lab meanwhile; return the agents by role.

    The stack shuts them down, also after a failed start.
    """
    with ThreadPoolExecutor(len(testbed.roles)) as pool:
        starting = {
            role: pool.submit(_link, host, entries.get(host.name, ()), forks) for role, host in testbed.roles.items()
        }
        stack.push(partial(_shut_down, testbed, starting.values()))
        if testbed.is_lab:
            link_nodes(testbed, entries)
        # The kernel makes and removes devices one at a time, and takes long to remove those of the lab before.
        teardowns.begin_postponed()
    return {role: start.result() for role, start in starting.items()}


def _link(host: Host, entry: Sequence[str], forks: ForkServer | None) -> AgentClient:
    fork = partial(forks.fork, node_of(entry)) if forks else None
    return UNREACHABLE.started(host, entry, partial(AgentClient, host, entry, fork=fork))


def _shut_down(
    testbed: Testbed,
    starting: Collection[Future[AgentClient]],
    _kind: object,
    error: BaseException | None,
    _trace: object,
) -> None:
    leftovers = shut_down([start.result() for start in starting if start.exception() is None])
    # A Ctrl-C is not replaced; the next job reports the marked host.
    if leftovers and (error is None or isinstance(error, Exception)):
        raise leftovers_error(leftovers, [testbed.name], error)


def _unmerge(testbed: Testbed, agents: Mapping[str, AgentClient], tunnels: Tunnels) -> None:
    ports, pending = devices(testbed), {}
    for role, agent in agents.items():
        ends = (testbed.paths[each].ends.get(role) for each in tunnels.backends)
        pending[role] = agent.unmerged.request(list(ports[role]), [end.device for end in ends if end])
    all_replies(pending, beside=list(agents.values()))


def _pin(agent: AgentClient, *, wished: bool) -> None:
    """Bind a host's work to its processors; if only `wished`, it may be impossible, as with a single processor."""
    wanted = sorted(agent.host.cpus)
    held = agent.pin(wanted)
    if not wished and held != wanted:
        asked, may = ", ".join(map(str, wanted)), ", ".join(map(str, held))
        raise LabError(f"host {agent.host.name}: cpus = {asked} in hosts.ini cannot be had; it may use {may}")
