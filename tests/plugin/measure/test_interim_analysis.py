"""Interim looks in a session: decided arms are measured no further, the others until they are decided or time is up."""

import pytest

from pytest_ipperf.lab.netns import namespaces
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

# One workload is within its margin at once, the other never decided.
APART = {"loopback-smtp-c10-1k": 0.1}
MIXED = {"slower": APART, "noise": 0.02}
RUN_S = 2.0

needs_lab = pytest.mark.skipif(bool(namespaces.unusable()), reason=f"the lab cannot be built: {namespaces.unusable()}")


def events(project, kind):
    return [line for line in project.kept() if line["event"] == kind]


def test_an_open_cell_is_measured_on_and_a_decided_one_is_not(project):
    project.network(**MIXED)
    result = project.run("--design=standard", "-v")
    result.stdout.fnmatch_lines([
        "ipperf: plan: 2 workloads, 1 to 5 looks of 6 epochs x 2 blocks (design standard), 72 to 360 runs, about *",
        "  measured loopback-smtp-c1-1k: 36 runs in *, 1 of 5 looks, server *",
        *(f"  loopback-smtp-c10-1k: undecided at look {look} of 5: ipv6; measuring on" for look in range(1, 5)),
        "  measured loopback-smtp-c10-1k: 180 runs in *, 5 of 5 looks, server *",
        "IPv4 *",
        "  epochs * 6 * 30",
        "IPv6 *",
        "  verdict * within * inconclusive",
        "  epochs * 6 * 30",
        "taken after every 6 epochs, 5 times at most; what is decided is measured no further.",
    ])  # fmt: skip
    why = "look 5 of 5 (30 epochs) was the last; *; a calmer machine or a wider margin would help; f*"
    result.stdout.fnmatch_lines([f"INCONCLUSIVE *; {why}"])
    result.stdout.no_fnmatch_line("*--design=standard*would help*")
    assert result.ret == pytest.ExitCode.OK


def test_the_record_and_the_journal_say_which_look_decided(project):
    project.network(**MIXED)
    project.run("--design=standard")
    found = [(line["look"], line["looks"], line["epochs"], line["verdict"]) for line in events(project, "record")]
    assert found == [(1, 5, 6, "within"), (5, 5, 30, "inconclusive")]
    assert [len(line["test"]["values"]) for line in events(project, "record")] == [12, 60]
    looks = [(line["workload"], line["look"], line["epochs"], line["going_on"]) for line in events(project, "look")]
    assert looks == [
        ("loopback-smtp-c1-1k", 1, 6, []),
        *(("loopback-smtp-c10-1k", look, 6 * look, ["ipv4", "ipv6"]) for look in range(1, 5)),
        ("loopback-smtp-c10-1k", 5, 30, []),
    ]
    first = events(project, "look")[0]
    assert (first["verdicts"], first["stopped"]) == (
        {"ipv6": {"response_time 10%,0.5ms": "within", "failed_share 1pp": "within"}},
        "",
    )
    order = events(project, "workload")[0]["order"]
    assert [epoch["epoch"] for epoch in order] == list(range(30))


def test_a_red_cell_names_its_look(project):
    project.network(slower=0.3)
    result = project.run("--design=standard", "--connections=1")
    result.stdout.fnmatch_lines(
        ["EXCEEDS *lies beyond the margin of 10 % (at least 0.5 ms), at look 1 of 5 (6 epochs); failed *"]
    )
    result.assert_outcomes(failed=1)


def test_several_margins_of_one_cell_each_have_their_answer(project):
    """The narrow margin keeps the cell open; the wide one is answered by the first look and keeps its answer."""
    project.network(**MIXED)
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[10])
        @pytest.mark.margin("50%")
        def test_wide(measured, margin):
            assert measured.slowdown <= margin
            assert measured.effect.n_epochs == 30

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        @pytest.mark.margin("50%")
        def test_another_margin_than_the_marker_says(measured, margin):
            assert measured.slowdown <= "0%"
        """
    )
    result = project.run("--design=standard")
    result.stdout.fnmatch_lines([
        "INCONCLUSIVE test_smtp_response_time*c10*; look 5 of 5 (30 epochs) was the last; *",
        "INCONCLUSIVE test_another_margin*; stopped after look 1 of 5 (6 epochs): all that the tests ask by marker *",
    ])  # fmt: skip
    found = {
        (line["margin"], line["connections"]): (line["look"], line["verdict"]) for line in events(project, "record")
    }
    assert found["50%", 10] == (1, "within")
    assert found["10%,0.5ms", 10] == (5, "inconclusive")
    assert found["0%", 1] == (1, "inconclusive")


def test_margins_are_those_of_the_selected_items_alone(project):
    project.network(**MIXED)
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[10])
        @pytest.mark.margin("50%")
        def test_wide(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    project.run("--design=standard", "-k", "wide").assert_outcomes(passed=1)
    project.run("--design=standard", "--margin=50%", "--connections=10").assert_outcomes(passed=2)
    assert [line["looks"] - line["look"] for line in events(project, "record")] == [4, 4, 4]


def test_trouble_at_a_later_look_is_that_of_the_open_cells_alone(project):
    """IPv4 is the slow one here, so that the twin is never decided and IPv6 at once."""
    project.network(slower=-0.5, noise=0.02, broken=["loopback-smtp-c1-1k"], from_epoch=6)
    result = project.run(
        "--design=standard", "--ipperf-twin=yes", "--margin=0.1%", "--connections=1", "--ipperf-seed=1", "-v"
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*c1-1k-ipv6] PASSED*", "*c1-1k-ipv4-twin] ERROR*", "host server: the server died"])


# --- budget: every run takes two seconds, everything else no time ----------------------------------------------------


def test_a_look_that_the_budget_has_no_time_for_is_not_begun(project):
    """A look has 36 runs and takes 72 s: two fit into 200 s, a third does not."""
    project.network(**MIXED, run_s=RUN_S)
    result = project.run("--design=standard", "--connections=10", "--ipperf-budget=200s")
    result.stdout.fnmatch_lines([
        "INCONCLUSIVE *lie on both sides of the margin of 10 %*; stopped after look 2 of 5 (12 epochs): *",
    ])  # fmt: skip
    sentence = "of the budget of 3 min 20 s, 56 s are left and the next look needs about 72 s"
    result.stdout.fnmatch_lines([f"INCONCLUSIVE *: {sentence}; about * epochs like these * no design does; *"])
    assert result.ret == NOTHING_DECIDED
    assert [line["stopped"] for line in events(project, "look")] == ["", sentence]
    assert len(events(project, "run")) == 72


@pytest.mark.parametrize("slower", [0.08, 0.1, 0.12])
def test_a_budget_stops_by_time_at_a_look_whatever_the_results_are(project, slower):
    """All are undecided, on either side of the margin; each ends at the second look, judged at that look's level."""
    project.network(slower=slower, noise=0.1, run_s=RUN_S)
    project.run("--design=standard", "--connections=10", "--ipperf-budget=200s", "--ipperf-seed=1")
    found = [(line["look"], line["epochs"], line["alpha"], line["verdict"]) for line in events(project, "record")]
    assert found == [(2, 12, 0.0158, "inconclusive")]
    assert {line["epoch"] for line in events(project, "run")} == set(range(12))


