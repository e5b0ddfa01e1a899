"""The three outcomes in pytest, its cache, its reports and its exit status."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED


def test_within_the_margin_passes(project):
    project.network(slower=0.02)
    result = project.run()
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK


def test_beyond_the_margin_fails_and_shows_the_interval_against_it(project):
    project.network(slower=0.3, noise=0.05)
    result = project.run("--connections=10")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * IPv6 is slower than IPv4 by * % [[]*] (90 % interval); the one-sided 95 % lower bound +*",
            "E *[[]*o*]-   +* % [[]+*, +*]",
            "E *0*|*   0 = no change, | = margin 10 %",
        ]
    )
    result.stdout.fnmatch_lines(["EXCEEDS loopback-smtp-c10-1k-ipv6: IPv6 is slower*", "*verdict*exceeds"])


def test_the_answer_stands_before_the_failures_and_the_status_last(project):
    project.network(slower=0.3)
    result = project.run("-rf", "--connections=1")
    result.stdout.fnmatch_lines(
        [
            "*= measurements =*",
            "IPv6 is not as fast as IPv4 for SMTP: *",
            "exceeds  SMTP  IPv6  c1-1k  +* % [[]*]  margin 10 %  * -> * ms  p95 * -> * ms",
            "*= FAILURES =*",
            "*- tables -*",
            "how to read: *",
            "records: *",
            "FAILED *",
            "1 exceeds: exit status 1, a cell is red, a test failed, or something is in trouble; page: *report.html",
            "*= 1 failed in *",
        ]
    )
    assert not [line for line in result.outlines if line.startswith(("  completed", "  failures", "First rows"))]
    more = project.run("-v", "--connections=1").outlines
    assert [line for line in more if line.startswith("  completed")]
    assert "First rows: mean of 12 runs for each arm, warm-ups left out." in more
    assert not [line for line in more if line.startswith("how to read")]


def test_too_little_evidence_is_neither_green_nor_red(project):
    project.network(slower=0.09, noise=0.2)
    result = project.run("-rA")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(
        [
            "*[?]*",
            "INCONCLUSIVE test_smtp_response_time[[]loopback-smtp-c1-1k-ipv6]: *inconclusive*",
            "2 inconclusive: exit status 10, no cell was decided (too little evidence); page: *report.html",
            "*= 2 inconclusive in *",
        ]
    )


def test_a_decided_cell_beside_an_undecided_one_ends_with_0_unless_told_otherwise(project):
    project.network(slower=0.02, noise=0.02)
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.http
        @pytest.mark.levels(connections=[1])
        def test_http(measured):
            assert measured.slowdown <= "2%"
        """
    )
    result = project.run()
    result.stdout.fnmatch_lines(
        ["1 inconclusive, 2 within: exit status 0, nothing is red; 1 inconclusive cell: not counted as failed in *"]
    )
    assert result.ret == pytest.ExitCode.OK
    strict = project.run("--ipperf-inconclusive=fail")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["1 inconclusive, 2 within: exit status 1, *1 inconclusive cell: counted as failed*"])


def test_a_design_that_never_judges_never_ends_with_0(project):
    project.network()
    result = project.run("--design=smoke")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(
        ["2 unjudged: exit status 10, no cell was decided (design smoke never judges); page: *"]
    )


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_set_up_alone_decides_nothing_and_says_whether_it_measured(project, workers):
    project.network()
    result = project.run("--setup-only", "--connections=1", *workers)
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["measured, but no test ran: exit status 10, no cell was decided (no test asked)*"])
    assert project.run("--setup-plan", "--connections=1", *workers).ret == pytest.ExitCode.OK


