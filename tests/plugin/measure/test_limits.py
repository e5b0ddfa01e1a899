"""Limits in a session: items of every arm, answers, and what is measured for them."""

import json
import xml.etree.ElementTree as ET

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.projects import program

IPV4, IPV6 = "loopback-smtp-c1-1k-ipv4", "loopback-smtp-c1-1k-ipv6"
LIMITS = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1])
    @pytest.mark.limit("p95", "{p95}")
    @pytest.mark.limit("mean", "{mean}")
    def test_limits(measured):
        {body}
"""


def limits(project, *, p95="30ms", mean="25ms", body="pass"):
    project.pytester.makepyfile(test_limits=LIMITS.format(p95=p95, mean=mean, body=body))


def events(project, kind):
    return [line for line in project.kept() if line["event"] == kind]


def verdicts(project):
    return {
        line["nodeid"].split("[")[1].rstrip("]"): {each["metric"]: each["verdict"] for each in line["components"]}
        for line in events(project, "record")
    }


def test_a_test_of_limits_alone_has_an_item_of_every_arm_and_no_reference(project):
    project.network(slower=1.0)
    limits(project)
    result = project.run("test_limits.py", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "*test_limits[[]loopback-smtp-c1-1k-ipv4] PASSED*",
        "*test_limits[[]loopback-smtp-c1-1k-ipv6] FAILED*",
    ])  # fmt: skip
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6"]
    assert verdicts(project) == {
        "loopback-smtp-c1-1k-ipv4": {"p95<=30ms": "within", "mean<=25ms": "within"},
        "loopback-smtp-c1-1k-ipv6": {"p95<=30ms": "exceeds", "mean<=25ms": "exceeds"},
    }


@pytest.mark.parametrize(("ipver", "measured"), [("4", "ipv4"), ("6", "ipv6")])
def test_a_filter_leaves_the_selected_arms_and_no_reference(project, ipver, measured):
    project.network()
    limits(project)
    result = project.run("test_limits.py", f"--ipver={ipver}")
    result.assert_outcomes(passed=1)
    assert project.measured == [f"loopback-smtp-c1-1k {measured}"]
    result.stdout.fnmatch_lines([
        "ipperf: plan: 1 workload, 6 epochs x 2 blocks (design quick), 18 runs, about *",
        "SMTP: limits of each arm alone",
        "*measured *one-sided bounds *limit *verdict",
        f"IP{measured[2:]}, 1 connection, 1k",
        "  p95 * 0 % beyond *0 % .. * %  <= 30 ms in all but 5 % * within",
        "  mean * ms * .. * ms * <= 25 ms * within",
        "  completed *3600 of 3600",
    ])  # fmt: skip
    assert [arm for epoch in events(project, "epoch") for arm in epoch["paths"]] == [measured] * 6


def test_the_reference_alone_is_refused_if_no_test_has_limits_alone(project):
    limits(project)
    result = project.ask("--ipver=4", "-k", "response_time")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: the filters leave only the reference arm ipv4, *"])


@pytest.mark.parametrize(
    "body",
    [
        "assert measured.slowdown <= '10%'",
        "str(measured.reference.mean)",
        "print(measured)",
        "getattr(measured, 'slowdown')",
        "(lambda measured: measured.p95)(measured)",
    ],
)
def test_a_test_that_may_compare_measures_the_reference(project, body):
    limits(project, body=body)
    result = project.ask("test_limits.py", "--collect-only", "-q")
    result.stdout.fnmatch_lines([f"*[[]{IPV6}]"])
    result.stdout.no_fnmatch_line(f"*{IPV4}*")


def test_every_arm_keeps_its_own_answer_to_what_the_body_asserts(project):
    project.network(slower=1.0)
    limits(project, body="assert measured.p50 <= '25ms'")
    result = project.run("test_limits.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        f"EXCEEDS {IPV6}: IPv6: *",
        "E * IPv6: p50 * ms, 3600 of 3600 connections slower than 25 ms or failed; exceeds limit: the one-sided 95 % *",
    ])  # fmt: skip
    assert verdicts(project)[IPV6]["p50<=25ms"] == "exceeds"


def test_too_few_connections_are_undecided_and_say_how_many_would_do(project):
    project.network()
    limits(project, body="assert measured.p999 <= '1s'")
    result = project.run("test_limits.py", "--ipver=4")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines_random([
        "INCONCLUSIVE *: IPv4: p999 * ms, 0 of 3600 connections slower than 1 s or failed; inconclusive: *",
        "INCONCLUSIVE *: the connections that this design makes cannot show p999 *; about 4057 connections *",
        "* inconclusive: exit status 10, no cell was decided (too little evidence); page: *report.html",
    ])  # fmt: skip


def test_a_limit_that_was_not_asserted_counts_as_well(project):
    project.network(slower=1.0)
    limits(project)
    result = project.run("test_limits.py", "--ipver=6")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*exceeds limit*; the test itself did not fail for it"])


def test_a_limit_that_is_exceeded_is_red_though_an_assertion_is_undecided(project):
    project.network(slower=0.09, noise=0.03)
    limits(project, p95="1ms", body='assert measured.slowdown <= "10%"')
    project.run("test_limits.py").assert_outcomes(failed=1)
    (record,) = events(project, "record")
    assert (record["verdict"], record["metric_verdict"]) == ("exceeds", "inconclusive")


def test_a_stricter_limit_beside_one_that_is_within_is_no_breach_in_either_order(project):
    project.network()
    project.pytester.makepyfile(
        test_orders="""
        import pytest

        pytestmark = [pytest.mark.smtp, pytest.mark.levels(connections=[1]), pytest.mark.limit("mean", "1s")]

        def test_afterwards(measured):
            assert measured.p95 <= "30ms"
            assert not bool(measured.p95 <= "1ms")

        def test_before(measured):
            assert not bool(measured.p95 <= "1ms")
            assert measured.p95 <= "30ms"

        def test_never(measured):
            assert not bool(measured.p95 <= "1ms")
            assert measured.p50 <= "30ms"
        """
    )
    result = project.run("test_orders.py", "--ipver=4")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_never*"])


def test_a_limit_without_an_answer_is_an_error_though_the_body_asserts_nothing(project):
    """All epochs give the same mean to the last bit, as a broken clock does."""
    project.network(noise=0.0)
    limits(project, mean="1s", body="measured.cell")
    result = project.run("test_limits.py", "--ipver=4")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*invalid*gave exactly the same mean*"])


@pytest.mark.parametrize("mark", ['margin("5%")', 'tail("10%,1ms")', 'metric("response_time")'])
def test_a_marker_that_compares_on_one_item_of_limits_alone_is_refused(project, mark):
    project.network()
    project.pytester.makepyfile(
        test_one=f"""
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1])
        @pytest.mark.limit("mean", "1s")
        @pytest.mark.parametrize("way", [1, pytest.param(2, marks=pytest.mark.{mark})])
        def test_it(measured, way):
            assert measured.p95 <= "30ms"
        """
    )
    result = project.run("test_one.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = mark.partition("(")[0]
    result.stderr.fnmatch_lines([f"*test_it*: marker {name} of this item would not be judged*"])
    assert not project.measured


def test_a_limit_of_the_mean_beyond_the_deadline_is_refused(project):
    limits(project, mean="15s")
    result = project.run("test_limits.py")
    result.stdout.fnmatch_lines(["*limit mean<=15s cannot be exceeded, as failed connections count as the deadline*"])


def test_a_design_that_never_judges_judges_no_limit(project):
    project.network()
    limits(project, body="assert measured.p95 <= '30ms'")
    project.pytester.makepyfile(test_silent=LIMITS.format(p95="30ms", mean="25ms", body="pass"))
    result = project.run("test_limits.py", "test_silent.py", "--ipver=4", "--design=smoke")
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(["*= 2 deselected, 2 unjudged in *"])


def test_a_comparing_test_has_its_limits_beside_its_margin(project):
    project.network()
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[10])
        @pytest.mark.margin("10%", failures="3pp")
        @pytest.mark.limit("p95", "5ms")
        def test_mixed(measured, margin):
            assert measured.slowdown <= margin
            assert measured.reference.attempted == measured.arm.attempted == 3600
            assert measured.arm.p50 == pytest.approx(0.02, rel=0.05)
            assert measured.arm.quantile(1.0) >= measured.arm.p999
            assert len(measured.arm.samples) == 12 and len(measured.arm.samples[0]) == 300
            assert measured.arm.failed_share == 0
        """
    )
    result = project.run("-k", "mixed", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["IPv6: p95 * ms, *; exceeds limit: *; the test itself did not fail for it"])
    assert project.measured == ["loopback-smtp-c10-1k ipv4 ipv6"]
    (record,) = events(project, "record")
    assert (record["verdict"], record["metric_verdict"]) == ("exceeds", "within")
    assert {each["metric"] for each in record["components"]} == {"failed_share", "p95<=5ms"}
    assert record["margin"] == "10%"


