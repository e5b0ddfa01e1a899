"""Examine a testbed: start agents on all hosts in parallel, collect their facts, and shut them down."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.paths.clock_exchange import estimate
from pytest_ipperf.agent.paths.clock_sync import sample_clocks
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.clocks import exchange_stamps
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.agents.leases import lease_holder, new_owner
from pytest_ipperf.lab.agents.shutdown import leftovers_error, shut_down
from pytest_ipperf.lab.doctor.checks import CHECKS
from pytest_ipperf.lab.doctor.checks.base import Finding
from pytest_ipperf.lab.doctor.checks.reboot import programs
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed, Reachability
from pytest_ipperf.lab.doctor.reachability import host_pairs, probe_reachability
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.inventory.snmp_source import Source
from pytest_ipperf.lab.netns.namespaces import namespaces
from pytest_ipperf.lab.snmp.client import description
from pytest_ipperf.lab.tunnels.backend_choice import candidates
from pytest_ipperf.transports.base import ROUTER

MACHINE = "this machine"
_OF_NODES = ("addresses", "limits", "ports")
"""Facts collected for each node of a lab; all other facts are those of the machine."""
_LAST = "load"  # collected last, as the start of our agents is load, too
_PATIENCE_S = 20.0
_STAMPS = 9


def examine(testbed: Testbed, inventory: Mapping[str, Testbed], *, clear: bool = False) -> list[Finding]:
    """Return the findings about a testbed, in the order of the checks; `clear` removes marks first."""
    with contextlib.ExitStack() as stack:
        try:
            enough_descriptors(testbed)
            entries = stack.enter_context(namespaces(testbed)) if testbed.is_lab else {}
        except LabError as error:
            trouble = str(error).removeprefix(f"testbed {testbed.name}: ")
            observed = {MACHINE: HostObservation(host=_machine(), roles=(), trouble=trouble)}
            return list(_findings(ObservedTestbed(testbed=testbed, hosts=observed)))
        return list(_findings(_observe(testbed, inventory, entries, clear=clear)))


def _findings(observations: ObservedTestbed) -> Iterator[Finding]:
    for name in sorted(CHECKS, key=lambda each: CHECKS[each].rank):
        yield from CHECKS[name].findings(observations)


def _machine() -> Host:
    return Host(name=MACHINE, way="local", settings={})


def _hosts(testbed: Testbed) -> dict[str, HostObservation]:
    """Return the hosts by name; if several are on this machine, it is an extra host with their common facts."""
    here = [role for role, host in testbed.roles.items() if not ACCESS_METHODS[host.way].far]
    several = len({testbed.roles[role].name for role in here}) > 1
    hosts = {MACHINE: HostObservation(host=_machine(), roles=tuple(here))} if several else {}
    for role, host in testbed.roles.items():
        roles = hosts[host.name].roles if host.name in hosts else ()
        hosts[host.name] = HostObservation(host=host, roles=(*roles, role), node=several and role in here)
    return hosts


def _observe(
    testbed: Testbed, inventory: Mapping[str, Testbed], entries: Mapping[str, Sequence[str]], *, clear: bool
) -> ObservedTestbed:
    observed = _hosts(testbed)
    agents: dict[str, AgentClient] = {}
    staying: list[str] = []
    with ThreadPoolExecutor(len(observed)) as pool, contextlib.ExitStack() as stack:
        stack.push(partial(_shut_down, testbed, agents, staying))
        opened = dict(zip(observed, pool.map(lambda each: _start_agent(each, entries), observed.values()), strict=True))
        agents |= {name: agent for name, agent in opened.items() if agent is not None}
        asked = {name: _request(testbed, observed[name]) for name in agents}
        answering = [
            pool.submit(_ask_snmp, each, each.host.snmp)
            for each in observed.values()
            if isinstance(each.host.snmp, Source)
        ]
        list(pool.map(lambda name: _observe_host(agents[name], observed[name], asked[name], clear=clear), agents))
        for each in answering:
            each.result()
        _lease(testbed, agents, observed)
        crossings = tuple(_probe_all(testbed, agents, observed))
        list(pool.map(lambda name: _observe_load(agents[name], observed[name], asked[name]), agents))
    others = _conflicting_testbeds(testbed, inventory)
    return ObservedTestbed(testbed=testbed, hosts=observed, reachability=crossings, others=others, leftovers=staying)


def _shut_down(
    testbed: Testbed,
    agents: Mapping[str, AgentClient],
    staying: list[str],
    _kind: object,
    error: BaseException | None,
    _trace: object,
) -> None:
    """Shut the agents down; after an error, raise what they left behind, unless it is a Ctrl-C."""
    staying += shut_down(agents.values())
    if staying and isinstance(error, Exception):
        raise leftovers_error(staying, [testbed.name], error)


def _start_agent(observed: HostObservation, entries: Mapping[str, Sequence[str]]) -> AgentClient | None:
    began = time.monotonic()
    try:
        agent = AgentClient(observed.host, entries.get(observed.host.name, ()))
    except LabError as error:
        reason = str(error).removeprefix(f"host {observed.host.name}: ")
        observed.trouble = reason.removeprefix(f"no agent could be started by access method {observed.host.way}: ")
        return None
    observed.start_s = time.monotonic() - began
    return agent


def _request(testbed: Testbed, observed: HostObservation) -> FactsRequest:
    """Return the parameters of the facts of a host."""
    host = observed.host
    tunnelled = any(path.ends for path in testbed.paths.values())
    return FactsRequest(
        addresses=[address for address in (host.ipv4, host.ipv6) if address],
        peers=[
            (host.address(ipver), other.address(ipver))
            for other in _peers(testbed, observed)
            for ipver in (4, 6)
            if host.address(ipver) and other.address(ipver)
        ],
        ports=host.ports,
        programs=list(programs(host.reboot)),
        backends=list(candidates(testbed, "")) if tunnelled else [],
        existing=list(host.tunnels.values()),
    )


def _peers(testbed: Testbed, observed: HostObservation) -> list[Host]:
    """Return the hosts that a host exchanges packets with; never client and client, the router only for tunnels."""
    never = (
        {*testbed.clients, *([] if testbed.paths else [ROUTER])} if set(observed.roles) <= {*testbed.clients} else set()
    )
    others = [host for role, host in testbed.roles.items() if host.name != observed.host.name and role not in never]
    return others or [observed.host]


def _observe_host(agent: AgentClient, observed: HostObservation, request: FactsRequest, *, clear: bool) -> None:
    """Collect all facts of one host except its load."""
    names = [name for name in FACTS if name != _LAST and (name in _OF_NODES or not observed.node)]
    with _recording_trouble(observed):
        _measure_clock(agent, observed)
        if not observed.node and not lease_holder(agent):
            observed.repairs = agent.repair(clear)
        _facts(agent, observed, names, request)
        if ACCESS_METHODS[agent.host.way].far:
            observed.cache = agent.cache()


def _observe_load(agent: AgentClient, observed: HostObservation, request: FactsRequest) -> None:
    """Collect the load of a host, unless the host has failed already."""
    if not observed.node and not observed.trouble:
        with _recording_trouble(observed):
            _facts(agent, observed, [_LAST], request)


def _facts(agent: AgentClient, observed: HostObservation, names: Sequence[str], request: FactsRequest) -> None:
    collected = agent.within(_PATIENCE_S).collect_facts(list(names), request)
    observed.facts.found.update(collected.found)
    observed.facts.troubles.update(collected.troubles)


@contextlib.contextmanager
def _recording_trouble(observed: HostObservation) -> Iterator[None]:
    """Record a LabError as the host's trouble."""
    try:
        yield
    except LabError as error:
        observed.trouble = str(error).removeprefix(f"host {observed.host.name}: ")


