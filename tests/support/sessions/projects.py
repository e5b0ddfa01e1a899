"""Suites run by an inner pytest, on a simulated testbed whose differences are known.

Only the live testbed is replaced: it simulates a network in which IPv6 is slower by a given share with a given noise.
Everything before it (collection, plan) and after it (the course of a workload, effect, outcome, record, table) is real.
Tests that need no known difference measure for real.
"""

import json
import textwrap
from pathlib import Path

import pytest

import pytest_ipperf.plugin.distribution.scheduler

# Inner sessions in this process remove their modules, and would import these again each time.
import pytest_ipperf.plugin.start
import pytest_ipperf.plugin.summary  # noqa: F401
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.project_settings import STRICT

SUITE = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 10], payload=["1k"])
    @pytest.mark.margin("10%", at_least="0.5ms")
    def test_smtp_response_time(measured, margin):
        assert measured.slowdown <= margin
"""

SYNTHETIC = """
    import contextlib
    import random
    from array import array
    from pytest_ipperf.core.measurement.run_data import RunData
    from pytest_ipperf.core.portable.errors import LabError
    from pytest_ipperf.experiment import workload as experiment
    from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
    from pytest_ipperf.lab.tunnels.setup import Tunnels
    from pytest_ipperf.plugin.measure import fresh_epochs
    from pytest_ipperf.plugin.measure import measured as measuring
    from pytest_ipperf.plugin.session import session
    from pytest_ipperf.protocols.base import PHASES

    SLOWER, NOISE, BROKEN, INVALID, TWIN = {slower!r}, {noise!r}, {broken!r}, {invalid!r}, {twin!r}
    FRESH, FROM_EPOCH, RUN_S, CONNECTIONS = {fresh!r}, {from_epoch!r}, {run_s!r}, {connections!r}
    LOG = {log!r}

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    class LiveTestbed:
        epochs = -1
        tunnels = Tunnels()

        class offloads:
            def switch(workload):
                return {{}}

        def __init__(self):
            LiveTestbed.epochs += 1
            self.blocks = {{}}

        def serve(self, workload, wanted, state, provisioning):
            if str(workload) in BROKEN and self.epochs >= FROM_EPOCH:
                raise LabError("host server: the server died")
            return ServerEndpoint("synthetic", "1.0", True, 2525, 5353)

        def verify(self, arm, service, workload, deadline_s):
            return ""

        def lacking(self, arm):
            return ""

        def logs(self):
            return {{"synthetic": "the end of its log"}}

        def prove(self, arm, service, workload, **_):
            found = [INVALID] if INVALID and arm.ipver == 6 and self.epochs >= FROM_EPOCH else []
            return {{"contradictions": found, "trains": {{}}}}

        def fingerprint(self, arm):
            return {{}}

        def baseline_cost(self, arm, service, workload, *, bursts, deadline_s):
            return self.receipt(1, 0.001)

        def receipt(self, count, value):
            row = (0.0, value / 8, value / 4, value / 2, value, 0.0, 0.0)
            samples = array("d", row * count)
            data = RunData(attempted=count, failed={{}}, columns=PHASES, samples=samples, deadline_s=10.0)
            return RunResult(data=data, proof={{}}, violations=(), unsettled=())

        def run(self, arm, service, workload, *, bursts, deadline_s, duration, pattern="", capture=0):
            number = self.blocks[arm] = self.blocks.get(arm, -2) + 1
            # The noise of a run does not depend on the order, so that every seed gives the same verdicts.
            rng = random.Random(f"{{workload}} {{arm}} {{self.epochs}} {{number}}")
            known = SLOWER if self.epochs < 100 or FRESH is None else FRESH
            slower = known.get(str(workload), 0.0) if isinstance(known, dict) else known
            is_slower = arm.level[-3:] == "off" if arm.level else arm.ipver == 6
            value = 0.02 * rng.lognormvariate(0, NOISE) * (1 + slower * is_slower + TWIN * arm.twin)
            CLOCK.now += RUN_S
            return self.receipt(CONNECTIONS, value)

    @contextlib.contextmanager
    def live_testbed(*_, transports, backend, teardowns):
        yield LiveTestbed()

    def measure(plan, *arguments, **questions):
        with open(LOG, "a") as log:
            print(plan.name, *plan.arms, file=log)
        LiveTestbed.epochs = 99 if plan.confirms else -1
        return experiment.measure(plan, *arguments, **questions)

    CLOCK = Clock()
    if RUN_S:
        experiment.time = session.time = CLOCK
    experiment.live_testbed = live_testbed
    experiment.leased = lambda *_: contextlib.nullcontext()
    measuring.measure = fresh_epochs.measure = measure