def test_trouble_of_the_testbed_is_an_error_and_other_workloads_go_on(project):
    project.network(broken=["loopback-smtp-c1-1k"])
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["host server: the server died"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_arm_whose_proof_fails_is_an_error_with_what_was_seen(project):
    project.network(invalid="expected sockets of AF_INET6, seen AF_INET")
    result = project.run("--connections=1")
    result.assert_outcomes(errors=1)
    sentence = "arm ipv6 is not what it is called (epoch 0): expected sockets of AF_INET6, seen AF_INET"
    result.stdout.fnmatch_lines([sentence])


def test_epochs_that_agree_to_the_last_bit_are_a_broken_clock(project):
    project.network(noise=0.0)
    result = project.run("--connections=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["loopback-smtp-c1-1k-ipv6: invalid: all 6 epochs gave exactly the same*"])


def test_last_failed_takes_failed_and_undecided_cells_along(project):
    project.network(slower=0.09, noise=0.2)
    project.run("--connections=1,10")
    project.network(slower=0.02)
    project.run("--lf", "--connections=1,10,20").assert_outcomes(passed=2)
    project.run("--lf", "--connections=1,10,20").assert_outcomes(passed=3)


def test_x_stops_at_the_first_failure_and_sw_goes_on_from_there(project):
    project.network(slower=0.3)
    project.run("-x").assert_outcomes(failed=1)
    assert len(project.measured) == 1
    project.run("--sw").assert_outcomes(failed=1)
    project.network()
    project.run("--sw").assert_outcomes(passed=2)


def test_the_assertion_may_be_the_other_way_round_or_a_plain_text(project):
    project.network(slower=0.3)
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        def test_text(measured):
            assert measured.slowdown <= "50%"

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        def test_wrong(measured):
            asked = 0.5
            assert measured.slowdown <= asked
        """
    )
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["E *UsageError: a slow-down is compared with a margin such as '10%', not with 0.5"])


def verdicts(project):
    """Return the verdicts and margins of the records, by the names of their tests."""
    kept = [line for line in project.kept() if line["event"] == "record"]
    found = [
        (line["nodeid"].partition("::test_")[2].partition("[")[0], line["verdict"], line["margin"]) for line in kept
    ]
    assert len({name for name, *_ in found}) == len(found)
    return {name: tuple(rest) for name, *rest in found}


def test_a_stricter_question_beside_one_that_is_within_is_no_breach_in_either_order(project):
    project.network(slower=0.3)
    project.pytester.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1])]

        def test_afterwards(measured):
            assert measured.slowdown <= "50%"
            assert ("fast" if measured.slowdown <= "5%" else "acceptable") == "acceptable"

        def test_before(measured):
            fast = bool(measured.slowdown <= "5%")
            assert not fast
            assert measured.slowdown <= "50%"

        def test_asserted(measured):
            assert measured.slowdown <= "50%"
            assert measured.slowdown <= "5%"

        def test_over(measured):
            assert measured.slowdown <= "5%" or measured.slowdown <= "6%" or measured.runs
        """
    )
    result = project.run("-v")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*test_asserted* FAILED*", "*test_over* FAILED*"])
    within, exceeds = ("within", "50%"), ("exceeds", "5%")
    assert verdicts(project) == {
        "afterwards": within, "before": within, "asserted": exceeds, "over": ("exceeds", "6%")
    }  # fmt: skip


@pytest.mark.parametrize("asked", ["marker", "option"])
def test_a_margin_that_is_asked_is_not_undone_by_a_wider_one_of_the_body(project, asked):
    project.network(slower=0.3)
    marks = ', pytest.mark.margin("5%")' if asked == "marker" else ""
    project.pytester.makepyfile(
        f"""
        import pytest

        pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1]){marks}]

        def test_wider(measured):
            assert measured.slowdown <= "50%"
        """
    )
    project.run(*(["--margin=5%"] if asked == "option" else [])).assert_outcomes(failed=1)
    assert verdicts(project) == {"wider": ("exceeds", "5%")}


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest has subtests from 9.0 on")
@pytest.mark.parametrize("flags", [(), ("--ipperf-exceeds=flag",)], ids=["fail", "flag"])
def test_an_item_takes_the_answer_of_its_subtests_and_counts_once(project, flags):
    """On three cells: beyond all margins, undecided for one of the two, and within both."""
    project.network(slower={"loopback-smtp-c1-1k": 0.9, "loopback-smtp-c2-1k": 0.1}, noise=0.02)
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1, 2, 3])
        def test_it(measured, subtests):
            for margin in ("10%", "50%", "90%", "200%"):
                with subtests.test(margin):
                    assert measured.slowdown <= margin
        """
    )
    result = project.run(*flags, "-rA")
    records = [line for line in project.kept() if line["event"] == "record"]
    assert [(line["cell"][-10:-8], line["verdict"], line["margin"]) for line in records] == [
        ("c1", "exceeds", "10%"), ("c2", "inconclusive", "10%"), ("c3", "within", "200%")
    ]  # fmt: skip
    last = result.outlines[-1]
    assert "1 inconclusive" in last
    assert ("1 flagged" in last) is bool(flags)
    assert len([line for line in result.outlines if line.startswith("EXCEEDS ")]) == 1
    assert result.ret == (pytest.ExitCode.OK if flags else pytest.ExitCode.TESTS_FAILED)


POINTS, TIME = "percentage points", "response time per connection is a time"


def test_a_margin_fixture_may_give_a_text_and_what_is_no_margin_is_a_sentence(project):
    project.network(slower=0.05)
    project.pytester.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1])]

        @pytest.mark.parametrize("margin", ["20%", "1%", "5 percent", "1pp", 0.1, None], ids=str)
        def test_it(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    result = project.run("-v")
    result.assert_outcomes(passed=1, failed=1, errors=4)
    result.stdout.fnmatch_lines(["*-20%[]] PASSED*", "*-1%[]] FAILED*"])
    gives = "the fixture margin returns {}; use a margin such as '10%,0.5ms'"
    assert [line for line in result.outlines if line.startswith(("the fixture", "share", "margin "))] == [
        "share '5 percent' is not a percentage such as 10%",
        f"margin '1pp' has a floor in {POINTS}, and {TIME}; use a margin such as 10%,0.5ms",
        gives.format(0.1),
        gives.format(None),
    ]
    result.stdout.no_fnmatch_line("*pytest_ipperf/*.py*")


def test_the_record_holds_the_question_that_was_asked(project):
    project.network(slower=0.02)
    project.pytester.makeconftest(
        project.pytester.path.joinpath("conftest.py").read_text()
        + "\n\ndef pytest_ipperf_measured(record):\n    print(record.to_json())\n"
    )
    result = project.run("--margin=25%,1ms", "--connections=10", "-s", "-q")
    kept = project.kept()
    assert [line["verdict"] for line in kept if line["event"] == "record"] == ["within"]
    heard = [json.loads(line[line.index("{") :]) for line in result.outlines if '{"cell"' in line]
    assert [(r["cell"], r["margin"], r["verdict"]) for r in heard] == [
        ("loopback-smtp-c10-1k-ipv6", "25%,1ms", "within")
    ]


def test_junit_tells_the_three_outcomes_apart(project):
    project.network(slower=0.09, noise=0.2, broken=["loopback-smtp-c10-1k"])
    project.run("--junit-xml=report.xml")
    cases = {
        str(case.get("name")).split("-c")[1]: [child.tag for child in case if child.tag != "properties"]
        for case in ET.parse(project.pytester.path / "report.xml").iter("testcase")
    }
    assert cases == {"1-1k-ipv6]": ["skipped"], "10-1k-ipv6]": ["error"]}


def test_a_spent_budget_leaves_the_rest_undecided_with_the_figures(project):
    project.network()
    result = project.run("--ipperf-budget=20s", "--connections=1,1000")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "ipperf: the budget of 20 s is too small for all of it; what does not fit is INCONCLUSIVE",
            "INCONCLUSIVE *c1000-1k-ipv6]: not measured: of the budget of 20 s, * are left and it needs about *",
        ]
    )
    assert len(project.measured) == 1
    kept = project.kept()
    assert ["c1000" in line["nodeid"] for line in kept if line["event"] == "undecided"] == [True]


def test_without_pytests_cache_everything_else_works(project):
    project.network()
    project.run("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_failed_comparison_that_is_no_claim_loads_nothing_costly():
    code = (
        "import sys; from pytest_ipperf.plugin.measure.outcome import explain; "
        "assert [explain(*each) for each in (('==', 1, 2), ('<=', 3, 2), ('<=', 1, None))] == [None] * 3; "
        "print('scipy' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