def _measure_clock(agent: AgentClient, observed: HostObservation) -> None:
    """Measure the round trip of a call and the offset of the host's wall clock from ours."""
    exchanges = exchange_stamps(agent, _STAMPS)
    observed.call_s = statistics.median(back - sent for sent, _, _, back in exchanges) * 1e-9
    ahead_s, error_s = estimate(exchanges)
    here, there = sample_clocks(), agent.clock()
    if there.whose == here.whose:
        observed.skew_s = (0.0, 0.0)
    else:
        observed.skew_s = ahead_s + there.real_s - here.real_s, error_s


def _ask_snmp(observed: HostObservation, source: Source) -> None:
    """Ask a host by SNMP from this machine, which works without an agent."""
    try:
        observed.answer = description(source), ""
    except LabError as error:
        observed.answer = "", str(error)


def _lease(testbed: Testbed, agents: Mapping[str, AgentClient], observed: Mapping[str, HostObservation]) -> None:
    """Lease all hosts, so that nobody starts measuring while probes are sent; the agents release them at their end."""
    owner = new_owner(["pytest-ipperf", "doctor", f"--testbed={testbed.name}"])
    for name in sorted(agents, key=lambda each: observed[each].host.machine):
        each = observed[name]
        if any(other.busy_with for other in observed.values()):
            return
        if each.node or each.trouble:
            continue
        with _recording_trouble(each):
            each.lease_holder = agents[name].lease(owner, 0.0)


def _probe_all(
    testbed: Testbed, agents: Mapping[str, AgentClient], observed: Mapping[str, HostObservation]
) -> Iterator[Reachability]:
    """Probe one path after another, as an agent has one responder; none while somebody measures."""
    if any(each.busy_with for each in observed.values()):
        return
    for way in host_pairs(testbed):
        if all(name in agents and not observed[name].trouble for name in (way.here, way.there)):
            yield probe_reachability(agents, observed, way)


def _conflicting_testbeds(testbed: Testbed, inventory: Mapping[str, Testbed]) -> dict[str, str]:
    """Return what other testbeds share with this one, by their names."""
    if testbed.is_lab:
        return {}
    guarded = testbed.guarded
    return {
        name: ", ".join(sorted(shared))
        for name, other in inventory.items()
        if name != testbed.name and not other.is_lab and (shared := guarded & other.guarded)
    }
