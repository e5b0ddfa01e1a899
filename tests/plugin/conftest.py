"""A suite to be run by an inner pytest, on a testbed whose differences are known because they are made.

The experiment alone is replaced: it stands for a network in which IPv6 is slower by a given share with a given noise,
which no machine can have to order. Everything before it (collection, plan) and after it (effect, outcome, record,
table) is the real thing. What does not need a known difference is measured for real, on loopback.
"""

import json
import textwrap

import pytest

SUITE = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 10], payload=["1k"])
    @pytest.mark.margin("10%", at_least="0.5ms")
    def test_smtp_response_time(measured, margin):
        assert measured.slowdown <= margin
"""

SYNTHETIC = """
    import random
    from pytest_ipperf.core.errors import LabError
    from pytest_ipperf.core.run import Run
    from pytest_ipperf.experiment import Measurement
    from pytest_ipperf.lab.standing import Receipt, Service
    from pytest_ipperf.plugin import measuring

    SLOWER, NOISE, BROKEN, INVALID = {slower!r}, {noise!r}, {broken!r}, {invalid!r}
    LOG = {log!r}

    def measure(plan, testbed, conditions, hear):
        with open(LOG, "a") as log:
            print(plan.workload, *plan.arms, file=log)
        if str(plan.workload) in BROKEN:
            raise LabError("host server: the server died")
        service = Service("synthetic", "1.0", True, 2525, 5353)
        hear.epoch(0, service, {{}}, {{}})
        runs = []
        for epoch in plan.epochs:
            for number, block in enumerate([epoch.warmups, *epoch.blocks], -1):
                for slot, arm in enumerate(block):
                    # The noise of a run does not depend on the order, so that every seed gives the same verdicts.
                    rng = random.Random(f"{{plan.workload}} {{arm}} {{epoch.number}} {{number}}")
                    value = 0.02 * rng.lognormvariate(0, NOISE) * (1 + SLOWER * (arm.ipver == 6))
                    run = Run(arm=arm, epoch=epoch.number, block=number, slot=slot, warmup=number < 0,
                              started_at=0.0, attempted=30, failed={{}}, samples=(value,) * 30, value=value)
                    runs.append(run)
                    row = (0.0, value / 8, value / 4, value / 2, value)
                    hear.run(run, Receipt(attempted=30, failed={{}}, rows=(row,), packed=b"", proof={{}},
                                          contradictions=(), unsettled=()))
        hear.ended()
        return Measurement(plan=plan, service=service, runs=tuple(runs), seconds=1.0,
                           rows={{arm: (row,) for arm in plan.arms}},
                           invalid={{arm: INVALID for arm in plan.arms if INVALID and arm.ipver == 6}})

    measuring.measure = measure
"""


class Project:
    """A folder with a suite, and what its experiment was asked for."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.log = pytester.path / "measured.log"
        pytester.makepyfile(SUITE)
        pytester.makepyprojecttoml("[tool.pytest]\nstrict = true\n")

    def network(self, *, slower=0.0, noise=0.005, broken=(), invalid=""):
        """From now on the inner pytest measures a made network."""
        text = textwrap.dedent(SYNTHETIC).format(
            slower=slower, noise=noise, broken=tuple(broken), invalid=invalid, log=str(self.log)
        )
        self.pytester.makeconftest(text)

    def run(self, *arguments: str, testbed: str = "loopback") -> pytest.RunResult:
        """An inner pytest in a process of its own: what it loads and replaces must not leak into this one."""
        return self.pytester.runpytest_subprocess(*self._arguments(testbed, arguments))

    def ask(self, *arguments: str, testbed: str = "loopback") -> pytest.RunResult:
        """The same within this process, which is quicker, where nothing is measured."""
        return self.pytester.runpytest_inprocess(*self._arguments(testbed, arguments))

    @staticmethod
    def _arguments(testbed: str, arguments: tuple[str, ...]) -> list[str]:
        return [*([f"--testbed={testbed}"] if testbed else []), "-p", "no:randomly", *arguments]

    def kept(self) -> list[dict]:
        """All events of the journals below the folder."""
        files = sorted((self.pytester.path / ".ipperf").rglob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    @property
    def measured(self) -> list[str]:
        """The workloads that the experiment was asked for, with their arms."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)
