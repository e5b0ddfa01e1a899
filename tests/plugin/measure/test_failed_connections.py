"""Sessions on servers that fail or are slow in ways that a mean over runs does not show.

The times of a run's connections are quantiles of a lognormal distribution, so that every session is the same; runs
differ by less than 1 %. `CHANGES` makes of them what the server does.
"""

import textwrap

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

CONNECTIONS = """
    from statistics import NormalDist

    QUANTILES = [NormalDist().inv_cdf((place + 0.5) / 300) for place in range(300)]

    def connections(ipver, epoch, block):
        '''Return the times of the completed connections in seconds, ascending, and how many failed.'''
        times, failed = [{median_s} * math.exp({sigma} * each) for each in QUANTILES], 0
        {changes}
        return times, failed

    def run(self, arm, service, workload, *, bursts, deadline_s, duration, pattern="", capture=0):
        block = self.blocks[arm] = self.blocks.get(arm, -2) + 1
        times, failed = connections(arm.ipver, self.epochs, block)
        level = random.Random(f"{{arm}} {{self.epochs}} {{block}}").uniform(0.995, 1.005)
        rows = [each for time in times[failed:] for each in (0.0, 0.0, 0.0, 0.0, level * time, 0.0, 0.0)]
        data = RunData(
            attempted=300, failed={{"talk reset": failed}} if failed else {{}}, columns=PHASES,
            samples=array("d", rows), deadline_s=10.0,
        )
        return RunResult(data=data, proof={{}}, violations=(), unsettled=())

    LiveTestbed.run = run
"""
SUITE = """
    import pytest

    @pytest.mark.http
    @pytest.mark.levels(connections=[10])
    {marker}
    def test_http(measured, margin):
        assert measured.slowdown <= margin
"""


@pytest.fixture
def session(project):
    """Runs a session on such a server; gives its result and its only record."""

    def run(changes, *arguments, median_s=0.01, sigma=0.3, marker=""):
        project.network()
        there = project.pytester.path / "conftest.py"
        script = textwrap.dedent(CONNECTIONS).format(changes=changes, median_s=median_s, sigma=sigma)
        there.write_text(f"{there.read_text()}\nimport math\n{script}")
        for old in project.pytester.path.glob("test_*.py"):
            old.unlink()
        project.pytester.makepyfile(textwrap.dedent(SUITE).format(marker=marker))
        result = project.run("--ipver=6", *arguments)
        records = [line for line in project.kept() if line["event"] == "record"]
        assert len(records) == 1, result.outlines
        return result, records[0]

    return run


def answers(record):
    """Return the verdicts of the metric and of the components."""
    own = record["metric_verdict"] or record["verdict"]
    return {record["metric"]: own} | {each["metric"]: each["verdict"] for each in record["components"]}


def component(record, metric):
    return next(each for each in record["components"] if each["metric"] == metric)


def test_one_run_in_each_epoch_that_loses_everything_is_red(session):
    """The median of six blocks drops that run, so that the response time is within its margin."""
    result, record = session("if ipver == 6 and block == 1: failed = 300", "--design=nightly")
    assert answers(record) == {"response_time": "within", "failed_share": "exceeds"}
    assert component(record, "failed_share")["estimate"] == pytest.approx(100 / 6)
    assert record["verdict"] == "exceeds"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["EXCEEDS *failed connections *16.7 pp*"])


def test_one_run_in_twenty_that_loses_everything_is_never_green(session):
    """Three of sixty runs: whether another session has as many is not known."""
    result, record = session("if ipver == 6 and epoch % 4 == block == 1: failed = 300", "--design=nightly")
    assert answers(record) == {"response_time": "within", "failed_share": "inconclusive"}
    assert record["verdict"] == "inconclusive"
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["*= 1 inconclusive in *"])


def test_failures_of_a_slow_service_are_red_though_its_mean_hardly_moves(session):
    """A service of 3 s: 2 % of failures that count as 10 s make it 5 % slower."""
    result, record = session("failed = 6 * (ipver == 6)", "--design=nightly", median_s=3.0, sigma=0.1)
    assert answers(record) == {"response_time": "within", "failed_share": "exceeds"}
    assert record["estimate"] == pytest.approx(4.7, abs=0.5)
    assert record["verdict"] == "exceeds"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)


def test_rare_failures_of_both_arms_of_a_fast_service_hide_nothing(session):
    """One connection in 3600 of each arm, in another run: it counts as ten means, and not as a thousand."""
    result, record = session("failed = int((epoch, block) == (ipver // 2, 0))")
    assert answers(record) == {"response_time": "within", "failed_share": "within"}
    assert record["verdict"] == "within"
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)


def test_failures_that_so_few_connections_cannot_exclude_are_undecided(session):
    """0.7 % in a service of 1 s, which changes the mean by less than the margin."""
    result, record = session("failed = 2 * (ipver == 6)", median_s=1.0, sigma=0.1)
    assert answers(record) == {"response_time": "within", "failed_share": "inconclusive"}
    assert result.ret == NOTHING_DECIDED


TAIL = '@pytest.mark.tail("10%,0.5ms")'


@pytest.mark.parametrize(
    ("slowest", "design", "found"), [(3, "nightly", "within"), (6, "quick", "exceeds"), (12, "quick", "exceeds")]
)
def test_a_tail_that_takes_twice_as_long_is_seen_if_it_is_more_than_a_hundredth(session, slowest, design, found):
    """The slowest 1 %, 2 % and 4 %, of which some exceed the reference's tail in any case."""
    result, record = session(
        f"if ipver == 6: times = times[:-{slowest}] + [2 * each for each in times[-{slowest}:]]",
        f"--design={design}", marker=TAIL,
    )  # fmt: skip
    assert answers(record) == {"response_time": "within", "failed_share": "within", "slow_share": found}
    assert record["verdict"] == found
    assert component(record, "slow_share")["test_value"] == pytest.approx(slowest / 300)
    assert result.ret == {"within": pytest.ExitCode.OK, "exceeds": pytest.ExitCode.TESTS_FAILED}[found]


def test_a_few_connections_of_a_second_more_are_red_by_the_tail_alone(session):
    """4 % of the connections of a service of 1 s: the mean is 4 % more, and no connection fails."""
    changes = "if ipver == 6: times = sorted(time + (place % 25 == 0) for place, time in enumerate(times))"
    result, record = session(changes, median_s=1.0, sigma=0.1, marker=TAIL)
    assert answers(record) == {"response_time": "within", "failed_share": "within", "slow_share": "exceeds"}
    assert record["verdict"] == "exceeds"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["EXCEEDS *slow connections *"])


def test_the_same_without_the_marker_is_green(session):
    changes = "if ipver == 6: times = sorted(time + (place % 25 == 0) for place, time in enumerate(times))"
    result, record = session(changes, median_s=1.0, sigma=0.1)
    assert answers(record) == {"response_time": "within", "failed_share": "within"}
    assert result.ret == pytest.ExitCode.OK