"""


PROGRAM = """
import contextlib, io, json, sys
from pytest_ipperf import cli
told = []
for argv in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        status = cli.main(argv)
        sys.stdout.flush()
        told.append([status, sys.stdout.buffer.getvalue().decode(errors="replace")])
print(json.dumps(told))
"""


def program(*calls: list[str]) -> list[tuple[int, str]]:
    """Return the status and output of each call of the program.

    They run in a process of their own: pytester forgets what a test has loaded, and numpy is loaded once in a process.
    """
    reported = run_python(["-c", PROGRAM, json.dumps(calls)])
    assert reported.returncode == 0, reported.stderr
    return [(status, text) for status, text in json.loads(reported.stdout)]


class Project:
    """A folder with a suite, and the workloads that its experiment was asked to measure.

    Each simulated run has so many `connections`, as a real one has, but where a test file's own `project` has fewer.
    """

    connections = 300

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.log = pytester.path / "measured.log"
        pytester.makepyfile(SUITE)
        pytester.makepyprojecttoml(STRICT)

    def network(self, *, slower=0.0, noise=0.005, broken=(), invalid="", from_epoch=0, run_s=0.0, twin=0.0, fresh=None):
        """Make the inner pytest measure a simulated network; `slower` is one share, or shares by the workloads' texts.

        Workloads are `broken` or `invalid` from epoch `from_epoch` on. With `run_s`, time passes in runs only, so many
        seconds in each. The reference's twin is slower by `twin`. Fresh epochs, which confirm an excess, are those
        from 100 on; IPv6 is slower there by `fresh` if that is given.
        """
        text = textwrap.dedent(SYNTHETIC).format(
            slower=slower, noise=noise, broken=tuple(broken), invalid=invalid, from_epoch=from_epoch, run_s=run_s,
            twin=twin, fresh=fresh, log=str(self.log), connections=self.connections,
        )  # fmt: skip
        self.pytester.makeconftest(text)

    def run(self, *arguments: str, testbed: str = "loopback") -> pytest.RunResult:
        """Run an inner pytest in a process of its own, so that its imports and patches do not leak into this one."""
        return self.pytester.runpytest_subprocess(*self._arguments(testbed, arguments))

    def ask(self, *arguments: str, testbed: str = "loopback") -> pytest.RunResult:
        """Run an inner pytest in this process, which is faster, for sessions that measure nothing."""
        return self.pytester.runpytest_inprocess(*self._arguments(testbed, arguments))

    @staticmethod
    def _arguments(testbed: str, arguments: tuple[str, ...]) -> list[str]:
        return [*([f"--testbed={testbed}"] if testbed else []), "-p", "no:randomly", *arguments]

    def kept(self) -> list[dict]:
        """Return all events of the journals in the folder, session by session, without incomplete lines."""
        sessions: dict[Path, list[dict]] = {}
        for file in sorted((self.pytester.path / ".ipperf").rglob("*.jsonl")):
            lines = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            sessions.setdefault(file.parent, []).extend(map(json.loads, lines))
        # Not by the folders' names, which say the second in which a session began.
        began = sorted(filter(None, sessions.values()), key=lambda events: min(each.get("at", 0) for each in events))
        return [event for events in began for event in events]

    @property
    def measured(self) -> list[str]:
        """Return the workloads that the experiment was asked to measure, with their arms."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)
