"""Mistakes in a suite are reported at collection, before anything is measured; those in a test's body are errors."""

import dataclasses
import re

import pytest

from pytest_ipperf.plugin.collect.claims import ATTRIBUTES
from pytest_ipperf.plugin.measure.measured import Measured
from pytest_ipperf.protocols import applications

RIGHT = 'use `measured.slowdown <= margin`, or a margin of its own: `measured.slowdown <= "10%,0.5ms"`'
HEAD = "import pytest\n\n@pytest.mark.smtp\n@pytest.mark.levels(connections=[1])\n"
POINTS = "margin '1pp' has a floor in percentage points"
UNKNOWN = "requested by the test or by one of its fixtures, does not exist"
UNITLESS = "is not a margin, which is a text with a unit"
UNANSWERED = "is not a comparison that can be decided"
TWISTED = "would pass if the margin is exceeded and fail if it is kept"


def collect(project, text, *arguments):
    """Collect one file; return what is said below its `ERROR collecting`, without the file's name."""
    project.pytester.makepyfile(test_wrong=text)
    result = project.ask("--collect-only", "-q", "test_wrong.py", *arguments)
    lines = result.outlines
    at = next((at for at, line in enumerate(lines) if "ERROR collecting" in line), None)
    if at is None:
        assert result.ret == pytest.ExitCode.OK, lines
        return ""
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert lines[at + 2].startswith("=")
    return lines[at + 1].removeprefix("test_wrong.py::")


def collect_each(project, texts):
    """Collect files with these texts in one session; return for each what `collect` would, in their order."""
    names = [f"test_{number}" for number in range(len(texts))]
    project.pytester.makepyfile(**dict(zip(names, texts, strict=True)))
    lines = project.ask("--collect-only", "-q", *(f"{name}.py" for name in names)).outlines
    found = dict.fromkeys(names, "")
    for at, line in enumerate(lines):
        if match := re.fullmatch(r"_+ ERROR collecting (test_\d+)\.py _+", line):
            found[match[1]] = lines[at + 1].removeprefix(f"{match[1]}.py::")
            assert lines[at + 2].startswith(("_", "="))
    for name in names:
        assert any(line.startswith(f"{name}.py::test_it") for line in lines), name  # an item, or why it is none
    return list(found.values())


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("measured, margn", f"fixture 'margn', {UNKNOWN}; the nearest is 'margin'"),
        ("measured, conections",
         f"fixture 'conections', {UNKNOWN}; the nearest is 'connections'"),
        ("measured, zzzzzz",
         f"fixture 'zzzzzz', {UNKNOWN}; pytest --fixtures lists all fixtures"),
        ("mesured, margin",
         f"fixture 'mesured', {UNKNOWN}; the nearest is 'measured'"),
        ("margin", "it requests margin, which belongs to a measurement, but not measured; request both"),
        ("server_state",
         "it requests server_state, which belongs to a measurement, but not measured; request both"),
    ],
)  # fmt: skip
def test_an_argument_that_is_no_fixture_is_found_at_collection(project, asked, sentence):
    assert collect(project, f"{HEAD}def test_it({asked}): pass\n") == f"test_it: {sentence}"


def test_a_fixture_of_the_suites_that_asks_for_none_is_found_too(project):
    text = "import pytest\n\n@pytest.fixture\ndef mine(hsot): pass\n\n@pytest.fixture\ndef host(): pass\n\n"
    sentence = f"fixture 'hsot', {UNKNOWN}; the nearest is 'host'"
    marks = "@pytest.mark.smtp\n@pytest.mark.levels(connections=[1])\n"
    assert collect(project, f"{text}{marks}def test_it(measured, mine): pass\n") == f"test_it: {sentence}"


def test_parameters_and_fixtures_of_the_suites_own_are_no_mistakes(project):
    text = """
    import pytest

    def pytest_generate_tests(metafunc):
        if "late" in metafunc.fixturenames:
            metafunc.parametrize("late", [1])

    @pytest.fixture
    def mine(request): pass

    @pytest.fixture
    def margin(): return "5%"

    @pytest.mark.parametrize("size", [1])
    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1])
    def test_it(measured, mine, size, late, margin, request, tmp_path, connections): pass

    def test_of_an_own_margin(margin): pass

    class TestIt:
        @pytest.mark.smtp
        def test_in_a_class(self, measured): pass
    """
    assert collect(project, text) == ""


