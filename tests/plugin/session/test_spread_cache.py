"""The spread of earlier sessions is cached, and shown before the next one measures."""

import json
from collections import defaultdict

import pytest

CELL = "loopback-smtp-c1-1k-ipv6"
DETECTS = "ipperf: at the spread of * this design detects *"
NOISY = {"noise": 0.1}


def detectable_lines(result):
    """Return the lines of the plan from the detectable differences on."""
    return [
        line for line in result.outlines if line.startswith("ipperf:") and "plan:" not in line and "left" not in line
    ]


def kept_in(project):
    """Return the file of the spreads."""
    (file,) = (project.pytester.path / ".pytest_cache").rglob("spreads-1")
    return file


def kept(project):
    """Return the spreads by key, in the order of their sessions."""
    found: dict[str, dict[str, dict]] = defaultdict(dict)
    for line in kept_in(project).read_text().splitlines()[1:]:
        key, session, value = map(json.loads, line.removesuffix("\t").split("\t"))
        found[key][session] = value
    return {key: list(values.values()) for key, values in found.items()}


def test_without_earlier_data_nothing_is_said(project):
    project.network()
    project.run().stdout.no_fnmatch_line(DETECTS)
    assert len(kept(project)) == 2


def test_what_the_design_detects_here_is_said_before_it_measures(project):
    project.network(noise=0.02)
    project.run()
    project.run()
    result = project.run()
    line = "ipperf: at the spread of 2 earlier sessions this design detects differences of * % (*-ipv6) to * % (*-ipv6)"
    result.stdout.fnmatch_lines(["ipperf: plan: *", line, "*= measurements =*"])
    assert len(detectable_lines(result)) == 1


def test_one_cell_is_said_alone(project):
    project.network(noise=0.02)
    project.run("--connections=1")
    result = project.run("--connections=1", "--collect-only")
    result.stdout.fnmatch_lines(["ipperf: at the spread of 1 earlier session this design detects differences of *"])
    assert detectable_lines(result)[-1].endswith(f" % ({CELL})")


def test_cells_of_which_nothing_is_known_are_counted(project):
    project.network(noise=0.02)
    project.run("--connections=1")
    result = project.run("--connections=1,2,3", "--collect-only", "-q")
    result.stdout.fnmatch_lines([f"*({CELL}); 2 of 3 cells have no earlier data"])


def test_collect_only_says_it_of_every_workload(project):
    project.network(noise=0.02)
    project.run("--ipperf-twin=yes")
    result = project.run("--collect-only", "-q", "--ipperf-twin=yes", "--margin=30%,10ms")
    result.stdout.fnmatch_lines([
        "ipperf:   loopback-smtp-c1-1k: ipv4, ipv4-twin, ipv6; 54 runs, about *",
        "ipperf:     detects differences of: ipv4-twin ??? % (margin 50.? %), ipv6 ??? % (margin 50.? %)",
        "ipperf:   loopback-smtp-c10-1k: ipv4, ipv4-twin, ipv6; 54 runs, about *",
        "ipperf:     detects differences of: *",
    ])  # fmt: skip


def test_a_margin_below_that_is_warned_of_with_what_would_do(project):
    project.network(**NOISY)
    project.run("--connections=1")
    for margin, end in (
        ("8%", "about 27 epochs like these would suffice; --design=standard detects 9 %"),
        ("0%", "no number of epochs would suffice"),
    ):
        result = project.run("--connections=1", "--collect-only", "-q", f"--margin={margin}")
        shown = margin.replace("%", " %")
        start = f"ipperf: {CELL}: a margin of {shown} is less than the 20.3 % that this design can detect here; "
        result.stdout.fnmatch_lines([start + end])
    result = project.run("--connections=1", "--collect-only", "-q", "--design=standard", "--margin=1%")
    result.stdout.fnmatch_lines(
        [f"ipperf: {CELL}: a margin of 1 % is * about * epochs like these would suffice, but no *"]
    )


def test_the_narrowest_margin_counts_and_a_floor_takes_the_last_reference(project):
    """The reference is at about 20 ms, of which 10 ms are about a half."""
    project.network(**NOISY)
    project.run("--connections=1")
    project.run("--connections=1", "--collect-only", "-q", "--margin=1%,10ms").stdout.no_fnmatch_line("*is less than*")
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        @pytest.mark.margin("2%")
        def test_narrow(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    result = project.run("--connections=1", "--collect-only", "-q")
    result.stdout.fnmatch_lines([f"ipperf: {CELL}: a margin of 2 % is less than *"])


def test_a_design_of_several_looks_detects_by_its_last(project):
    project.network(noise=0.02)
    project.run("--connections=1")
    result = project.run("--connections=1", "--collect-only", "-q", "--design=standard")
    result.stdout.fnmatch_lines(["ipperf: at the spread of 1 earlier session this design, by its last look, detects *"])


@pytest.mark.parametrize("design", ["smoke", "paper"])
def test_a_design_that_never_judges_forecasts_nothing(project, design):
    project.network()
    project.run("--connections=500", f"--design={design}")
    project.run("--connections=500")
    project.run("--connections=500", "--collect-only", f"--design={design}").stdout.no_fnmatch_line("ipperf: *detects*")


def test_what_would_not_be_comparable_is_not_taken(project):
    project.network()
    project.run("--connections=1")
    for other in ("--ipperf-server=embedded", "--ipperf-deadline=5s", "--reference=ipv6", "--design=smoke"):
        project.run("--connections=1", "--collect-only", other).stdout.no_fnmatch_line("ipperf: *detects*")
    (key,) = kept(project)
    assert key == f"{CELL}/ipv4/auto/300/10/response_time"


def test_the_last_ten_sessions_are_kept_and_each_cell_once(project):
    project.network(noise=0.02)
    project.pytester.makepyfile(
        test_more="""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        def test_again(measured, margin):
            assert measured.slowdown <= margin
        """
    )
    project.run("--connections=1").assert_outcomes(passed=2)
    ((key, (seen,)),) = kept(project).items()
    assert (seen["server"], seen["blocks"]) == ("synthetic 1.0 (embedded)", 2)
    assert seen["reference_value"] == pytest.approx(0.02, rel=0.1)
    sessions = [f"{number:02d}" for number in range(21)]
    lines = ["".join(f"{json.dumps(one)}\t" for one in (key, each, seen | {"session": each})) for each in sessions]
    kept_in(project).write_text("\n".join(["", *lines]))
    project.run("--connections=1")
    assert [each["session"] for each in kept(project)[key]][:-1] == sessions[-9:]


def test_under_xdist_the_main_process_remembers_and_tells(project):
    project.network(**NOISY)
    project.run("-n", "1", "--connections=1", "--margin=2%")
    result = project.run("-n", "1", "--connections=1")
    result.stdout.fnmatch_lines([
        "ipperf: at the spread of 1 earlier session this design detects differences of *",
        f"ipperf: {CELL}: a margin of 2 % is less than *",  # the last session's metric, as only workers know markers
    ])  # fmt: skip


def test_nothing_is_remembered_without_pytests_cache(project):
    project.network()
    for _ in range(2):
        project.run("-p", "no:cacheprovider").stdout.no_fnmatch_line("ipperf: *detects*")
