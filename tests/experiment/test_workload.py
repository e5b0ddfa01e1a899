"""The course of a workload, on a testbed that is a script.

The live testbed is replaced, since no real one can be had to contradict its proof at a chosen run.
"""

import contextlib
import dataclasses
import re
from array import array

import pytest

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.plan import plan_for
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Verdict, judge_looks
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.errors import AgentError, InvalidError, LabError, RestoreError, UsageError
from pytest_ipperf.experiment import Conditions, KeptRuns, answer, answer_alone, limit_of, measure, tail_of, workload
from pytest_ipperf.lab.access import ssh
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.epoch.teardowns import Teardowns
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
from pytest_ipperf.lab.tunnels.setup import Tunnels
from pytest_ipperf.protocols.base import PHASES

FOUR, SIX, TUNNEL, TWIN = Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel"), Arm(4, "native", twin=True)
ISATAP = Arm(6, "isatap")
TEN, FIFTY = (Question("response_time", Margin.parse(share)) for share in ("10%", "50%"))
P95 = Limit.parse("p95", "30ms")
WORKLOAD = Workload(testbed="loopback", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
CONDITIONS = Conditions(
    design=DESIGNS["quick"], reference=FOUR, server="auto", deadline_s=10.0, owner="test", wait_s=1.0
)
THREE_LOOKS = dataclasses.replace(DESIGNS["standard"], epochs=10, blocks=3, looks=3, alpha=0.0221)
LOOKS = dataclasses.replace(CONDITIONS, design=THREE_LOOKS)
EPOCH_S, RUN_S, SERVE_S = 0.5, 2.0, 0.25
NOTHING_KEPT = KeptRuns()


def rows(total, completed):
    return array("d", (0.0, 0.001, 0.002, 0.003, total, 0.0, 0.0) * completed)


class Script:
    """A live testbed that does as told: for a run's number and arm, what it brings home, and how slow it is.

    It has a clock of its own, on which an epoch takes half a second and each run two more. `lacks` are the transports
    that it cannot have from an epoch on; one whose number is in `unrestored` leaves something behind. The client has no
    address for arms `without`.
    """

    def __init__(self, reported, contradicts=lambda arm, epoch: [], slow=None, *, floor_fails=False, lacks=(),
                 lacks_from=0, unrestored=(), trains=(), without=()):  # fmt: skip
        self._without = without
        self._trains = dict(trains)
        self.floor_fails = floor_fails
        self._told, self._contradicts, self._slow = reported, contradicts, slow
        self._lacks, self._lacks_from, self._unrestored = lacks, lacks_from, unrestored
        self.epochs, self.ran, self.now, self.asked = 0, [], 0.0, []
        self.trained, self.bursts, self.floor_bursts = [], [], []
        self.tunnels = Tunnels()
        self.offloads = self

    def switch(self, workload):
        """Switch no offloads."""

    def monotonic(self):
        return self.now

    @contextlib.contextmanager
    def live_testbed(self, *_, transports, backend, teardowns):
        self.now += EPOCH_S
        self.asked.append((tuple(transports), backend))
        lacking = [each for each in transports if each in self._lacks and self.epochs >= self._lacks_from]
        self.tunnels = Tunnels(
            backends={each: "made up" for each in transports if each not in lacking},
            trouble={each: LabError(f"nothing can carry {each}") for each in lacking},
        )
        yield self
        if self.epochs in self._unrestored:
            raise RestoreError("not everything is as it was: host client: a route is left")
        self.epochs += 1

    def serve(self, *_):
        self.now += SERVE_S
        return ServerEndpoint(name="script", version="1", embedded=True, port=1, resolver_port=2)

    def verify(self, *_):
        return ""

    def lacking(self, arm):
        return f"the client has none for {arm}" if arm in self._without else ""

    def prove(self, arm, *_, with_trains):
        self.trained += [(self.epochs, arm)] if with_trains else []
        return {
            "contradictions": self._contradicts(arm, self.epochs),
            "trains": self._trains if with_trains else {},
        }

    def fingerprint(self, _):
        return {}

    def logs(self):
        return {"script": f"of epoch {self.epochs}"}

    def run(self, arm, service, workload, *, bursts, deadline_s, duration, pattern="", capture=0):
        completed, failed, contradictions = self._told(len(self.ran), arm)
        assert deadline_s == 10.0
        self.bursts.append(bursts)
        self.ran.append(arm)
        self.now += RUN_S
        total = 0.02 * self._slow(arm, self.epochs) if self._slow else 0.02 + 0.001 * (len(self.ran) % 3)
        return RunResult(
            data=RunData(
                attempted=completed + sum(failed.values()), failed=failed, columns=PHASES,
                samples=rows(total, completed), deadline_s=deadline_s,
            ),
            proof={}, violations=tuple(contradictions), unsettled=(),
        )  # fmt: skip

    def baseline_cost(self, arm, service, workload, *, bursts, deadline_s):
        self.floor_bursts.append(bursts)
        if isinstance(self.floor_fails, Exception):
            raise self.floor_fails
        failed = {"talk reset": 1} if self.floor_fails else {}
        return RunResult(
            data=RunData(
                attempted=3 + len(failed), failed=failed, columns=PHASES, samples=rows(0.004, 3), deadline_s=deadline_s
            ),
            proof={}, violations=(), unsettled=(),
        )  # fmt: skip


class Heard(list):
    """A listener that only remembers."""

    def __init__(self):
        super().__init__()
        self.times = []

    def baseline_cost(self, arm, value_s, run_result):
        self.append(("floor", str(arm), value_s))

    def note(self, text):
        self.append(text)

    def counters(self, number, when, hosts):
        self.append(("counters", number, when, hosts))

    def rebooted(self, number, hosts):
        self.append(("rebooted", number, hosts))

    def epoch(self, number, service, paths, hosts, backends):
        self.append(("epoch", number, sorted(map(str, paths))))

    def run(self, run, run_result):
        self.append(("run", run.epoch, run.block, str(run.arm)))

    def logs(self, number, logs):
        self.append(("logs", number, logs))

    def look(self, number, answers, going_on, stopped):
        verdicts = {
            str(arm): {str(margin): answer.verdict.name.lower() for margin, answer in found.items()}
            for arm, found in answers.items()
        }
        self.append(("look", number, verdicts, list(map(str, going_on)), stopped))

    def time(self, seconds, epoch=None):
        self.times.append((epoch, seconds))

    def broke_off(self, sentence):
        self.append(("broke off", sentence))

    def ended(self):
        self.append("ended")


@pytest.fixture
def course(monkeypatch):
    """Measures the workload by a script; gives the script, what was heard, and what came of it or was raised."""

    def run(reported, conditions=CONDITIONS, arms=(SIX,), asked=(TEN,), refuses=lambda needed_s: "",
            *, testbed=BUILTIN["loopback"], alone=False, kept=NOTHING_KEPT, **change):  # fmt: skip
        script, heard = Script(reported, **change), Heard()
        monkeypatch.setattr(workload, "live_testbed", script.live_testbed)
        monkeypatch.setattr(workload, "leased", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(workload, "time", script)
        plan = plan_for(WORKLOAD, arms if alone else [conditions.reference, *arms], conditions.design, 1)
        asked_of = asked if isinstance(asked, dict) else dict.fromkeys(arms, asked)
        questions = {"asked": asked_of, "refuses": refuses, "kept": kept}
        try:
            return script, heard, measure(plan, testbed, conditions, heard, **questions)
        except (InvalidError, LabError) as error:
            return script, heard, error

    return run


def well(number, arm):
    return 300, {}, []


def test_each_second_of_a_measurement_is_accounted_for(course):
    script, heard, _ = course(well)
    by_epoch = [seconds for epoch, seconds in heard.times if epoch is not None]
    assert [epoch for epoch, _ in heard.times] == [*range(len(by_epoch)), None]
    assert {seconds["build"] for seconds in by_epoch} == {EPOCH_S}
    assert {seconds["serve"] for seconds in by_epoch} == {SERVE_S}
    assert sum(seconds["run"] for seconds in by_epoch) == RUN_S * len(script.ran)
    assert sum(sum(seconds.values()) for _, seconds in heard.times) == pytest.approx(script.now)


def test_packet_trains_measure_each_arm_once(course):
    script, _, found = course(well, trains={"client": 1e8, "server": 1e8})
    assert sorted(script.trained) == sorted((0, arm) for arm in found.plan.arms)
    assert {epoch for (_, epoch), rates in found.trains.items() if rates} == {0}


def test_packet_trains_of_which_nothing_came_are_repeated_in_the_next_epoch(course):
    script, _, found = course(well)
    assert len(script.trained) == len(found.plan.arms) * len(found.plan.epochs)


def test_the_seconds_of_a_broken_measurement_are_accounted_for(course):
    def breaks(number, arm):
        if number == 5:
            raise LabError("the server died")
        return well(number, arm)

    script, heard, error = course(breaks)
    assert isinstance(error, LabError)
    assert sum(sum(seconds.values()) for _, seconds in heard.times) == pytest.approx(script.now)


def test_every_run_of_the_plan_is_made_in_its_order_and_told(course):
    script, heard, found = course(well)
    planned = [arm for epoch in found.plan.epochs for block in (epoch.warmups, *epoch.blocks) for arm in block]
    assert script.ran == planned
    assert [each[3] for each in heard if each[0] == "run"] == list(map(str, planned))
    assert [each[1] for each in heard if each[0] == "epoch"] == list(range(6))
    assert heard[-1] == "ended"
    assert sum(run.warmup for run in found.runs) == 12
    assert {(run.warmup, bursts) for run, bursts in zip(found.runs, script.bursts, strict=True)} == {
        (True, 6),
        (False, 30),
    }
    assert {place: len(rows) for place, rows in found.rows.items()} == {
        (arm, epoch): 2 * 300 for arm in (FOUR, SIX) for epoch in range(6)
    }


def test_a_record_tells_the_links_of_its_arms_and_by_what_they_went(course):
    _, _, found = course(well, arms=(SIX, TUNNEL), testbed=with_rate("lab.100mbit", BUILTIN), trains={"client": 9.71e7})
    native, tunnelled = (answer(found, Cell(WORKLOAD, arm), CONDITIONS, TEN).records[0] for arm in (SIX, TUNNEL))
    assert (native.backend, native.rate_bit_s, native.one_machine) == ("", 1e8, True)
    assert tunnelled.backend == "made up"
    assert tunnelled.test.pace is not None
    assert native.reference.pace is not None
    assert (round(tunnelled.test.pace.ceiling_bit_s), round(native.reference.pace.ceiling_bit_s)) == (
        91547464,
        94148244,
    )
    assert tunnelled.test.pace.path_bit_s == 9.71e7


def test_of_a_tunnel_with_a_handicap_nobody_hears_that_it_is_slow_nor_that_others_are_fast(course):
    _, _, found = course(well, arms=(SIX, TUNNEL), testbed=with_rate("lab.100mbit", BUILTIN))
    carried = dataclasses.replace(found.network, backends={"tunnel": "userspace"})
    found = dataclasses.replace(found, network=carried)
    why = BACKENDS["userspace"].handicap
    assert answer(found, Cell(WORKLOAD, TUNNEL), CONDITIONS, TEN).doubts(TEN.margin) == {Verdict.EXCEEDS: why}
    assert answer(found, Cell(WORKLOAD, SIX), CONDITIONS, TEN).doubts(TEN.margin) == {}
    turned = dataclasses.replace(CONDITIONS, reference=TUNNEL)
    assert answer(found, Cell(WORKLOAD, SIX), turned, TEN).doubts(TEN.margin) == {Verdict.WITHIN: why}


def test_a_path_that_misses_its_rate_is_noted_and_measured(course):
    script, heard, _ = course(
        well, testbed=with_rate("lab.100mbit", BUILTIN), trains={"client": 9.71e7, "server": None}
    )
    why = "from the client it has 97.1 Mbit/s; from the server nothing came through"
    noted = [each for each in heard if isinstance(each, str) and each.startswith("arm ipv6: its path")]
    assert noted == [f"arm ipv6: its path does not have its 100 Mbit/s (epoch 0): {why}"]
    assert script.ran.count(SIX) == 18


def test_links_without_a_rate_have_no_pace(course):
    _, _, found = course(well)
    reported = answer(found, Cell(WORKLOAD, SIX), CONDITIONS, TEN).records[0]
    assert (reported.rate_bit_s, reported.one_machine, reported.test.pace) == (0.0, True, None)


def test_an_arm_whose_run_contradicts_itself_is_measured_no_further(course):
    script, _, found = course(lambda n, arm: (300, {}, ["expected x, seen y"] if arm == SIX and n > 5 else []))
    assert list(found.trouble) == [SIX]
    assert str(found.trouble[SIX]).startswith("arm ipv6 is not what it is called (epoch 1, ")
    assert str(found.trouble[SIX]).endswith("): expected x, seen y")
    assert script.ran.count(SIX) < script.ran.count(FOUR) == 18
    with pytest.raises(InvalidError, match="not what it is called"):
        answer(found, Cell(WORKLOAD, SIX), CONDITIONS, TEN)


def test_an_arm_whose_path_contradicts_itself_is_not_measured_at_all(course):
    script, _, found = course(well, contradicts=lambda arm, epoch: ["expected x, seen y"] if arm == SIX else [])
    assert SIX not in script.ran
    assert str(found.trouble[SIX]) == "arm ipv6 is not what it is called (epoch 0): expected x, seen y"


def test_an_arm_that_a_client_has_no_address_for_is_not_measured_and_said_once(course):
    script, heard, found = course(well, without=[SIX])
    assert SIX not in script.ran
    assert str(found.trouble[SIX]) == "the client has none for ipv6"
    assert heard.count("arm ipv6: the client has none for ipv6; it is not measured") == 1


def test_without_an_address_for_the_reference_nothing_is_measured(course):
    script, heard, error = course(well, without=[FOUR])
    assert (type(error), str(error), script.ran) == (LabError, "the client has none for ipv4", [])
    assert heard[-1] == ("broke off", "the client has none for ipv4")


def test_a_reference_that_contradicts_itself_ends_the_workload(course):
    _, heard, error = course(lambda n, arm: (300, {}, ["expected x, seen y"] if arm == FOUR else []))
    assert isinstance(error, InvalidError)
    assert heard[-1] == ("broke off", str(error))


def test_a_reference_of_which_nothing_completes_is_told_with_the_kinds(course):
    _, heard, error = course(lambda n, arm: (0, {"connect refused": 299, "dns deadline": 1}, []))
    assert isinstance(error, LabError)
    assert "the reference ipv4 completed none of 300 connections (connect refused: 299, dns deadline: 1)" in str(error)
    assert heard[-1][0] == "broke off"


def test_noise_is_told_in_one_sentence(course):
    _, _, error = course(lambda n, arm: (0, {f"protocol: reply '{number}'": 1 for number in range(300)}, []))
    assert re.search(
        r"\(protocol: reply '0': 1, .*, .*, other kinds: 297\), .* is the server script 1 \(embedded\)", str(error)
    )


def test_names_that_nobody_resolves_are_the_name_servers_affair(course):
    _, _, error = course(lambda n, arm: (0, {"dns deadline": 299, "dns NXDOMAIN": 1}, []))
    assert str(error).endswith("so there is nothing to compare with; is the name server well?")


def test_what_is_out_of_reach_is_not_the_servers_affair(course):
    _, _, error = course(lambda n, arm: (0, {"dns unreachable": 1, "connect unreachable": 299}, []))
    said = "so there is nothing to compare with; is there a way from the client to the server script 1 (embedded)?"
    assert str(error).endswith(said)


def test_what_went_elsewhere_is_told_as_that(course):
    """And not as a server that is down: where it went there is none."""
    _, heard, error = course(lambda n, arm: (0, {"connect refused": 300}, ["expected x, seen y"]))
    assert isinstance(error, InvalidError)
    assert "arm ipv4 is not what it is called (epoch 0, warm-up): expected x, seen y" in str(error)
    if heard[0] == ("run", 0, -1, "ipv6"):
        assert (
            "arm ipv6 is not what it is called (epoch 0, warm-up): expected x, seen y; it is measured no further"
            in heard
        )


def test_one_lost_connection_is_data_even_where_it_is_the_whole_run(course):
    _, _, found = course(lambda n, arm: (0, {"talk deadline": 1}, []) if n == 6 else (300, {}, []))
    assert sum(run.failures for run in found.runs) == 1
    assert [run.values["response_time"] for run in found.runs if run.failures] == [10.0]


def test_another_arm_of_which_nothing_completes_is_a_finding(course):
    _, _, found = course(lambda n, arm: (300, {}, []) if arm == FOUR else (0, {"connect refused": 300}, []))
    reported = answer(found, Cell(WORKLOAD, SIX), CONDITIONS, TEN)
    assert 800 < reported.effects[-1].shown.estimate < 1000  # each failure counts as ten means of the reference
    assert reported.failures is not None
    assert reported.failures.estimate == 100
    assert reported.records[-1].test.failed == {"connect refused": 12 * 300}


# --- tunnels ----------------------------------------------------------------------------------------------------------


def test_an_epoch_is_asked_for_the_transports_of_its_arms_by_the_backend_that_was_chosen(course):
    script, _, _ = course(well, dataclasses.replace(CONDITIONS, backend="kernel"), arms=(SIX, TUNNEL))
    assert script.asked == [(("tunnel",), "kernel")] * 6
    script, _, _ = course(well)
    assert script.asked == [((), "")] * 6


def test_a_transport_of_which_every_arm_is_closed_is_built_no_more(course):
    script, _, _ = course(few, LOOKS, arms=(TUNNEL, TWIN), slow=slow)
    assert [transports for transports, _ in script.asked] == [("tunnel",)] * 20 + [()] * 10


def test_a_transport_that_cannot_be_made_is_the_trouble_of_its_arm_alone(course):
    script, heard, found = course(well, arms=(SIX, TUNNEL, ISATAP), lacks=("tunnel",))
    assert list(found.trouble) == [TUNNEL]
    reported = "arm ipv6-tunnel: nothing can carry tunnel; it is not measured"
    assert [each for each in heard if isinstance(each, str)] == [reported, "ended"]
    assert [each[2] for each in heard if each[0] == "epoch"] == [["ipv4", "ipv6", "ipv6-isatap"]] * 6
    assert (TUNNEL in script.ran, script.ran.count(ISATAP)) == (False, 18)
    # Nobody asks for it again.
    assert [transports for transports, _ in script.asked] == [("isatap", "tunnel")] + [("isatap",)] * 5
    assert answer(found, Cell(WORKLOAD, ISATAP), CONDITIONS, TEN).effects
    with pytest.raises(LabError, match="nothing can carry tunnel"):
        answer(found, Cell(WORKLOAD, TUNNEL), CONDITIONS, TEN)


def test_a_transport_that_can_be_made_no_more_ends_its_arm_there(course):
    script, _, found = course(well, arms=(SIX, TUNNEL), lacks=("tunnel",), lacks_from=2)
    assert (list(found.trouble), measured_in(found, TUNNEL)) == ([TUNNEL], [0, 1])
    assert script.ran.count(SIX) == 18


def test_a_reference_whose_transport_cannot_be_made_ends_the_workload(course):
    tunnelled = dataclasses.replace(CONDITIONS, reference=TUNNEL)
    script, heard, error = course(well, tunnelled, lacks=("tunnel",))
    assert isinstance(error, LabError)
    assert str(error) == "nothing can carry tunnel"
    assert heard[-1] == ("broke off", "nothing can carry tunnel")
    assert script.ran == []


def test_what_is_not_put_back_fails_the_workload_whatever_was_answered(course):
    """`SIX` has its answer after ten epochs; the host is not what it was all the same."""
    _, heard, error = course(few, LOOKS, arms=(SIX, TWIN), slow=slow, unrestored=(12,))
    assert [each[2]["ipv6"] for each in heard if each[0] == "look"] == [{"response_time 10%": "within"}]
    assert isinstance(error, RestoreError)
    assert heard[-1] == ("broke off", "not everything is as it was: host client: a route is left")


# --- looks ------------------------------------------------------------------------------------------------------------


def few(number, arm):
    return 3, {}, []


def slow(arm, epoch):
    """IPv6 is decided at once, the tunnel after 20 epochs, the twin never; each as long as it is measured."""
    wobble = 1.08 if epoch % 2 else 1 / 1.08
    means = {FOUR: 1.0, SIX: 1.0 + 0.001 * (epoch % 3), TUNNEL: 1.1 * wobble if epoch < 10 else 1.0, TWIN: 1.1 * wobble}
    return means[arm]


def question(found, arm, margin=TEN):
    return answer(found, Cell(WORKLOAD, arm), LOOKS, margin)


def measured_in(found, arm):
    return sorted({run.epoch for run in found.runs if run.arm == arm})


def test_what_is_decided_at_a_look_is_measured_no_further(course):
    script, heard, found = course(few, LOOKS, arms=(SIX, TUNNEL, TWIN), slow=slow)
    assert found.looks | {FOUR: 3} == {FOUR: 3, SIX: 1, TUNNEL: 2, TWIN: 3}
    assert [measured_in(found, arm)[-1] for arm in (FOUR, SIX, TUNNEL, TWIN)] == [29, 9, 19, 29]
    closed = {SIX: 10, TUNNEL: 20}
    assert script.ran == [
        arm for epoch in found.plan.epochs for block in (epoch.warmups, *epoch.blocks) for arm in block
        if epoch.number < closed.get(arm, 30)
    ]  # fmt: skip
    within, open_ = {"response_time 10%": "within"}, {"response_time 10%": "inconclusive"}
    assert [each[1:] for each in heard if each[0] == "look"] == [
        (0, {"ipv4-twin": open_, "ipv6": within, "ipv6-tunnel": open_}, ["ipv4", "ipv4-twin", "ipv6-tunnel"], ""),
        (1, {"ipv4-twin": open_, "ipv6-tunnel": within}, ["ipv4", "ipv4-twin"], ""),
        (2, {"ipv4-twin": open_}, [], ""),
    ]
    assert found.stopped == ""


def test_the_data_of_a_cell_end_at_its_look(course):
    _, _, both = course(few, LOOKS, arms=(SIX, TWIN), slow=slow)
    reported = question(both, SIX)
    assert [effect.n_epochs for effect in reported.effects] == [10]
    assert {run.epoch for run in reported.runs} == set(range(10))
    (record,) = reported.records
    assert (record.look, record.looks, record.epochs) == (1, 3, 10)
    assert (len(record.test.values), len(record.reference.values), record.reference.completed) == (30, 30, 90)
    assert reported.stopped == "all that the tests ask by marker or --margin is answered"
    open_to_the_end = question(both, TWIN)
    assert [record.epochs for record in open_to_the_end.records] == [10, 20, 30]
    assert [len(record.reference.values) for record in open_to_the_end.records] == [30, 60, 90]
    assert open_to_the_end.stopped == ""


def test_when_all_is_decided_nothing_more_is_measured(course):
    script, heard, found = course(few, LOOKS, slow=slow)
    assert script.epochs == 10
    assert found.looks[SIX] == 1
    assert heard[-1] == "ended"
    assert found.seconds == (10 * (EPOCH_S + SERVE_S + 8 * RUN_S),)


def test_a_cell_is_open_as_long_as_one_of_its_margins_is(course):
    _, heard, found = course(few, LOOKS, arms=(TUNNEL,), asked=(TEN, FIFTY), slow=slow)
    assert found.looks[TUNNEL] == 2
    looks = [each[2]["ipv6-tunnel"] for each in heard if each[0] == "look"]
    assert looks == [
        {"response_time 10%": "inconclusive", "response_time 50%": "within"},
        {"response_time 10%": "within", "response_time 50%": "within"},
    ]


def test_an_arm_of_which_nothing_is_asked_is_measured_to_the_end(course):
    _, _, found = course(few, LOOKS, asked=(), slow=slow)
    assert found.looks[SIX] == 3


def test_a_design_that_never_judges_has_no_looks_to_decide_at(course):
    paper = dataclasses.replace(CONDITIONS, design=dataclasses.replace(DESIGNS["paper"], run_connections=300))
    _, heard, found = course(few, paper)
    assert [each for each in heard if each[0] == "look"] == [("look", 0, {}, [], "")]
    assert len(answer(found, Cell(WORKLOAD, SIX), paper, TEN).records) == 1


def test_an_arm_that_contradicts_itself_is_closed_and_the_others_go_on(course):
    script, heard, found = course(
        few, LOOKS, arms=(SIX, TWIN), slow=slow,
        contradicts=lambda arm, epoch: ["expected x, seen y"] if arm == TWIN and epoch == 12 else [],
    )  # fmt: skip
    assert list(found.trouble) == [TWIN]
    assert (measured_in(found, SIX)[-1], measured_in(found, TWIN)[-1], script.epochs) == (9, 11, 20)
    assert [each[3] for each in heard if each[0] == "look"] == [["ipv4", "ipv4-twin"], []]
    assert question(found, SIX).effects[-1].n_epochs == 10
    with pytest.raises(InvalidError, match="not what it is called"):
        question(found, TWIN)


def test_epochs_that_agree_to_the_last_bit_close_an_arm_as_invalid(course):
    _, heard, found = course(few, LOOKS, slow=lambda arm, epoch: 1.0)
    assert [each[2] for each in heard if each[0] == "look"] == [{"ipv6": {"response_time 10%": "invalid"}}]
    with pytest.raises(InvalidError, match="all 10 epochs gave exactly the same change"):
        question(found, SIX)


def test_a_look_that_does_not_fit_is_not_begun(course):
    """SIX is closed by then: what is left are two arms, four runs of each in an epoch."""
    needed, sentence = [], "of the budget of 5 min, 20 s are left and the next look needs about 165 s"

    def refuses(seconds):
        needed.append(seconds)
        return sentence if len(needed) == 2 else ""

    script, heard, found = course(few, LOOKS, arms=(SIX, TWIN), slow=slow, refuses=refuses)
    assert needed == pytest.approx([10 * (EPOCH_S + SERVE_S + 8 * RUN_S)] * 2)
    assert (script.epochs, found.looks[SIX], found.looks[TWIN]) == (20, 1, 2)
    assert [each[3:] for each in heard if each[0] == "look"] == [(["ipv4", "ipv4-twin"], ""), ([], sentence)]
    assert question(found, TWIN).stopped == found.stopped == sentence


def test_trouble_at_a_later_look_takes_no_answer_away(course):
    def dies(number, arm):
        if number >= 200:
            raise LabError("host server: the server died")
        return few(number, arm)

    _, heard, found = course(dies, LOOKS, arms=(SIX, TWIN), slow=slow)
    assert question(found, SIX).effects[-1].n_epochs == 10
    with pytest.raises(LabError, match="the server died"):
        question(found, TWIN)
    assert heard[-1] == ("broke off", "host server: the server died")
    _, _, error = course(
        dies, LOOKS, arms=(TWIN, TUNNEL), slow=lambda arm, epoch: slow(TWIN if arm != FOUR else arm, epoch)
    )
    assert isinstance(error, LabError)


def test_a_verdict_is_that_of_the_look_that_closed_the_cell(course):
    """The tunnel has data of 20 epochs; what could be answered after 10 keeps its answer."""
    _, _, found = course(few, LOOKS, arms=(TUNNEL,), asked=(TEN, FIFTY), slow=slow)
    effects = question(found, TUNNEL).effects
    verdicts = [judge_looks(effects, margin.margin, alpha=0.0221, looks=3) for margin in (TEN, FIFTY)]
    assert [(each.verdict, each.look) for each in verdicts] == [(Verdict.WITHIN, 2), (Verdict.WITHIN, 1)]


def test_floors_are_found_once_in_the_first_epoch_after_its_blocks(course):
    script, heard, found = course(well)
    places = [at for at, each in enumerate(heard) if each[0] == "floor"]
    assert [heard[at] for at in places] == [("floor", "ipv4", 0.004), ("floor", "ipv6", 0.004)]
    assert heard[places[0] - 1][:3] == ("run", 0, 1)
    assert heard[places[1] + 1][:2] == ("epoch", 1)
    assert found.baseline_costs == {FOUR: 0.004, SIX: 0.004}
    assert script.floor_bursts == [CONDITIONS.design.warmup_bursts(WORKLOAD.connections)] * 2


def test_a_floor_with_failures_is_none(course):
    _, heard, found = course(well, floor_fails=True)
    assert ("floor", "ipv6", None) in heard
    assert found.baseline_costs == {}


def test_a_measurement_does_without_a_floor_that_cannot_be_had(course):
    _, heard, found = course(well, floor_fails=LabError("host server: no free port in 1-2"))
    assert "the client's baseline cost was not found: host server: no free port in 1-2" in heard
    assert (found.baseline_costs, len(found.runs)) == ({}, 36)


def test_a_link_that_is_lost_at_the_floor_is_lost(course):
    _, heard, found = course(well, floor_fails=AgentError("host server: the agent died"))
    assert isinstance(found, AgentError)
    assert heard[-1] == ("broke off", "host server: the agent died")


def test_the_servers_logs_are_kept_of_epochs_in_which_something_failed(course):
    _, heard, _ = course(well)
    assert [each for each in heard if each[0] == "logs"] == []
    # Each epoch has six runs.
    _, heard, _ = course(lambda number, _: (29, {"talk reset": 1}, []) if number == 7 else (30, {}, []))
    assert [each for each in heard if each[0] == "logs"] == [("logs", 1, {"script": "of epoch 1"})]


def test_the_servers_logs_are_kept_when_the_testbed_breaks(course):
    _, heard, found = course(well, floor_fails=AgentError("host client: the agent died"))
    assert isinstance(found, AgentError)
    assert [each[0] for each in heard][-2:] == ["logs", "broke off"]


def far(name):
    return Host(name=name, way="ssh", settings={"ssh": name}, reboot="reboot")


def test_hosts_are_started_anew_before_each_epoch_but_the_first(course, monkeypatch):
    monkeypatch.setattr(ssh, "_redirects", lambda _: False)  # it would ask ssh for its configuration
    testbed, order = Testbed(name="office", client=far("alpha"), server=far("beta")), []

    class Keeper(Provisioning):
        def close(self):
            order.append("closed")

    def reboot_hosts(reported, lease):
        order.append(reported.name)
        return {"alpha": 40.0, "beta": 50.5}

    monkeypatch.setattr(workload, "reboot_hosts", reboot_hosts)
    monkeypatch.setattr(Teardowns, "finish", lambda _: order.append("taken down"))
    asked = dataclasses.replace(CONDITIONS, reboot=True, provisioning=Keeper())
    _, heard, _ = course(lambda number, arm: (30, {}, ()), asked, testbed=testbed)
    epochs = CONDITIONS.design.epochs
    assert order == [*["taken down", "closed", "office"] * (epochs - 1), "taken down"]
    reported = [each for each in heard if each[0] in ("rebooted", "epoch")]
    assert [each[:2] for each in reported] == [
        ("epoch", 0),
        *(pair for number in range(1, epochs) for pair in (("rebooted", number), ("epoch", number))),
    ]
    assert reported[1][2] == {"alpha": 40.0, "beta": 50.5}
    assert "starting alpha, beta anew for epoch 1" in heard
    order.clear()
    course(lambda number, arm: (30, {}, ()), dataclasses.replace(asked, reboot=False), testbed=testbed)
    assert order == ["taken down"]


def test_hosts_that_cannot_be_started_anew_are_told_before_anything_is(course):
    with pytest.raises(UsageError, match=r"^testbed lab is built anew before each epoch anyway; --ipperf-reboot=yes "):
        course(lambda *_: (30, {}, ()), dataclasses.replace(CONDITIONS, reboot=True), testbed=BUILTIN["lab"])


# --- limits -----------------------------------------------------------------------------------------------------------


def test_an_arm_of_which_only_limits_are_asked_is_measured_without_the_reference(course):
    script, _, found = course(well, asked=(Question.about(P95),), alone=True)
    assert set(script.ran) == {SIX}
    record = answer_alone(found, Cell(WORKLOAD, SIX), CONDITIONS, "response_time").records[-1]
    assert (record.compared, record.verdict, record.estimate, record.test.attempted) == (False, "measured", None, 3600)
    judgement = limit_of(found, Cell(WORKLOAD, SIX), CONDITIONS)(P95, True)  # noqa: FBT003 - at the looks
    assert judgement.verdict is Verdict.WITHIN


def test_a_limit_is_not_believed_to_be_kept_by_connections_with_wrong_content(course):
    kept = Limit.parse("p50", "30ms")
    _, _, found = course(lambda *_: (299, {"content: too short": 1}, []), asked=(Question.about(kept),), alone=True)
    judgement = limit_of(found, Cell(WORKLOAD, SIX), CONDITIONS)(kept, True)  # noqa: FBT003 - at the looks
    assert (judgement.verdict, judgement.reasons) == (Verdict.INCONCLUSIVE, ("doubted",))
    assert "other content than the server was given (content: " in judgement.sentence()


def test_a_tail_is_not_believed_to_be_kept_by_connections_with_wrong_content(course):
    question = Question("slow_share", Margin.parse("1pp"), Margin.parse("10%,20ms"))
    for wrong, verdict in (("content: too short", Verdict.INCONCLUSIVE), ("talk reset", Verdict.WITHIN)):
        _, _, found = course(lambda *_, kind=wrong: (299, {kind: 1}, []))
        slowdown = tail_of(found, Cell(WORKLOAD, SIX), CONDITIONS)(question)
        assert slowdown.judged(question.margin).verdict is verdict


def test_failed_connections_of_a_lone_reference_are_its_answer_and_no_trouble(course):
    _, heard, found = course(
        lambda number, arm: (0, {"connect refused": 300}, []), arms=(FOUR,), asked=(Question.about(P95),), alone=True
    )
    assert heard[-1] == "ended"
    assert limit_of(found, Cell(WORKLOAD, FOUR), CONDITIONS)(P95, True).verdict is Verdict.EXCEEDS  # noqa: FBT003
    asked = {FOUR: (Question.about(P95),), SIX: (TEN,)}
    _, _, error = course(lambda number, arm: (0, {"connect refused": 300}, []), asked=asked)
    assert "there is nothing to compare with" in str(error)


def test_a_lone_arm_whose_path_is_wrong_ends_nothing_but_itself(course):
    asked = dict.fromkeys((FOUR, SIX), (Question.about(P95),))
    seen = {FOUR: ["seen on another device"]}
    script, _, found = course(
        well, arms=(FOUR, SIX), asked=asked, alone=True, contradicts=lambda arm, epoch: seen.get(arm, [])
    )
    assert set(script.ran) == {SIX}
    assert "seen on another device" in str(found.trouble[FOUR])


def test_the_reference_is_measured_on_after_its_own_limits_are_answered(course):
    """IPv6 is undecided at the first looks, as every second epoch takes twice as long."""
    asked = {FOUR: (Question.about(P95),), SIX: (TEN,)}
    script, heard, found = course(
        well, LOOKS, asked=asked, slow=lambda arm, epoch: 1.2 if arm == SIX and epoch % 2 else 1.0 + 0.001 * epoch
    )
    going_on = [each[3] for each in heard if each[0] == "look"]
    assert going_on[0] == ["ipv4", "ipv6"]
    assert found.looks[FOUR] == 1
    assert script.ran.count(FOUR) == script.ran.count(SIX)


def kept_of(measurement, epochs, **change):
    """Return the runs of the first epochs of a measurement, as a session that broke off then would have left them."""
    fields = {
        "runs": tuple(run for run in measurement.runs if run.epoch < epochs),
        "rows": {place: rows for place, rows in measurement.rows.items() if place[1] < epochs},
        "services": dict.fromkeys(range(epochs), measurement.service),
        "baseline_costs": measurement.baseline_costs,
        "trains": {place: found for place, found in measurement.trains.items() if place[1] < epochs},
        "hosts": measurement.hosts,
    }
    return KeptRuns(**{**fields, **change})


def test_a_measurement_goes_on_after_its_last_whole_epoch_and_is_as_a_whole_one(course):
    _, _, whole = course(well)
    script, heard, found = course(well, kept=kept_of(whole, 4))
    assert script.epochs == 2
    assert [each[1] for each in heard if each[0] == "run"] == [run.epoch for run in whole.runs if run.epoch >= 4]
    assert [(run.epoch, run.block, run.slot, run.arm) for run in found.runs] == [
        (run.epoch, run.block, run.slot, run.arm) for run in whole.runs
    ]
    assert found.rows.keys() == whole.rows.keys()
    assert found.looks == whole.looks
    assert not [each for each in heard if each[0] == "floor"]
    assert found.baseline_costs == whole.baseline_costs


def test_a_measurement_of_which_every_run_is_kept_builds_nothing(course):
    _, _, whole = course(well)
    script, _, found = course(well, kept=kept_of(whole, 6))
    assert (script.epochs, script.ran) == (0, [])
    assert found.runs == whole.runs
    assert found.service == whole.service


def test_looks_are_taken_again_from_the_kept_runs_and_decide_the_same(course):
    """TUNNEL is decided at the first look, so that it has no run in the kept epochs after that."""
    slow = {FOUR: 1.0, SIX: 1.09, TUNNEL: 1.0}

    def told(arm, epoch):
        return slow[arm] * (1 + 0.002 * ((epoch * 7 + len(str(arm))) % 5) + (0.05 * (epoch % 2) if arm == SIX else 0))

    _, _, whole = course(well, LOOKS, arms=(SIX, TUNNEL), slow=told)
    assert whole.looks[TUNNEL] < whole.looks[SIX]
    script, heard, found = course(well, LOOKS, arms=(SIX, TUNNEL), slow=told, kept=kept_of(whole, 12))
    assert found.looks == whole.looks
    assert TUNNEL not in script.ran
    assert next(each for each in heard if each[0] == "look")[1] == 0
    assert len(found.runs) == len(whole.runs)


def test_without_the_baseline_costs_of_all_arms_they_are_measured_in_the_next_epoch(course):
    _, _, whole = course(well)
    _, heard, found = course(well, kept=kept_of(whole, 2, baseline_costs={}))
    assert [each[1] for each in heard if each[0] == "floor"] == ["ipv4", "ipv6"]
    assert found.baseline_costs.keys() == {FOUR, SIX}


def test_of_a_run_in_parts_the_parts_go_on_after_warm_ups_of_the_arms_that_lack_some(course):
    design = dataclasses.replace(DESIGNS["quick"], epochs=1, blocks=4, parts=4, judges=False)
    conditions = dataclasses.replace(CONDITIONS, design=design)
    _, _, whole = course(well, conditions)
    first, last = whole.runs[2].arm, whole.runs[-1].arm
    kept = kept_of(whole, 1, runs=whole.runs[:7])  # two warm-ups, four parts of the first arm, one of the second
    script, _, found = course(well, conditions, kept=kept)
    assert script.ran == [last, *[last] * 3]
    counted = [(run.arm, run.block) for run in found.runs if not run.warmup]
    assert counted == [*((first, part) for part in range(4)), *((last, part) for part in range(4))]
