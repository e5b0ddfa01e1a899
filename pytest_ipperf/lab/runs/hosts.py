"""Prepare the hosts of a testbed for a run and finish it, with at most one call to each host before and after."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pytest_ipperf.agent.flows.spec import Background, FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.rpc.messages import CaptureRequest, DrainRequest, HostReport, RunEnd, RunReady, RunStart
from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail, QueuedMail
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.rpc_method import PATIENCE_S, PendingReply, all_replies
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.flows import BESIDE_S
from pytest_ipperf.transports.base import ROUTER, SERVER

_CLOSED_S = 2.0
# Within this time a full queue of a 1 Mbit/s link drains; runs on slower links are proven less strictly. Three frames
# may be under way from host to host.
_DRAINED_S = 15.0
_FRAMES_BITS = 3 * 1538 * 8


@dataclass(slots=True)
class RunHosts:
    """Hosts of a testbed around one run: whether they have `drained`, who captures, and the far end of a flow.

    `drain_s` and `finish_s` are the seconds of their preparation and, once it is over, of their finish.
    `far_background` is the far end of background traffic. `clients_drain` is how clients drain; none of them has to
    before the next run if they have in the finish of this one (`clients_drained`).
    """

    agents: Mapping[str, AgentClient]
    drained: bool
    capturing: frozenset[str] = frozenset()
    far: FarListening = field(default_factory=FarListening)
    drain_s: float = 0.0
    finish_s: float = 0.0
    far_background: FarListening | None = None
    clients_drain: Mapping[str, DrainRequest] = field(default_factory=dict)
    clients_drained: bool = False

    def listening(self, spec: FlowSpec, background: Background | None) -> tuple[FlowSpec, Background | None]:
        """Return the specifications for the near ends, with what they have to know of the far ends."""
        known = replace(spec, far=self.far)
        if background is None or self.far_background is None:
            return known, None
        return known, replace(background, flow=replace(background.flow, far=self.far_background))

    def finish(
        self,
        *,
        limit_s: float = 0.0,
        doubtful: bool = False,
        mail: QueuedMail | None = None,
        flow: FlowReport | None = None,
        background: FlowReport | None = None,
        flow_s: float = 0.0,
        served: bool = False,
        drains: bool = False,
    ) -> dict[str, HostReport]:
        """Finish a run at the server, the router, and clients that capture; return their reports by role.

        The server is asked first and waits up to `limit_s` until it has nothing left to do; with `drains` the clients
        wait meanwhile until their connections are over. A flow may take `flow_s` to finish; it is `served` if a server
        program is its far end. See `RunEnd` for the other parameters. Raises LabError if a server died during a load or
        answers nobody, before another host's trouble, which would hide that.
        """
        began = time.monotonic()
        end = RunEnd(
            limit_s=limit_s, doubtful=doubtful, mail=mail, flow=flow, background=background,
            captured=SERVER in self.capturing, resources=served,
        )  # fmt: skip
        beside = list(self.agents.values())
        drain = self.clients_drain if drains else {}
        draining = self._finish_others(drain, drain)
        try:
            reports = {SERVER: self._finish_server(end, max(PATIENCE_S, flow_s), serves=flow is None or served)}
        except Exception:
            with contextlib.suppress(LabError):  # unread, they would be taken for later replies
                all_replies(draining, beside=beside)
            raise
        asked = [role for role in self.agents if role == ROUTER or role in self.capturing]
        rest = self._finish_others(role for role in asked if role not in {SERVER, *draining})
        reports |= all_replies(draining | rest, beside=beside)
        self.clients_drained = drains and all(reports[role].drained for role in draining)
        self.finish_s = time.monotonic() - began
        return reports

    def _finish_server(self, end: RunEnd, patience_s: float, *, serves: bool) -> HostReport:
        """Return the server's report; LabError if one of the servers that it `serves` by died or answers nobody."""
        server = self.agents[SERVER]
        report = server.within(patience_s).finish_run(end)
        if serves and report.broken:
            raise LabError(f"host {server.host.name}: {report.broken[0]}")
        return report

    def _finish_others(
        self, roles: Iterable[str], drain: Mapping[str, DrainRequest] = MappingProxyType({})
    ) -> dict[str, PendingReply[HostReport]]:
        """Ask hosts beside the server to finish, and those of `drain` to drain; return at once."""
        ends = {role: RunEnd(captured=role in self.capturing, drain=drain.get(role)) for role in roles}
        return {role: self.agents[role].finish_run.request(end) for role, end in ends.items()}

    def captures(self, reports: Mapping[str, HostReport]) -> dict[str, bytes]:
        """Return what was captured, by role."""
        return {role: reports[role].capture for role in self.agents if role in self.capturing}


