"""A/A: the reference measured twice, on request, and the summary of it."""

import pytest

CELLS = ["loopback-smtp-c1-1k-ipv6", "loopback-smtp-c10-1k-ipv6"]
TWINS = ["loopback-smtp-c1-1k-ipv4-twin", "loopback-smtp-c10-1k-ipv4-twin"]
TWIN = "--ipperf-twin=yes"


def ids(result):
    return [line.split("[")[1].rstrip("]") for line in result.outlines if "::" in line]


def collected(project, *arguments, **change):
    return ids(project.ask("--collect-only", "-q", *arguments, **change))


def test_a_twin_is_an_item_of_its_workload_when_it_is_asked_for(project):
    assert collected(project) == CELLS
    assert collected(project, TWIN) == [CELLS[0], TWINS[0], CELLS[1], TWINS[1]]


def test_the_ini_file_may_ask_for_it_and_the_command_line_beats_it(project):
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_twin = "yes"\n')
    assert len(collected(project)) == 4
    assert collected(project, "--ipperf-twin=no") == CELLS


def test_it_is_measured_in_the_same_blocks_and_judged_as_every_other(project):
    project.network(slower=0.3)
    result = project.run(TWIN, "--connections=1", "-v")
    result.assert_outcomes(passed=1, failed=1)
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv4-twin ipv6"]
    result.stdout.fnmatch_lines(
        ["*ipv6] FAILED*", "*ipv4-twin] PASSED*", "IPv4  *", "IPv4 twin *", "  verdict * within"]
    )


@pytest.mark.parametrize("arguments", [["--ipver=6"], ["--transport=native"], []])
def test_filters_of_arms_leave_it_alone(project, arguments):
    assert set(collected(project, TWIN, *arguments)) == {*CELLS, *TWINS}


def test_with_its_twin_the_reference_alone_is_something_to_measure(project):
    project.network()
    project.run(TWIN, "--ipver=4").assert_outcomes(passed=2)
    assert project.measured == [f"loopback-smtp-{count}-1k ipv4 ipv4-twin" for count in ("c1", "c10")]


def test_k_and_m_select_it_as_pytests_users_expect(project):
    assert collected(project, TWIN, "-k", "twin") == TWINS
    assert collected(project, TWIN, "-k", "not twin") == CELLS
    assert collected(project, TWIN, "-m", "arm(ipver=6)") == CELLS
    assert collected(project, TWIN, "-m", "arm(ipver=4)") == TWINS
    assert collected(project, TWIN, "-m", "arm(twin=True)") == TWINS


def test_its_node_id_asks_for_it(project):
    project.network()
    test = "test_its_node_id_asks_for_it.py::test_smtp_response_time"
    project.run(f"{test}[{TWINS[1]}]", testbed="").assert_outcomes(passed=1)
    assert project.measured == ["loopback-smtp-c10-1k ipv4 ipv4-twin"]
    missing = project.run(f"{test}[loopback-smtp-c2-1k-ipv4-twin]", testbed="")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR


def test_last_failed_takes_it_along(project):
    project.network(noise=0.5)
    project.run(TWIN, "--margin=5%").stdout.fnmatch_lines(["*4 inconclusive*"])
    project.network()
    project.run(TWIN, "--lf", "--ipver=4").assert_outcomes(passed=2)


def test_with_another_reference_it_is_that_ones_twin(project):
    project.network()
    result = project.run(TWIN, "--reference=ipv6", "--connections=1", "-v")
    result.stdout.fnmatch_lines(["*c1-1k-ipv4] PASSED*", "*c1-1k-ipv6-twin] PASSED*", "IPv6 twin *"])


def test_it_is_never_the_reference(project):
    result = project.ask("--reference=ipv4-twin")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --reference: 'ipv4-twin' is the twin of a reference and cannot be the reference; use ipv4"]
    )


def test_the_summary_tells_what_chance_gives(project):
    project.network()
    result = project.run(TWIN, "--connections=1,2,3,5,10,20,50,100", "--payload=1k")
    result.stdout.fnmatch_lines(
        ["A/A check passed: the reference differed from its twin (by a 95 % interval) in ? of 8 cells, and chance *"]
    )
    result.stdout.no_fnmatch_line("*environment unstable*")
    project.run().stdout.no_fnmatch_line("A/A*")


def test_a_reference_that_differs_from_itself_is_an_unstable_environment(project):
    """In a simulated network in which the second socket of a kind is slower."""
    project.network(twin=0.05)
    result = project.run(TWIN, "--ipver=4", "--connections=1,10,20,50")
    result.stdout.fnmatch_lines([
        "A/A check failed: the reference differed from its twin (by a 95 % interval) in 4 of 4 cells, and chance *",
        "environment unstable: the reference differs from itself more often than chance explains; do not trust *",
    ])  # fmt: skip
    result.assert_outcomes(passed=4)


def test_a_design_without_intervals_says_nothing_of_chance(project):
    project.network()
    result = project.run(TWIN, "--design=paper", "--connections=1", "--ipver=4")
    result.stdout.fnmatch_lines(["IPv4 twin *"])
    result.stdout.no_fnmatch_line("A/A*")


def test_the_controller_of_xdist_knows_it(project):
    project.network()
    result = project.run(TWIN, "-n", "1", "--connections=1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["ipperf: plan: 1 workload, 6 epochs x 2 blocks (design quick), 54 runs, *", "A/A check: says nothing, *"]
    )