@pytest.mark.parametrize("mark", ["skip", "skipif(True, reason='no')", "xfail(run=False)"])
def test_what_is_skipped_may_ask_for_what_is_not_there(project, mark):
    marked = f"@pytest.mark.{mark}\n@pytest.mark.smtp\n@pytest.mark.levels(connections=[1])\n"
    asked = {"theirs": "measure", "ours": "measured, margin, benchmark", "alone": "margin"}
    tests = "\n".join(f"{marked}def test_{name}({fixtures}): pass\n" for name, fixtures in asked.items())
    assert collect(project, f"import pytest\n\n{tests}") == ""


MISTAKEN = [
    ("assert measured.slowdown <= 0.1",
     f"`measured.slowdown <= 0.1`: 0.1 {UNITLESS}; {RIGHT}"),
    ("assert measured.slowdown <= -1", f"`measured.slowdown <= -1`: -1 {UNITLESS}; {RIGHT}"),
    ("assert measured.slowdown <= '10ms'",
     f"`measured.slowdown <= '10ms'`: share '10ms' is not a percentage such as 10%; {RIGHT}"),
    ("assert measured.slowdown <= '1pp'",
     f"`measured.slowdown <= '1pp'`: {POINTS}, and response time per connection is a time; {RIGHT}"),
    ("assert measured.slowdown < margin", f"`measured.slowdown < margin` {UNANSWERED}; {RIGHT}"),
    ("assert measured.slowdown >= margin", f"`measured.slowdown >= margin` {UNANSWERED}; {RIGHT}"),
    ("assert measured.slowdown == margin", f"`measured.slowdown == margin` {UNANSWERED}; {RIGHT}"),
    ("assert margin > measured.slowdown", f"`margin > measured.slowdown` {UNANSWERED}; {RIGHT}"),
    ("assert 0 <= measured.slowdown <= margin",
     f"`0 <= measured.slowdown <= margin` is a chain, and a margin has one side; {RIGHT}"),
    ("assert measured.slowdown", f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("assert bool(measured.slowdown)", f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("if measured.slowdown: pass", f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("assert not measured.slowdown <= margin", f"`not measured.slowdown <= margin` {TWISTED}; {RIGHT}"),
    ("assert measured.slowdown <= margin or True",
     "`measured.slowdown <= margin or True` is true whatever is measured; leave out `or True`"),
    ("assert dict(measured=measured.slowdown <= 0.1)",
     f"`measured.slowdown <= 0.1`: 0.1 {UNITLESS}; {RIGHT}"),
    ("assert measured.slowdown and measured.slowdown <= margin",
     f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("assert measured.effect and measured.slowdown", f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("assert margin and not measured.slowdown <= margin",
     f"`not measured.slowdown <= margin` {TWISTED}; {RIGHT}"),
    ("assert measured.slowdwn <= margin", "measured has no 'slowdwn'; did you mean 'slowdown'?"),
    ("with open('x'): assert measured.slowdwn <= margin",
     "measured has no 'slowdwn'; did you mean 'slowdown'?"),
    ("try: assert measured.slowdown\n    finally: pass",
     f"`measured.slowdown` alone compares nothing; {RIGHT}"),
    ("assert measured.p90 <= margin", "measured has no 'p90'; did you mean 'p99'?"),
    ("assert measured.increase <= 0.1",
     f"`measured.increase <= 0.1`: 0.1 {UNITLESS}; {RIGHT.replace('slowdown', 'increase')}"),
]  # fmt: skip


def test_a_question_that_cannot_be_meant_is_found_at_collection(project):
    text = f"{HEAD}def test_it(measured, margin):\n    '''Of two lines.\n    '''\n    {{}}\n"
    found = collect_each(project, [text.replace("{}", body) for body, _ in MISTAKEN])
    assert found == [f"test_it: line 8: {sentence}" for _, sentence in MISTAKEN]


MEANT = [
    "assert measured.slowdown <= margin",
    "assert margin >= measured.slowdown",
    "assert measured.slowdown <= '50%,1ms'",
    "assert measured.slowdown <= (margin if connections == 100 else '5%,0.05ms')",
    "assert measured.slowdown is not None and measured.slowdown <= margin",
    "assert measured.slowdown <= margin or connections == 1",
    "assert measured.effect.n_epochs == 6 and measured.runs",
    "measured = object()\n    assert measured.anything",
    "allowed = 0.1\n    assert measured.slowdown <= allowed",
    "if not measured.slowdown <= margin: pytest.fail('too slow')",
    "failed = not (measured.slowdown <= margin)\n    assert not failed",
    "why = measured.slowdown <= margin or 'too slow'\n    assert why",
    "asked = measured.effect and measured.slowdown\n    assert asked <= margin",
    "asked = None or measured.slowdown\n    assert asked <= margin",
    "assert max(measured.runs, key=lambda measured: measured.seconds)",
    "assert (lambda *measured: measured.seconds)",
    "def mean(measured): return measured.total\n    assert measured.slowdown <= margin",
    "try: pass\n    except ValueError as measured: print(measured.args)\n    assert margin",
    "match margin:\n        case measured: print(measured.relative)",
    "match [margin]:\n        case [*measured]: print(measured.copy())",
    "match {1: margin}:\n        case {**measured}: print(measured.keys())",
    "import os.path as measured\n    assert measured.sep",
    "with pytest.raises(Exception, match='no margin'): measured.slowdown <= 0.1",
    "with contextlib.suppress(AttributeError): measured.p50",
    "try: measured.slowdown <= 0.1\n    except BaseException: pass",
    "print(measured.__doc__)\n    assert measured.slowdown <= margin",
]


def test_what_may_be_meant_is_collected(project):
    text = f"{HEAD}def test_it(measured, margin, connections):\n    {{}}\n"
    found = collect_each(project, [text.replace("{}", body) for body in MEANT])
    assert dict(zip(MEANT, found, strict=True)) == dict.fromkeys(MEANT, "")


def test_a_file_that_was_changed_is_judged_by_what_it_has_now(project):
    """In one process, as when a suite tests its own plugins."""
    for claim, sentence in (("<= 0.1", f"`measured.slowdown <= 0.1`: 0.1 {UNITLESS}; {RIGHT}"), ("<= margin", "")):
        found = collect(project, f"{HEAD}def test_it(measured, margin):\n    assert measured.slowdown {claim}\n")
        assert found == (sentence and f"test_it: line 6: {sentence}")


def test_what_an_own_fixture_of_the_name_gives_is_nobody_elses_business(project):
    own = "import pytest\n\n@pytest.fixture\ndef measured(measured): return 1\n\n"
    text = f"{own}{HEAD}def test_it(measured):\n    assert measured < 2\n"
    assert collect(project, text) == ""


def test_the_attributes_that_may_be_asked_are_those_that_there_are():
    public = [name for name, each in vars(Measured).items() if isinstance(each, property)]
    assert sorted(ATTRIBUTES) == sorted([*(each.name for each in dataclasses.fields(Measured)), *public])


def test_what_only_the_body_does_wrong_is_an_error_without_internals(project):
    project.network()
    names = {
        "number": "asked <= 0.1", "text": "asked <= '10ms'", "less": "asked < margin", "equal": "asked == margin",
        "other": "asked != margin", "alone": "asked",
    }  # fmt: skip
    project.pytester.makepyfile(
        "import pytest\n\n"
        + "\n\n".join(
            f"@pytest.mark.smtp\n@pytest.mark.levels(connections=[1])\ndef test_{name}(measured, margin):\n"
            f"    asked = measured.slowdown\n    assert {body}\n"
            for name, body in names.items()
        )
    )
    result = project.run("--transport=native")
    result.assert_outcomes(errors=6)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = [line.partition("UsageError: ")[2] for line in result.outlines if line.startswith("E  ")]
    right = "use `measured.slowdown <= margin`, or a text such as '10%' instead of margin"
    shown = "Margin(relative=0.1, at_least=0.0005, unit='s', headers=False)"
    assert said == [
        "a slow-down is compared with a margin such as '10%', not with 0.1",
        "share '10ms' is not a percentage such as 10%",
        *(f"a slow-down cannot be compared by `{sign} {shown}`; {right}" for sign in ("<", "==", "!=")),
        f"a slow-down alone compares nothing; {right}",
    ]
    result.stdout.no_fnmatch_line("*pytest_ipperf/*.py*")
    result.stdout.no_fnmatch_line("*FAILED*")


def test_a_verdict_that_a_test_passes_over_is_its_outcome_all_the_same(project):
    project.network(slower={"loopback-smtp-c1-1k": 0.3, "loopback-smtp-c10-1k": 0.1})
    project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1, 10])
        def test_it(measured, margin):
            try:
                assert measured.slowdown <= margin
            except BaseException:
                pass
        """
    )
    result = project.run("--transport=native", "-v")
    result.stdout.fnmatch_lines(
        ["*c1-1k-ipv6] FAILED*", "*c10-1k-ipv6] INCONCLUSIVE*", "*; the test itself did not fail for it"]
    )


TESTBEDS = "lab, pair, loopback, and labs with any rate, such as lab.100mbit"
DESIGNED = "smoke, quick, standard, nightly, confirmation, paper, rfc8219"
ONCE = "a level is measured once"
FLOWS = "import pytest\n\n@pytest.mark.tcp\n@pytest.mark.levels(window=['64k'])\ndef test_tcp(measured): pass\n"
WITH_THROUGHPUT = "dns_load, file_transfer, game, tcp, traffic, udp, voip"
WITH_DURATION = "dns_load, file_transfer, game, rtt, tcp, traffic, udp, voip"
UNUSED = "it has no effect on any selected {}; selected: {}; it applies to: {}"
APPLICATIONS = UNUSED.format("protocol", "tcp", ", ".join(applications()))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("-m", "smtp", "--window=64k"), f"--window: {UNUSED.format('protocol', 'smtp', 'tcp')}"),
        (("-m", "smtp", "--duration=2s"),
         f"--duration: {UNUSED.format('protocol', 'smtp', WITH_DURATION)}"),
        (("-m", "smtp", "--ipperf-limit=throughput:9mbit"),
         f"--ipperf-limit: throughput: {UNUSED.format('protocol', 'smtp', WITH_THROUGHPUT)}"),
        (("-m", "tcp", "--client=library"), f"--client: {APPLICATIONS}"),
        (("-m", "tcp", "--arrivals=200/s"), f"--arrivals: {APPLICATIONS}"),
        (("-m", "tcp", "--ipperf-workers", "2"), f"--ipperf-workers: {APPLICATIONS}"),
        (("-m", "smtp", "--ipperf-server=apache"),
         f"--ipperf-server: {UNUSED.format('protocol', 'smtp', 'http')}"),
        (("--transport=native", "--ipperf-backend=kernel"),
         f"--ipperf-backend: {UNUSED.format('arm', 'ipv4, ipv6', 'ipv6-isatap, ipv6-tunnel')}"),
    ],
)  # fmt: skip
def test_an_option_without_effect_is_a_usage_error(project, asked, sentence):
    project.pytester.makepyfile(test_flows=FLOWS)
    result = project.ask("--collect-only", "-q", *asked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [f"ERROR: {sentence}"]


@pytest.mark.parametrize(
    "asked",
    [
        ("--window=64k", "--duration=2s", "--client=library", "--ipperf-server=postfix"),
        ("-m", "smtp", "--lf", "--window=64k"),
        ("-m", "smtp or tcp", "--connections=100", "--window=64k", "--ipperf-backend=kernel"),
        ("-m", "smtp", "--ipperf-server=apache,postfix"),
        ("-m", "dns", "--window=64k"),
        ("-m", "smtp or tcp", "--ipperf-limit=throughput:9mbit"),
        ("-m", "smtp", "-o", "addopts=--window=64k"),
    ],
)
def test_an_option_that_has_some_effect_or_is_the_projects_is_none(project, asked):
    project.pytester.makepyfile(test_flows=FLOWS)
    assert project.ask("--collect-only", "-q", *asked).ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def test_under_xdist_an_option_without_effect_ends_the_session_before_it_measures(project):
    project.network()
    result = project.run("-n", "2", "--window=64k")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --window: {UNUSED.format('protocol', 'smtp', 'tcp')}" in result.errlines
    assert project.measured == []


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ("connections=[1, 10, 1]", f"levels connections=[1, 10, 1] have 1 twice; {ONCE}"),
        ("payload=['1k', 1024]",
         f"levels payload=['1k', 1024] have '1k' and 1024, which are the same; {ONCE}"),
        ("rate=['10mbit', '10000kbit']",
         f"levels rate=['10mbit', '10000kbit'] have '10mbit' and '10000kbit', which are the same; {ONCE}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("marker", ["levels", "grid"])
def test_a_level_that_stands_twice_is_found_at_collection(project, marker, levels, sentence):
    protocol = "udp" if "rate" in levels else "smtp"
    text = f"import pytest\n\n@pytest.mark.{protocol}\n@pytest.mark.{marker}({levels})\ndef test_it(measured): pass\n"
    assert collect(project, text) == f"test_it: {sentence}"


def test_a_grid_is_read_under_every_design_and_options_may_say_a_level_twice(project):
    text = "import pytest\n\n@pytest.mark.smtp\n@pytest.mark.grid(window=['64k'])\ndef test_it(measured): pass\n"
    sentence = "test_it: marker grid of smtp takes only the keywords connections, payload, offload"
    assert collect(project, text) == sentence
    text = "import pytest\n\n@pytest.mark.smtp\ndef test_it(measured): pass\n"
    assert collect(project, text, "--connections=2,2", "--connections=2") == ""


@pytest.mark.parametrize("strict", ["'--strict-markers'", ""], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    ("expression", "name", "close"),
    [
        ("smpt", "smpt", "smtp"),
        ("dns or (smtp and htpp)", "htpp", "http"),
        ("smtp and arms(ipver=6, transport='ntive')", "arms", "arm"),
        ("slwo", "slwo", "slow"),
    ],
)
def test_a_mistyped_marker_of_m_is_a_usage_error_with_the_nearest(project, strict, expression, name, close):
    toml = f"[tool.pytest.ini_options]\naddopts = [{strict}]\nmarkers = ['slow(why): takes long']\n"
    project.pytester.makepyprojecttoml(toml)
    result = project.ask("--collect-only", "-m", expression)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    sentence = f"ERROR: -m: no marker is called {name!r}; the nearest is {close!r}"
    assert [line for line in result.errlines if line] == [sentence]


def test_under_xdist_a_mistyped_marker_of_m_ends_the_session_too(project):
    project.network()
    result = project.run("-n", "1", "-m", "smpt or smtp")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.startswith("ERROR")] == [
        "ERROR: -m: no marker is called 'smpt'; the nearest is 'smtp'"
    ]
    assert project.measured == []


@pytest.mark.parametrize(
    "expression",
    ["smtp and not gpu", "arm(ipver=6) and smtp", "own", "not smtps", "smtp and not (smtps or htpp)", "smtp or smt-p"],
)
def test_names_of_m_that_may_be_markers_are_none(project, expression):
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\n")
    project.pytester.makepyfile(test_own="import pytest\n@pytest.mark.own\ndef test_it(): pass\n")
    asked = ("--collect-only", "-m", expression, "-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert project.ask(*asked).ret == pytest.ExitCode.OK


@pytest.mark.parametrize(("typed", "status"), [((), 5), (("-m", "smtps"), 4), (("-qmsmtps",), 4)])
def test_a_name_of_m_is_a_mistake_only_where_it_was_typed(project, typed, status):
    """The project's own expression may name a marker that only tests of another file have."""
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['-m', 'smtps']\n")
    assert project.ask("--collect-only", *typed).ret == status


def test_where_nothing_is_measured_m_is_pytests_business_alone(project):
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\n")
    project.pytester.makepyfile(test_where_nothing_is_measured_m_is_pytests_business_alone="def test_it(): pass\n")
    result = project.ask("--collect-only", "-m", "smpt")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("testbed", "lop", f"testbed 'lop' does not exist; there are {TESTBEDS}"),
        ("testbed", "lopback", f"testbed 'lopback' does not exist; there are {TESTBEDS}; did you mean 'loopback'?"),
        ("transport", "tunel", "'tunel' does not exist; there are isatap, native, tunnel; did you mean 'tunnel'?"),
        ("design", "standart", f"design 'standart' does not exist; there are {DESIGNED}; did you mean 'standard'?"),
        ("client", "libary", "'libary' does not exist; there are lean, library; did you mean 'library'?"),
    ],
)  # fmt: skip
def test_a_mistyped_value_is_told_the_nearest(project, option, value, sentence):
    result = project.ask(f"--{option}={value}", testbed="")
    assert [line for line in result.errlines if line] == [f"ERROR: --{option}: {sentence}"]