def start_hosts(
    testbed: Testbed,
    agents: Mapping[str, AgentClient],
    *,
    mail: ExpectedMail | None = None,
    flow: FlowSpec | None = None,
    background: Background | None = None,
    capture: Mapping[str, CaptureRequest] | None = None,
    clients_drained: bool = False,
) -> RunHosts:
    """Prepare all hosts for a run, and reset their packet counters once nothing of the previous run is under way.

    Clients come first, unless they have drained since that run: only when they have received the last packets of all
    connections do the counters of the others belong to the next run. Servers have finished after their run already.
    """
    began, links, capture = time.monotonic(), testbed.links, capture or {}
    still_s = 2 * links.delay_s + (_FRAMES_BITS / links.rate_bit_s if links.rate_bit_s else 0.0)
    closed_s = _CLOSED_S if testbed.exclusive else 0.0
    drain = DrainRequest(still_s=still_s, limit_s=_DRAINED_S)
    clients_drain = DrainRequest(closed_s=closed_s, still_s=still_s, limit_s=_DRAINED_S)
    drains = {role: clients_drain for role in testbed.clients if closed_s or still_s}
    starts = {
        role: RunStart(drain=clients_drain, capture=capture.get(role))
        for role in testbed.clients
        if (role in drains and not clients_drained) or role in capture
    }
    ready = _all_ready(agents, starts, PATIENCE_S)
    drained = all(each.drained for each in ready.values())
    starts = {
        role: RunStart(
            drain=drain if drained else DrainRequest(),  # which resets the counters at once
            mail=mail if role == SERVER else None,
            flow=flow if role == SERVER else None,
            background=background if role == SERVER else None,
            capture=capture.get(role),
        )
        for role in agents
        if role not in testbed.clients
    }
    # The far end of a flow waits until its host has reported the lost fragments of the previous run through the tunnel;
    # only then may the router count the next run.
    first = [SERVER] if flow else list(starts)
    others = _all_ready(agents, {role: starts[role] for role in first}, PATIENCE_S + (BESIDE_S if flow else 0.0))
    others |= _all_ready(agents, {role: start for role, start in starts.items() if role not in first}, PATIENCE_S)
    return RunHosts(
        agents,
        drained=drained and all(each.drained for each in others.values()),
        capturing=frozenset(role for role, each in {**ready, **others}.items() if each.captured),
        far=others[SERVER].far or FarListening(),
        drain_s=time.monotonic() - began,
        far_background=others[SERVER].far_background,
        clients_drain=drains,
    )


def weaker_proof(testbed: Testbed, *, settled: bool) -> tuple[str, ...]:
    """Return the note of a run whose packets of other IP versions may belong to the previous run and prove nothing."""
    if settled or not testbed.exclusive:
        return ()
    return ("the run before had not ended on the network, so packets of the other IP version were not held against it",)


def _all_ready(
    agents: Mapping[str, AgentClient], starts: Mapping[str, RunStart], patience_s: float
) -> dict[str, RunReady]:
    pending = {role: agents[role].start_run.request(start) for role, start in starts.items()}
    return all_replies(pending, patience_s, list(agents.values()))
