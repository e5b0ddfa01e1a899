"""The project's own engines between two hosts of the arena: one process for each end, as agents are, called over pipes.

The benchmarks start `python benchmarks/ends.py near` and `far`; each call is a line of JSON. To show the worth of each
technique, the ends can work without `segments` (UDP GSO and GRO) and without `batches` (sendmmsg and recvmmsg).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import subprocess
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any, NoReturn

from benchmarks.arena import Host
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.base import FarEnd
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.flows.udp import receiver, unpaced_sender
from pytest_ipperf.agent.rpc.codec import Decoder, encoded
from pytest_ipperf.agent.sockets import batch_io
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import Flow

PORTS = (20000, 24999)
DEADLINE_S = 1.0
_DECODER = Decoder()


@dataclass(frozen=True)
class Flown:
    """One run: its outcome, and each end's processor time from the arrival of a call to its reply."""

    outcome: RunData
    notes: tuple[str, ...]
    detail: Mapping[str, Any]
    near_cpu_s: float
    far_cpu_s: float

    def value(self, metric: str) -> float:
        """Return the value of a metric."""
        found = METRICS[metric].value(self.outcome)
        assert found is not None, f"{metric}: {METRICS[metric].lacking}"
        return found

    def fact(self, name: str) -> float:
        """Return one of the facts that the protocol's file explains."""
        return self.outcome.facts[name]


@dataclass(frozen=True)
class Ends:
    """Both ends, ready for calls, with their addresses `source` and `address`."""

    near: subprocess.Popen[str]
    far: subprocess.Popen[str]

    def run(
        self, protocol: str, address: str, *, payload_bytes: int, run_s: float, connections: int = 1,
        warmup_s: float = 0.1, backlog_bytes: int = 0, traffic: TrafficModel | None = None, pattern: str = "",
        **factors: Any,
    ) -> Flown:  # fmt: skip
        """Make one run, of a model if it is of modelled traffic; factors that are not given have their first level."""
        kind = PROTOCOLS[protocol]
        assert isinstance(kind, Flow)
        spec = FlowSpec(
            engine=kind.engine, ipver=6 if ":" in address else 4, source="", address=address, ports=PORTS,
            connections=connections, payload_bytes=payload_bytes,
            factors={factor.name: factor.levels[0] for factor in kind.factors} | factors,
            warmup_s=warmup_s, run_s=run_s, deadline_s=DEADLINE_S, ident=0, backlog_bytes=backlog_bytes,
            model=traffic, pattern=pattern,
        )  # fmt: skip
        listening = FarListening(**_asked(self.far, encoded(FlowSpec, spec)))
        near = _asked(self.near, encoded(FlowSpec, replace(spec, far=listening)))
        far = _asked(self.far, near["report"])
        one, other = _report(near["report"]), _report(far["report"])
        outcome = RunData(
            attempted=one.attempted + other.attempted,
            failed=one.failed | other.failed,
            columns=kind.columns,
            samples=array("d", one.samples + other.samples),
            deadline_s=DEADLINE_S,
            facts=one.facts | other.facts,
        )
        return Flown(outcome, (*one.notes, *other.notes), one.detail | other.detail, near["cpu_s"], far["cpu_s"])


@contextlib.contextmanager
def ends(near: Host, far: Host, *without: str) -> Iterator[Ends]:
    """Start the two processes on these hosts."""
    with contextlib.ExitStack() as stack:
        yield Ends(*(_end(stack, host, which, *without) for host, which in ((near, "near"), (far, "far"))))


def _end(stack: contextlib.ExitStack, host: Host, *words: str) -> subprocess.Popen[str]:
    argv = [*host.words(), sys.executable, __file__, *words]
    process = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    assert process.stdin
    stack.callback(process.stdin.close)  # which ends it
    return process


def _asked(process: subprocess.Popen[str], spec: Mapping[str, Any]) -> Any:
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(spec) + "\n")
    process.stdin.flush()
    said = json.loads(process.stdout.readline() or '{"trouble": "it is gone"}')
    assert "trouble" not in said, said["trouble"]
    return said["answer"]


def _report(plain: Mapping[str, Any]) -> FlowReport:
    return _DECODER.decode(FlowReport, {**plain, "samples": base64.b64decode(plain["samples"])}, "report")


def _plain(report: FlowReport) -> dict[str, Any]:
    return {**encoded(FlowReport, report), "samples": base64.b64encode(report.samples).decode()}


# --- inside one of them -----------------------------------------------------------------------------------------------


def near_end(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Make one run."""
    flow, before_s = _DECODER.decode(FlowSpec, spec, "spec"), _cpu_s()
    report = ENGINES[flow.engine].near(flow, lambda: None)
    return {"report": _plain(report), "cpu_s": _cpu_s() - before_s}


class FarHost:
    """The far end: listens at the first of two calls, finishes at the second."""

    def __init__(self) -> None:
        self._far: FarEnd | None = None
        self._before_s = 0.0

    def answer(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a call; a second first call replaces the far end, as the trial is being repeated."""
        if "engine" in spec:
            if self._far:
                self._far.close()
            flow, self._before_s = _DECODER.decode(FlowSpec, spec, "spec"), _cpu_s()
            self._far = ENGINES[flow.engine].far(flow)
            return asdict(self._far.listening)
        assert self._far, "it does not listen"
        try:
            report = self._far.finish(_report(spec))
            return {"report": _plain(report), "cpu_s": _cpu_s() - self._before_s}
        finally:
            self._far.close()
            self._far = None


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def unable(name: str, _: int) -> NoReturn:
    """Replace the look-up of a system call: say that it is missing."""
    raise batch_io.UnsupportedError(f"{name}: not to be used")


WITHOUT: Mapping[str, Sequence[tuple[ModuleType, str, Any]]] = {
    "segments": ((unpaced_sender, "_SEGMENTS", ()), (receiver, "_SEGMENTS", 1)),
    "batches": ((batch_io, "_libc_function", unable),),
}


def main(which: str, *without: str) -> None:
    """Answer calls until the input ends."""
    for module, name, value in (each for what in without for each in WITHOUT[what]):
        setattr(module, name, value)
    answer = near_end if which == "near" else FarHost().answer
    for line in sys.stdin:
        try:
            said: dict[str, Any] = {"answer": answer(json.loads(line))}
        except IpperfError as error:
            said = {"trouble": f"{which}: {error}"}
        os.write(1, (json.dumps(said) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
