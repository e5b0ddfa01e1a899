"""`--ipperf-confirm`: a cell that exceeds its margin is measured again in fresh epochs, which alone decide it."""

import json

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

CONFIRM = "--ipperf-confirm=yes"
FIRST, AGAIN = "loopback-smtp-c1-1k ipv4 ipv6", "loopback-smtp-c1-1k-confirm ipv4 ipv6"


@pytest.fixture
def project(project):
    """A project whose runs are shorter, as there are many of them."""
    project.connections = 100
    return project


def events(project, kind):
    return [line for line in project.kept() if line["event"] == kind]


def run(project, *arguments):
    return project.run(CONFIRM, "--connections=1", *arguments)


def test_an_excess_that_fresh_epochs_confirm_is_red(project):
    project.network(slower=0.3)
    result = run(project, "-v", "--alluredir=allure")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "ipperf: up to * more if cells exceed their margins: each is measured again in 10 epochs x 6 blocks (*",
        "  measured loopback-smtp-c1-1k: 36 runs in *",
        "  loopback-smtp-c1-1k: seems beyond a margin; measuring ipv4, ipv6 in 10 fresh epochs",
        "  measured loopback-smtp-c1-1k again: 140 runs in *",
        (
            "EXCEEDS *the one-sided 96 % lower bound * lies beyond the margin of 10 % (at least 0.5 ms); confirmed in "
            "10 fresh epochs: IPv6 seemed beyond the *, with response time per connection +3?.? % in the first *"
        ),
    ])  # fmt: skip
    assert project.measured == [FIRST, AGAIN]
    (record,) = events(project, "record")
    assert (record["verdict"], record["epochs"], record["blocks"]) == ("exceeds", 10, 6)
    assert len(record["test"]["values"]) == 60
    first = record["confirms"]
    assert (first["epochs"], first["alpha"], first["level"]) == (6, 0.05, 0.04)
    assert first["lower_bound"] < first["estimate"] < first["upper_bound"]
    assert first["estimate"] != record["estimate"]
    assert record["seed"] == events(project, "session")[0]["seed"]
    (file,) = (project.pytester.path / "allure").glob("*-result.json")
    html = json.loads(file.read_text())["descriptionHtml"]
    assert html.count("data:image/png;base64,") == 2, "the runs, and the distribution of the fresh epochs"
    assert "The distribution of all connections and the course of the runs: IPv4 p50 " in html


def test_an_excess_that_fresh_epochs_refute_is_green(project):
    project.network(slower=0.3, fresh=0.0)
    result = run(project, "-v")
    result.assert_outcomes(passed=1)
    (record,) = events(project, "record")
    assert (record["verdict"], record["confirms"]["epochs"]) == ("within", 6)
    assert "lies within the margin of 10 % (at least 0.5 ms); refuted in 10 fresh epochs: IPv6 s" in record["sentence"]


def test_fresh_epochs_that_neither_confirm_nor_refute_leave_it_undecided(project):
    project.network(slower=0.3, fresh=0.1)
    result = run(project)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines([
        (
            "INCONCLUSIVE *: IPv6 seemed beyond the margin of 10 % (at least 0.5 ms), with response time per "
            "connection +3?.? % in the first 6 epochs, and 10 fresh epochs neither confirm nor refute it: *"
        )
    ])  # fmt: skip


def test_without_an_excess_nothing_is_measured_again(project):
    project.network()
    run(project).assert_outcomes(passed=1)
    assert project.measured == [FIRST]
    assert events(project, "record")[0]["confirms"] is None


def test_the_option_is_off_by_default_and_has_an_ini_key(project):
    project.network(slower=0.3)
    project.run("--connections=1").assert_outcomes(failed=1)
    assert project.measured == [FIRST]
    project.run("--connections=1", "-o", "ipperf_confirm=yes").assert_outcomes(failed=1)
    assert project.measured == [FIRST, FIRST, AGAIN]


def test_flagged_arms_are_measured_again_together_and_others_are_not(project):
    project.network(slower=0.3)
    run(project, "--ipperf-twin=yes").assert_outcomes(failed=1, passed=1)
    assert project.measured[1:] == ["loopback-smtp-c1-1k-confirm ipv4 ipv6"]
    project.network(slower=0.3, twin=0.3)
    run(project, "--ipperf-twin=yes").assert_outcomes(failed=2)
    assert project.measured[3:] == ["loopback-smtp-c1-1k-confirm ipv4 ipv4-twin ipv6"]
    levels = [record["confirms"]["level"] for record in events(project, "record") if record["confirms"]]
    assert levels == [0.02] * 3