def test_a_workload_begins_when_its_first_look_fits(project):
    """The first look took 72 s the last time."""
    project.network(**MIXED, run_s=RUN_S)
    project.run("--design=standard", "--connections=1,10")
    result = project.run("--design=standard", "--connections=1,10", "--ipperf-budget=130s")
    result.stdout.fnmatch_lines([
        "ipperf: plan: 2 workloads, *, about 2 min 24 s to 12 min 00 s",
        "ipperf: the budget of 2 min 10 s is too small for all of it; what does not fit is INCONCLUSIVE",
        "INCONCLUSIVE *c10*: not measured: of the budget of 2 min 10 s, 58 s are left and its first look *",
    ])  # fmt: skip
    result.assert_outcomes(passed=1)


def test_a_budget_that_may_not_do_for_every_look_is_told(project):
    project.network(**MIXED, run_s=RUN_S)
    project.run("--design=standard", "--connections=1")
    result = project.run("--design=standard", "--connections=1", "--ipperf-budget=5min")
    result.stdout.fnmatch_lines([
        "ipperf: the budget of 5 min 00 s may be too small for every look; what is undecided by then is INCONCLUSIVE"
    ])  # fmt: skip
    result.assert_outcomes(passed=1)


# --- measured for real ------------------------------------------------------------------------------------------------

TINY = """
    from pytest_ipperf.core.design.design import DESIGNS, Design

    DESIGNS["tiny"] = Design(
        name="tiny", epochs=5, blocks=1, looks=2, alpha=1e-5, judges=True, purpose="a test", run_connections=20
    )
"""


@needs_lab
def test_a_pair_of_hosts_is_measured_on_for_the_open_arm_alone(project):
    """IPv6 is within a margin that nothing exceeds.

    Against a margin of zero, a twin without a difference is decided in 4 of 100 000 cases: at two looks, with a level
    of 0.001 % on each side.
    """
    project.pytester.makeconftest(TINY)
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.margin(f"1{30 * '0'}%")
        def test_wide(measured, margin):
            assert measured.slowdown <= margin

        @pytest.mark.smtp
        @pytest.mark.margin("0%")
        def test_narrow(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    result = project.run(
        "--design=tiny", "--connections=2", "--ipperf-twin=yes", "--ipperf-server=embedded",
        "--transport=native", "-k", "wide and ipv6 or narrow and twin", testbed="pair",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    epochs = {arm: {run["epoch"] for run in events(project, "run") if run["arm"] == arm}
              for arm in ("ipv4", "ipv6", "ipv4-twin")}  # fmt: skip
    assert epochs == {"ipv4": set(range(10)), "ipv6": set(range(5)), "ipv4-twin": set(range(10))}
    paths = [sorted(epoch["paths"]) for epoch in events(project, "epoch")]
    assert paths == [["ipv4", "ipv4-twin", "ipv6"]] * 5 + [["ipv4", "ipv4-twin"]] * 5
    found = {line["cell"]: (line["look"], line["epochs"], line["verdict"]) for line in events(project, "record")}
    assert found == {
        "pair-smtp-c2-1k-ipv6": (1, 5, "within"),
        "pair-smtp-c2-1k-ipv4-twin": (2, 10, "inconclusive"),
    }
    assert all(run["contradictions"] == [] and run["failed"] == {} for run in events(project, "run"))
    assert {"198.18.0.2"} == {
        peer for run in events(project, "run") if "twin" in run["arm"] for peer in run["proof"]["peers"]
    }