def test_an_option_replaces_the_limits_of_its_figure(project):
    project.network()
    limits(project, p95="1ms")
    project.pytester.makepyprojecttoml('[tool.pytest.ini_options]\nipperf_limit = ["p95:2ms"]\n')
    project.run("test_limits.py", "--ipver=4", "--ipperf-limit=p95:30ms,failed_share:5pp").assert_outcomes(passed=1)
    assert verdicts(project)[IPV4] == {"p95<=30ms": "within", "mean<=25ms": "within", "failed_share<=5pp": "within"}
    project.run("test_limits.py", "--ipver=4").assert_outcomes(failed=1)
    assert verdicts(project)[IPV4]["p95<=2ms"] == "exceeds"


@pytest.mark.parametrize("value", ["p95", "p97:1ms", "p95:20", "throughput:5ms"])
def test_a_wrong_option_is_a_usage_error(project, value):
    result = project.ask(f"--ipperf-limit={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --ipperf-limit: *"])


@pytest.mark.parametrize(
    ("marker", "body", "sentence"),
    [
        ("smtp", "assert measured.p95", 'line 5: `measured.p95` alone compares nothing; use `measured.p95 <= "20ms"`'),
        ("smtp", "assert measured.p95 < '20ms'", "line 5: *is not a comparison that can be decided; use *"),
        ("smtp", "assert measured.p95 <= '20'", "line 5: *limit '20' of p95 is not a time; use *"),
        ("smtp", "assert measured.mean <= 0.02", "line 5: *limit 0.02 of mean has no unit; use *"),
        ("smtp", "assert measured.throughput >= '9mbit'", "line 5: this protocol has no throughput; it has p50, *"),
        ("tcp", "assert measured.throughput <= '9mbit'", 'line 5: *; use `measured.throughput >= "90mbit"`'),
        ("tcp", "assert measured.p95 <= '20ms'", "line 5: this protocol has no p95; it has throughput"),
        ("smtp\n@pytest.mark.limit('p95')", "pass", 'marker limit takes a figure and its limit: limit("p95", "20ms")'),
        ("tcp\n@pytest.mark.limit('p95', '2ms')", "pass", "marker limit: tcp has no p95; it has throughput"),
        ("smtp\n@pytest.mark.limit('p95', '2')", "pass", "limit '2' of p95 is not a time; use a text such as '20ms'"),
    ],
)
def test_a_wrong_limit_is_told_at_collection(project, marker, body, sentence):
    project.pytester.makepyfile(
        test_wrong=f"import pytest\n\n@pytest.mark.{marker}\ndef test_it(measured):\n    {body}\n"
    )
    result = project.ask("test_wrong.py")
    result.stdout.fnmatch_lines([f"test_wrong.py::test_it: {sentence}"])