def test_the_level_is_shared_by_the_selected_cells(project):
    project.network(slower=0.3)
    project.run(CONFIRM, "--connections=1,2,5,10").assert_outcomes(failed=4)
    assert {record["confirms"]["level"] for record in events(project, "record")} == {0.01}
    project.run(CONFIRM, "--connections=1,2,5,10", "-k", "c1-").assert_outcomes(failed=1)
    assert events(project, "record")[-1]["confirms"]["level"] == 0.04


def test_workers_share_the_level_of_the_whole_session(project):
    project.network(slower=0.3)
    result = project.run(CONFIRM, "-n2")
    result.assert_outcomes(failed=2)
    assert {record["confirms"]["level"] for record in events(project, "record")} == {0.02}
    result.stdout.fnmatch_lines([
        "*[[]gw? loopback] loopback-smtp-c1-1k: seems beyond a margin; measuring ipv4, ipv6 in 10 fresh epochs",
        "*[[]gw? loopback] measured loopback-smtp-c1-1k again: 140 runs in *",
    ])  # fmt: skip


def test_a_design_that_escalates_takes_no_look_in_between_again(project):
    project.network(slower=0.3)
    run(project, "--design=standard").assert_outcomes(failed=1)
    (record,) = events(project, "record")
    assert (record["look"], record["looks"], record["blocks"]) == (1, 1, 6)
    assert record["confirms"]["alpha"] == record["alpha"]


def test_a_design_that_never_judges_confirms_nothing(project):
    project.network(slower=0.3)
    run(project, "--design=smoke")
    assert project.measured == [FIRST]


def test_the_first_runs_stay_in_the_journal_beside_the_fresh_ones(project):
    project.network(slower=0.3)
    run(project)
    names = [line["workload"] for line in events(project, "complete")]
    assert names == ["loopback-smtp-c1-1k", "loopback-smtp-c1-1k-confirm"]
    runs = [line["workload"] for line in events(project, "run")]
    assert [runs.count(name) for name in names] == [36, 140]


# --- what the test's body claims -------------------------------------------------------------------------------------


def body(project, *lines, marker='"50%"'):
    project.pytester.makepyfile(
        "\n".join([
            "import pytest",
            "@pytest.mark.smtp",
            "@pytest.mark.levels(connections=[1])",
            f"@pytest.mark.margin({marker})",
            "def test_body(measured, margin):",
            *(f"    {line}" for line in lines),
        ])
    )  # fmt: skip
    return project.run(CONFIRM, "-k", "body")


def test_a_margin_that_only_the_body_states_is_never_red_without_fresh_epochs(project):
    project.network(slower=0.3)
    result = body(project, 'assert measured.slowdown <= "10%"')
    result.stdout.fnmatch_lines([
        (
            "INCONCLUSIVE *IPv6 seemed beyond the margin of 10 %, with * epochs; inconclusive: not confirmed in "
            "fresh epochs: neither a marker nor --margin states this margin, so that none were measured for it*"
        )
    ])  # fmt: skip
    assert project.measured == [FIRST]


def test_a_margin_that_only_the_body_states_uses_the_fresh_epochs_there_are(project):
    project.network(slower=0.3)
    result = body(
        project, "assert measured.effect.n_epochs == 10",
        "assert {run.epoch for run in measured.runs} == set(range(10))", 'assert measured.slowdown <= "20%"',
        marker='"10%"',
    )  # fmt: skip
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["EXCEEDS *lies beyond the margin of 20 %; confirmed in 10 fresh epochs: *"])


OWN_MARGINS = """
    import pytest

    pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1])]

    class TestWide:
        @pytest.mark.margin("50%")
        def test_wide(self, measured, margin):
            assert measured.slowdown <= margin

    class TestNarrow:
        @pytest.fixture
        def margin(self):
            return "10%"

        @pytest.mark.margin("60%")
        def test_narrow(self, measured, margin):
            assert measured.slowdown <= margin
    """


