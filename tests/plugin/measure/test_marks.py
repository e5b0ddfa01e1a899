"""Marks and plugins of others that change outcomes: none makes a cell green that is not, and none stops a session."""

import xml.etree.ElementTree as ET

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

SUITE = """
import pytest
pytestmark = [pytest.mark.http, pytest.mark.levels(connections=[1])]
"""
BEYOND = {
    "by the mark": """
@pytest.mark.xfail(reason="ticket 7")
def test_it(measured):
    assert measured.slowdown <= "10%"
""",
    "without an assertion": """
@pytest.mark.xfail(reason="ticket 7")
def test_it(measured):
    measured.slowdown <= "10%"
""",
    "in the body": """
def test_it(measured):
    measured.slowdown <= "10%"
    pytest.xfail("ticket 7")
""",
    "by a limit": """
@pytest.mark.limit("p95", "1us")
@pytest.mark.xfail(reason="ticket 7", strict=True)
def test_it(measured):
    assert measured.p95 <= "1us"
""",
}


def run(project, suite, *arguments):
    project.pytester.makepyfile(test_suite=suite)
    return project.run("test_suite.py", "--ipver=6", "--transport=native", *arguments)


@pytest.mark.parametrize("how", BEYOND)
@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_what_exceeds_is_red_though_it_is_expected_to_fail(project, how, workers):
    project.network(slower=0.3)
    result = run(project, SUITE + BEYOND[how], "--junitxml=junit.xml", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    assert len(list(ET.parse(project.pytester.path / "junit.xml").iter("failure"))) == 1
    if how == "by the mark":
        result.stdout.fnmatch_lines(["*lies beyond the margin of 10 %*; mark xfail excuses no verdict"])


def test_x_stops_at_what_exceeds_though_it_is_expected_to_fail(project):
    project.network(slower=0.3)
    run(project, f"{SUITE}{BEYOND['by the mark']}\ndef test_later(): pass\n", "-x").assert_outcomes(failed=1)


def test_a_failure_of_another_kind_may_be_expected(project):
    project.network(slower=0.02)
    suite = f"""{SUITE}
@pytest.mark.xfail(reason="ticket 8")
def test_other(measured):
    assert measured.slowdown <= "10%"
    assert 0
"""
    result = run(project, suite)
    result.assert_outcomes(xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_trouble_of_the_testbed_is_an_error_though_it_is_expected_to_fail(project):
    project.network(broken=["loopback-http-c1-1k"])
    result = run(project, SUITE + BEYOND["by the mark"])
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["host server: the server died"])


@pytest.mark.parametrize(
    ("mark", "end"), [("", "pytest.skip('later')"), ("@pytest.mark.xfail(reason='ticket 8')", "assert 0")]
)
def test_a_margin_of_a_marker_stays_undecided_however_the_body_ends(project, mark, end):
    project.network(slower=0.09, noise=0.2)
    suite = f"""{SUITE}
@pytest.mark.margin("10%")
{mark}
def test_it(measured):
    {end}

def test_well(measured):
    assert measured.slowdown <= "300%"
"""
    result = run(project, suite, "--ipperf-inconclusive=fail")
    result.stdout.fnmatch_lines(["*= 1 passed, 1 inconclusive in *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("mark", ["skip(reason='later')", "skipif(True, reason='later')", "xfail(run=False)"])
def test_a_measurement_that_a_mark_skips_is_none(project, mark):
    suite = f"{SUITE}\n@pytest.mark.{mark}\ndef test_it(measured): pass\n\ndef test_plain(): pass\n"
    result = run(project, suite)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*nothing measured*")


LATE = """
@pytest.fixture
def late(measured):
    yield
    measured.slowdown <= "10%"

def test_late(late, measured):
    assert measured.slowdown <= "300%"
"""
COLLECTED = """
found = []

def test_one(measured):
    found.append(measured)
    assert measured.slowdown <= "300%"

def test_all():
    assert found[0].slowdown <= "10%"
"""


@pytest.mark.parametrize("suite", [LATE, COLLECTED])
def test_a_comparison_after_the_test_is_an_error_with_a_sentence(project, suite):
    project.network(slower=0.3)
    result = run(project, SUITE + suite)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*its measurement was compared after the test had ended, when its record was complete; *"]
    )


RERUN = """
import pytest

def pytest_runtest_protocol(item, nextitem):
    from _pytest.runner import runtestprotocol
    for last in (False, True):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.when == "call" and not last:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
    return True

def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", "RERUN"
"""


def test_of_a_test_that_is_run_again_the_last_run_counts(project):
    project.network(slower=0.02)
    project.pytester.makepyfile(again=RERUN)
    suite = f"{SUITE}\ndef test_it(measured, margin): assert measured.slowdown <= margin\n"
    result = run(project, suite, "-p", "again")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["1 within: exit status 0, *"])


REPEAT = """
import pytest

@pytest.fixture
def step(request):
    return request.param

def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("step")
    metafunc.parametrize("step", range(2), indirect=True)
"""


def test_a_fixture_that_a_plugin_adds_to_a_test_is_known(project):
    project.network()
    project.pytester.makepyfile(repeat=REPEAT)
    suite = f"{SUITE}\ndef test_it(measured): assert measured.slowdown <= '10%'\n"
    result = run(project, suite, "-p", "repeat", "--design=smoke")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["*= 2 unjudged in *"])