def test_looks_go_on_until_the_limits_are_answered(project):
    """IPv4 keeps its limit at the first look; that of IPv6 lies at its mean and is never answered."""
    project.network(slower=0.25, noise=0.02)
    limits(project, body="pass")
    result = project.run("test_limits.py", "--design=standard", "-v")
    assert [line["look"] for line in events(project, "record")] != []
    looks = {line["cell"]: (line["look"], line["epochs"] // line["look"]) for line in events(project, "record")}
    going_on = [line["going_on"] for line in events(project, "look")]
    assert looks[IPV4][0] == 1 or looks[IPV4][0] <= looks[IPV6][0]
    assert all(arms in (["ipv6"], []) for arms in going_on)
    assert going_on[0] == ["ipv6"]
    result.stdout.fnmatch_lines(["*undecided at look 1 of *: ipv6; measuring on"])


def test_a_resumed_session_answers_from_the_same_runs(project):
    project.network()
    limits(project)
    project.run("test_limits.py", "--ipver=4").assert_outcomes(passed=1)
    result = project.run("test_limits.py", "--ipver=4", "--ipperf-resume=last")
    result.assert_outcomes(passed=1)
    assert len(project.measured) == 1
    first, second = events(project, "record")
    assert first["components"] == second["components"]


def test_under_xdist_it_is_the_same(project):
    project.network()
    limits(project)
    result = project.run("test_limits.py", "--ipver=4", "-n", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ipperf: plan: 1 workload, 6 epochs x 2 blocks (design quick), 18 runs, *"])


def test_every_report_shows_it(project):
    project.network(slower=1.0)
    limits(project)
    result = project.run("test_limits.py", "--junitxml=own.xml", "--alluredir=allure")
    result.assert_outcomes(passed=1, failed=1)
    own = ET.parse(project.pytester.path / "own.xml").getroot()
    assert {each.get("value") for each in own.iter("property") if each.get("name") == "ipperf_verdict"} == {
        "within", "exceeds",
    }  # fmt: skip
    assert len(list((project.pytester.path / "allure").glob("*-result.json"))) == 2
    folder = next((project.pytester.path / ".ipperf" / "runs").iterdir())
    assert "limits of each arm alone" in (folder / "report.html").read_text()
    assert "p95<=30ms" in (folder / "tables" / "limits.csv").read_text()
    calls = [["export", str(folder), "--format", each] for each in ("csv", "json", "junit", "markdown", "html")]
    for status, text in program(*calls):
        assert status == 0, text
    ((status, shown),) = program(["show", str(folder)])
    assert status == 0
    assert "limits of each arm alone" in shown


def test_a_night_takes_each_limit_as_a_hypothesis_of_its_own(project):
    project.network(slower=0.5)
    limits(project, p95="35ms")
    argv = ["-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())", "night", "--testbed=loopback"]
    done = run_python([*argv, "-p", "no:randomly", "-q", "test_limits.py"], cwd=project.pytester.path)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = json.loads(next((project.pytester.path / ".ipperf" / "nights").glob("*/verdict.json")).read_text())
    assert {(each["cell"], each["metric"]): each["ruling"] for each in verdict["cells"]} == {
        (IPV4, "p95<=35ms"): "within",
        (IPV4, "mean<=25ms"): "within",
        (IPV6, "p95<=35ms"): "within",
        (IPV6, "mean<=25ms"): "exceeds",
    }
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6", "loopback-smtp-c1-1k ipv6"]


def test_a_limit_that_seems_exceeded_may_be_confirmed_in_fresh_epochs(project):
    project.network(slower=0.5)
    limits(project, p95="35ms")
    result = project.run("test_limits.py", "--ipperf-confirm=yes")
    result.assert_outcomes(passed=1, failed=1)
    assert project.measured == ["loopback-smtp-c1-1k ipv4 ipv6", "loopback-smtp-c1-1k-confirm ipv6"]