@pytest.mark.parametrize(("fresh", "verdict"), [(None, "exceeds"), (0.0, "within")])
def test_a_margin_that_only_a_later_items_fixture_states_is_confirmed_too(project, fresh, verdict):
    project.network(slower=0.3, fresh=fresh)
    project.pytester.makepyfile(test_own=OWN_MARGINS)
    result = project.run(CONFIRM, "test_own.py")
    result.assert_outcomes(**({"passed": 1, "failed": 1} if verdict == "exceeds" else {"passed": 2}))
    assert project.measured == [FIRST, AGAIN]
    wide, narrow = events(project, "record")
    assert (wide["verdict"], wide["confirms"]) == ("within", None)
    assert (narrow["verdict"], narrow["epochs"], narrow["confirms"]["level"]) == (verdict, 10, 0.04)


ARMS_OF_THEIR_OWN = """
    import pytest

    pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1]), pytest.mark.margin("50%")]

    @pytest.fixture
    def margin(request):
        return "10%" if "twin" in request.node.name else "20%"

    def test_arms(measured, margin):
        assert measured.slowdown <= margin

    def test_arms_again(measured, margin):
        assert measured.slowdown <= margin
    """
SECOND = "loopback-smtp-c1-1k-confirm-2 ipv4 ipv6"


def arms_of_their_own(project, *arguments):
    project.pytester.makepyfile(test_own=ARMS_OF_THEIR_OWN)
    return project.run(CONFIRM, "--ipperf-twin=yes", "test_own.py", *arguments)


def test_arms_that_only_their_own_items_flag_have_sets_of_their_own(project):
    project.network(slower=0.3, twin=0.3)
    result = arms_of_their_own(project)
    result.assert_outcomes(failed=4)
    assert [line.partition(" ")[0] for line in project.measured] == [
        "loopback-smtp-c1-1k", "loopback-smtp-c1-1k-confirm", "loopback-smtp-c1-1k-confirm-2",
    ]  # fmt: skip
    assert sorted(line.partition(" ")[2] for line in project.measured[1:]) == ["ipv4 ipv4-twin", "ipv4 ipv6"]
    result.stdout.fnmatch_lines(["  measured loopback-smtp-c1-1k again (set 2): 140 runs in *"])
    records = events(project, "record")
    # The number of the selected cells, however many sets there are.
    assert [(each["verdict"], each["confirms"]["level"]) for each in records] == [("exceeds", 0.02)] * 4
    orders = [str(each["order"]) for each in events(project, "workload")]
    assert len(set(orders)) == 3
    assert [each.get("confirms") for each in events(project, "workload")] == [None, True, True]


def test_the_sets_of_a_worker_are_told_apart(project):
    project.network(slower=0.3, twin=0.3)
    result = arms_of_their_own(project, "-n2")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines([
        "*[[]gw? loopback] measured loopback-smtp-c1-1k again: 140 runs in *",
        "*[[]gw? loopback] measured loopback-smtp-c1-1k again (set 2): 140 runs in *",
    ])  # fmt: skip


