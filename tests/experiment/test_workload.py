"""The course of a workload, on a testbed that is a script.

The standing testbed is replaced, since no real one can be had to contradict its proof at a chosen run.
"""

import contextlib

import pytest

from pytest_ipperf.core.cell import Arm, Cell, Workload
from pytest_ipperf.core.design import DESIGNS
from pytest_ipperf.core.errors import InvalidError, LabError
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.plan import plan_for
from pytest_ipperf.experiment import Conditions, answer, measure, workload
from pytest_ipperf.lab.inventory import BUILTIN
from pytest_ipperf.lab.standing import Receipt, Service

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
WORKLOAD = Workload(testbed="loopback", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
CONDITIONS = Conditions(
    design=DESIGNS["quick"], reference=FOUR, server="auto", deadline_s=10.0, owner="test", wait_s=1.0
)


class Script:
    """A standing testbed that does as told: for a run's number and arm, what it brings home."""

    def __init__(self, told, contradicts=lambda arm, epoch: []):
        self._told, self._contradicts = told, contradicts
        self.epochs, self.ran = 0, []

    @contextlib.contextmanager
    def stand(self, *_):
        yield self
        self.epochs += 1

    def serve(self, *_):
        return Service(name="script", version="1", embedded=True, port=1, resolver_port=2)

    def prove(self, arm, *_):
        return {"contradictions": self._contradicts(arm, self.epochs)}

    def fingerprint(self, _):
        return {}

    def run(self, arm, service, workload, *, bursts, deadline_s):
        completed, failed, contradictions = self._told(len(self.ran), arm)
        assert (bursts, deadline_s) == (30, 10.0)
        self.ran.append(arm)
        rows = tuple((0.0, 0.001, 0.002, 0.003, 0.02 + 0.001 * (len(self.ran) % 3)) for _ in range(completed))
        return Receipt(
            attempted=completed + sum(failed.values()), failed=failed, rows=rows, packed=b"", proof={},
            contradictions=tuple(contradictions), unsettled=(),
        )  # fmt: skip


class Heard(list):
    """A listener that only remembers."""

    def note(self, text):
        self.append(text)

    def epoch(self, number, service, paths, hosts):
        self.append(("epoch", number, sorted(map(str, paths))))

    def run(self, run, receipt):
        self.append(("run", run.epoch, run.block, str(run.arm)))

    def broke_off(self, sentence):
        self.append(("broke off", sentence))

    def ended(self):
        self.append("ended")


@pytest.fixture
def course(monkeypatch):
    """Measures the workload by a script; gives the script, what was heard, and what came of it or was raised."""

    def run(told, **change):
        script, heard = Script(told, **change), Heard()
        monkeypatch.setattr(workload, "stand", script.stand)
        monkeypatch.setattr(workload, "leased", lambda *_: contextlib.nullcontext())
        plan = plan_for(WORKLOAD, [FOUR, SIX], CONDITIONS.design, 1)
        try:
            return script, heard, measure(plan, BUILTIN["loopback"], CONDITIONS, heard)
        except (InvalidError, LabError) as error:
            return script, heard, error

    return run


def well(number, arm):
    return 300, {}, []


def test_every_run_of_the_plan_is_made_in_its_order_and_told(course):
    script, heard, found = course(well)
    planned = [arm for epoch in found.plan.epochs for block in (epoch.warmups, *epoch.blocks) for arm in block]
    assert script.ran == planned
    assert [each[3] for each in heard if each[0] == "run"] == list(map(str, planned))
    assert [each[1] for each in heard if each[0] == "epoch"] == list(range(6))
    assert heard[-1] == "ended"
    assert sum(run.warmup for run in found.runs) == 12
    assert {arm: len(rows) for arm, rows in found.rows.items()} == {FOUR: 12 * 300, SIX: 12 * 300}


def test_an_arm_whose_run_contradicts_itself_is_measured_no_further(course):
    script, _, found = course(lambda n, arm: (300, {}, ["expected x, seen y"] if arm == SIX and n > 5 else []))
    assert found.invalid == {SIX: found.invalid[SIX]}
    assert found.invalid[SIX].startswith("arm ipv6 is not what it is called (epoch 1, ")
    assert found.invalid[SIX].endswith("): expected x, seen y")
    assert script.ran.count(SIX) < script.ran.count(FOUR) == 18
    with pytest.raises(InvalidError, match="not what it is called"):
        answer(found, Cell(WORKLOAD, SIX), CONDITIONS, Margin.parse("10%"))


def test_an_arm_whose_path_contradicts_itself_is_not_measured_at_all(course):
    script, _, found = course(well, contradicts=lambda arm, epoch: ["expected x, seen y"] if arm == SIX else [])
    assert SIX not in script.ran
    assert found.invalid[SIX] == "arm ipv6 is not what it is called (epoch 0): expected x, seen y"


def test_a_reference_that_contradicts_itself_ends_the_workload(course):
    _, heard, error = course(lambda n, arm: (300, {}, ["expected x, seen y"] if arm == FOUR else []))
    assert isinstance(error, InvalidError)
    assert heard[-1] == ("broke off", str(error))


def test_a_reference_of_which_nothing_completes_is_told_with_the_kinds(course):
    _, heard, error = course(lambda n, arm: (0, {"connect refused": 299, "dns deadline": 1}, []))
    assert isinstance(error, LabError)
    assert "the reference ipv4 completed none of 300 connections (connect refused: 299, dns deadline: 1)" in str(error)
    assert heard[-1][0] == "broke off"


def test_one_lost_connection_is_data_even_where_it_is_the_whole_run(course):
    _, _, found = course(lambda n, arm: (0, {"talk deadline": 1}, []) if n == 6 else (300, {}, []))
    assert sum(run.failures for run in found.runs) == 1
    assert [run.value for run in found.runs if run.failures] == [10.0]


def test_another_arm_of_which_nothing_completes_is_a_finding(course):
    _, _, found = course(lambda n, arm: (300, {}, []) if arm == FOUR else (0, {"connect refused": 300}, []))
    told = answer(found, Cell(WORKLOAD, SIX), CONDITIONS, Margin.parse("10%"))
    assert told.effect is not None
    assert told.effect.percent.low > 10_000
    assert told.failures is not None
    assert told.failures.estimate == 100
    assert told.record.test.failed == {"connect refused": 12 * 300}
