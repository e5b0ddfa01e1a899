"""RPC methods of a run: a host's preparation before its load, the load itself, and its report afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time

from pytest_ipperf.agent.flows import runner
from pytest_ipperf.agent.flows.spec import Background, FlowSpec, NearReports
from pytest_ipperf.agent.kernel.resources import Resources, resources_of
from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.paths.capture import Capture
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import CaptureRequest, DrainRequest, HostReport, RunEnd, RunReady, RunStart
from pytest_ipperf.agent.servers.accepted_mail import (
    INDEX_BYTES,
    Acceptance,
    QueuedMail,
    check_accepted,
    mail_patience_s,
    reserve_space,
)
from pytest_ipperf.agent.sockets.open_connections import open_connections
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping

_POLL_S = 0.001


class RunHandlers(Handlers):
    """Handlers for runs; each host is called once before its load and once after it, whatever there is to do."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        context.stack.enter_context(contextlib.closing(rx_timestamping()))
        self._flows = context.stack.enter_context(contextlib.closing(runner.Flows()))
        self._captures = context.stack.enter_context(contextlib.ExitStack())
        self._cpu_s = 0.0

    def start_run(self, request: RunStart) -> RunReady:
        """Get ready for a run, and wait until no packet of the previous run is on its way."""
        captured = bool(request.capture and self._capture_from(request.capture))
        if request.mail:
            server = self._context.servers[request.mail.server]
            with self._context.channel.keeping_alive(mail_patience_s(request.mail.messages)):
                reserve_space(server.recipe, server.site, request.mail)
        far, background = self._flows.listen(request.flow, request.background) if request.flow else (None, None)
        drained = bool(request.drain and self._drained(request.drain))
        return RunReady(drained=drained, captured=captured, far=far, far_background=background)

    def load(self, spec: LoadSpec) -> LoadResult:
        """Run a load, with the packets counted around it."""
        reporter = self._context.channel.progress_reporter()
        self._context.counters.begin()
        result = load(spec, reporter)
        return dataclasses.replace(result, traffic=self._context.counters.run())

    def flow_run(self, spec: FlowSpec, background: Background | None) -> NearReports:
        """Run the near end of a flow, and of its background traffic, with the packets of both counted around them."""
        reporter = self._context.channel.progress_reporter()
        self._context.counters.begin()
        reporter.measurement_started()
        reports = runner.run(spec, reporter.report_progress, background)
        reporter.measurement_ended()
        counted = dataclasses.replace(reports.flow, control=reporter.control, traffic=self._context.counters.run())
        return dataclasses.replace(reports, flow=counted)

    def finish_run(self, request: RunEnd) -> HostReport:
        """Finish a run, and report everything counted on this host since it began."""
        far, background = self._flows.finish(request.flow, request.background) if request.flow else (None, None)
        servers = self._context.servers.values()
        busy = [said for server in servers if (said := server.wait_quiet(request.limit_s))]
        broken = [server.exit_sentence() for server in servers if not server.alive()]
        before = self._cpu_s
        traffic, tcp = self._context.counters.read(), self._read_servers()
        if request.doubtful and not broken:
            broken = [said for server in servers if (said := server.unresponsive())]
        drained = bool(request.drain and self._drained(request.drain))
        return HostReport(
            busy=busy,
            broken=broken,
            traffic=traffic,
            tcp=tcp,
            cpu_s=self._cpu_s - before,
            accepted=self._accepted(request.mail) if request.mail and not broken else None,
            far=far,
            capture=self._captured() if request.captured else b"",
            resources=self._resources() if request.resources else {},
            far_background=background,
            drained=drained,
        )

    def _resources(self) -> dict[str, Resources]:
        servers = {name: resources_of(server.pids()) for name, server in self._context.servers.items()}
        return {"agent": resources_of([os.getpid()]), **servers}

    def _drained(self, request: DrainRequest) -> bool:
        """Reset the counters once no packet of the previous run is on its way; return whether that came true."""
        end = time.monotonic() + request.closed_s
        while request.closed_s and open_connections():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)
        drained = self._context.counters.wait_drained(request.still_s, request.limit_s)
        self._read_servers()
        return drained

    def _read_servers(self) -> dict[str, int]:
        """Note the servers' processor time so far; return the TCP error counters that moved since the last time."""
        self._cpu_s = sum(server.cpu_seconds() for server in self._context.servers.values())
        return self._context.counters.tcp()

    def _accepted(self, mail: QueuedMail) -> Acceptance:
        server = self._context.servers[mail.server]
        with self._context.channel.keeping_alive(mail_patience_s(len(mail.indices) // INDEX_BYTES)):
            return check_accepted(server.recipe, server.site, mail)

    def _capture_from(self, request: CaptureRequest) -> bool:
        """Capture the first packets of a device from now on; return False if this user may not see them."""
        self._captures.close()
        with contextlib.suppress(PermissionError):
            self._capture = Capture(request.device, request.packets)
            self._captures.callback(self._capture.close)
            return True
        return False

    def _captured(self) -> bytes:
        """Return the captured packets as a pcap file."""
        packets = self._capture.pcap()
        self._captures.close()
        return packets


handlers = RunHandlers