def test_a_resumed_session_reuses_every_complete_set(project):
    project.network(slower=0.3, twin=0.3)
    arms_of_their_own(project)
    (journal,) = (project.pytester.path / ".ipperf").rglob("main.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    is_cut = ['"event": "run"' in line and '-confirm-2"' in line for line in lines]
    journal.write_text("".join(lines[: is_cut.index(True) + 7]))
    result = arms_of_their_own(project, "--ipperf-resume=last")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*the fresh epochs of loopback-smtp-c1-1k are not reused: broken off there: *"])
    assert [line.partition(" ")[0] for line in project.measured[3:]] == ["loopback-smtp-c1-1k-confirm-2"]
    resumed = events(project, "record")[-4:]
    assert sum(bool(each["taken_from"]) for each in resumed) == 2
    assert len({each["cell"] for each in resumed if each["taken_from"]}) == 1
    result = arms_of_their_own(project, "--ipperf-resume=last")
    result.assert_outcomes(failed=4)
    assert len(project.measured) == 4
    assert all(each["taken_from"] for each in events(project, "record")[-4:])


# --- budget, trouble, interruption, night ----------------------------------------------------------------------------


def test_without_time_for_fresh_epochs_a_cell_is_neither_red_nor_green(project):
    """The first runs take 72 s, the fresh ones would take 280 s."""
    project.network(slower=0.3, run_s=2.0)
    result = run(project, "--ipperf-budget=200s")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines([
        (
            "INCONCLUSIVE *seemed beyond the margin of 10 % *; inconclusive: not confirmed in fresh epochs: of "
            "the budget of 3 min 20 s, 2 min 08 s are left and measuring it again needs about 4 min 40 s*"
        )
    ])  # fmt: skip
    (record,) = events(project, "record")
    assert (record["verdict"], record["reasons"], record["confirms"]) == ("inconclusive", ["unconfirmed"], None)
    assert record["epochs"] == 6


def test_trouble_in_fresh_epochs_is_an_error_of_the_flagged_arms_alone(project):
    project.network(slower=0.3, broken=["loopback-smtp-c1-1k"], from_epoch=100)
    result = run(project, "--ipperf-twin=yes")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*a margin seemed exceeded, and its fresh epochs failed: host server: the *"])


def test_a_night_measures_again_itself(project):
    project.network(slower=0.3)
    result = run(project, "--ipperf-exceeds=flag")
    result.stdout.fnmatch_lines(["ipperf: --ipperf-confirm has no effect in a night, which measures flagged cells *"])
    assert project.measured == [FIRST]


@pytest.mark.parametrize("fresh_runs", [0, 7, 140])
def test_a_resumed_session_takes_no_half_of_the_fresh_epochs_for_all(project, fresh_runs):
    project.network(slower=0.3)
    run(project)
    (journal,) = (project.pytester.path / ".ipperf").rglob("main.jsonl")
    lines, kept, left = journal.read_text().splitlines(keepends=True), [], fresh_runs
    for line in lines:
        fresh = "-confirm" in line
        if '"event": "record"' in line or (fresh and '"event": "run"' in line and not left):
            break
        left -= fresh and '"event": "run"' in line
        kept.append(line)
    journal.write_text("".join(kept))
    result = run(project, "--ipperf-resume=last")
    result.assert_outcomes(failed=1)
    assert project.measured[2:] == ([] if fresh_runs == 140 else [AGAIN])
    record = events(project, "record")[-1]
    assert (record["verdict"], record["epochs"]) == ("exceeds", 10)
    assert bool(record["taken_from"]) == (fresh_runs == 140)
    if fresh_runs == 7:
        result.stdout.fnmatch_lines(["*the fresh epochs of loopback-smtp-c1-1k are not reused: broken off there: *"])


# --- limits ----------------------------------------------------------------------------------------------------------

LIMIT = "--ipperf-limit=p95:23ms"


def test_a_limit_that_seems_exceeded_is_confirmed_too(project):
    project.network(slower=0.3)
    result = run(project, "--margin=50%", LIMIT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "EXCEEDS *IPv6: p95 26* ms, 6000 of 6000 connections *; confirmed in 10 fresh epochs: p95 26* ms, exceeds *"
    ])  # fmt: skip
    (component,) = [each for each in events(project, "record")[0]["components"] if each["limit"]]
    assert (component["confirms"]["epochs"], component["epochs"], component["verdict"]) == (6, 10, "exceeds")
    # The margin and the limit are two answers.
    assert component["confirms"]["level"] == 0.02


def test_a_limit_that_fresh_epochs_keep_is_green(project):
    project.network(slower=0.3, fresh=0.0)
    run(project, "--margin=50%", LIMIT).assert_outcomes(passed=1)
    (component,) = [each for each in events(project, "record")[0]["components"] if each["limit"]]
    assert component["verdict"] == "within"
    assert "; refuted in 10 fresh epochs: p95 2" in component["sentence"]


def test_a_limit_without_time_for_fresh_epochs_is_undecided(project):
    project.network(slower=0.3, run_s=2.0)
    result = run(project, "--margin=50%", LIMIT, "--ipperf-budget=200s")
    result.stdout.fnmatch_lines(["INCONCLUSIVE *: not confirmed in fresh epochs: of the budget of 3 min 20 s, *"])
    assert events(project, "record")[0]["verdict"] == "inconclusive"


def test_limits_alone_are_measured_again_without_the_reference(project):
    project.network(slower=0.3)
    project.pytester.makepyfile(
        test_alone="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        @pytest.mark.limit("p95", "23ms")
        def test_alone(measured):
            assert measured.p95 <= "23ms"
        """
    )
    result = project.run(CONFIRM, "test_alone.py")
    result.assert_outcomes(failed=1, passed=1)
    assert project.measured[1:] == ["loopback-smtp-c1-1k-confirm ipv6"]
