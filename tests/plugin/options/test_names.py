"""Long names of options are registered; short names are rewritten unless others have registered them."""

import pytest

STRANGERS = """
    def pytest_addoption(parser):
        parser.addoption("--testbed", action="store", default="theirs")
        parser.addoption("--rate", type=int, default=3)
        parser.addoption("--client", action="store_true")
        parser.addoption("--duration", dest="ipperf", default="1h")
        parser.addini("testbed", "theirs")
"""
FOREIGN = """
    def test_options(pytestconfig):
        option = pytestconfig.getoption
        assert option("--testbed") == option("testbed") == "lab7"
        assert option("--rate") == 10 and option("--client") is True and option("--duration") == "2h"
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--testbed=lab7", "--rate=10", "--client", "--duration=2h"),
        ("--testbed", "lab7", "--rate", "10", "--client", "--duration", "2h"),
    ],
)
def test_a_conftest_may_have_options_of_our_short_names(pytester, arguments):
    pytester.makeconftest(STRANGERS)
    pytester.makepyfile(FOREIGN)
    result = pytester.runpytest_inprocess(*arguments, "test_a_conftest_may_have_options_of_our_short_names.py")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("when", ["-p", "PYTEST_PLUGINS"])
def test_a_plugin_may_have_options_of_our_short_names(pytester, monkeypatch, when):
    pytester.syspathinsert()
    pytester.makepyfile(theirs="def pytest_addoption(parser):\n    parser.addoption('--margin', dest='design')")
    pytester.makepyfile("def test_it(pytestconfig): assert pytestconfig.getoption('design') == 'wide'")
    if when == "PYTEST_PLUGINS":
        monkeypatch.setenv("PYTEST_PLUGINS", "theirs")
    arguments = ("-p", "theirs") if when == "-p" else ()
    pytester.runpytest_inprocess(*arguments, "--margin=wide").assert_outcomes(passed=1)


def header(result):
    (line,) = [line for line in result.outlines if line.startswith("ipperf ")]
    return line


@pytest.mark.parametrize(
    "arguments",
    [
        ("--testbed=loopback", "--design=smoke"),
        ("--testbed", "loopback", "--design", "smoke"),
        ("--ipperf-testbed=loopback", "--ipperf-design", "smoke"),
        ("@asked",),
        ("@outer",),
    ],
)
def test_both_names_and_both_forms_mean_the_same(project, arguments):
    (project.pytester.path / "asked").write_text("--testbed\nloopback\n--design=smoke\n")
    (project.pytester.path / "outer").write_text("@asked\n")
    result = project.ask("--co", *arguments, testbed="")
    assert "testbed loopback; design smoke;" in header(result)


@pytest.mark.parametrize("where", ["environment", "addopts"])
def test_arguments_that_come_from_elsewhere_are_rewritten_too(project, monkeypatch, where):
    if where == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", "--design smoke -p no:hypothesispytest")
    else:
        project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['--design', 'smoke']\n")
    assert "design smoke;" in header(project.ask("--co"))


def test_the_value_of_an_option_is_no_path(project):
    """Whether or not a file of that name exists; the conftests of testpaths are loaded first."""
    tester = project.pytester
    tester.makepyprojecttoml("[tool.pytest.ini_options]\ntestpaths = ['suites']\n")
    for folder in ("suites", "tests", "loopback"):
        tester.mkdir(folder)
    (tester.path / "suites" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--own', action='store_true')"
    )
    (tester.path / "tests" / "conftest.py").write_text("raise RuntimeError('nobody asked for me')")
    next(tester.path.glob("test_*.py")).rename(tester.path / "suites" / "test_own.py")
    for arguments in (["--design", "smoke"], ["--testbed", "loopback"]):
        result = project.ask("--co", "-q", "--own", *arguments, testbed="")
        assert result.ret == pytest.ExitCode.OK, result.errlines
        assert any(line.startswith("suites/test_own.py::") for line in result.outlines)


def test_a_path_behind_a_flag_of_somebody_else_stays_one(pytester):
    """Their `--client` takes no value, and the conftest of the folder after it is loaded first, as usual."""
    pytester.makeconftest(STRANGERS)
    sub = pytester.mkdir("sub")
    (sub / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--deep', action='store_true')")
    (sub / "test_deep.py").write_text("def test_deep(pytestconfig): assert pytestconfig.getoption('--client')")
    pytester.runpytest_inprocess("--client", "sub", "--deep").assert_outcomes(passed=1)


def test_what_stands_behind_two_dashes_is_no_option(project):
    result = project.ask("--co", "--", "--design=smoke")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--design=smoke" in result.stderr.str()
    assert "--ipperf-design" not in result.stderr.str()


@pytest.mark.parametrize("rest", [(), ("--co",), ("--", "suites")])
def test_an_option_without_its_value_is_named_as_it_was_typed(project, rest):
    result = project.ask("--design", *rest)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --design: expected one argument, such as --design=NAME"])


@pytest.mark.parametrize("name", ["--design", "--ipperf-design"])
def test_a_wrong_value_is_told_by_the_name_that_was_typed(project, name):
    result = project.ask(f"{name}=fast")
    result.stderr.fnmatch_lines([f"ERROR: {name}: design 'fast' does not exist; there are *"])


def test_advice_names_the_long_option_where_somebody_else_has_the_short_one(project):
    project.pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--reference')")
    result = project.ask("--ipver=4")
    result.stderr.fnmatch_lines(["ERROR: the filters leave *; add --ipver=6, or *with --ipperf-reference"])


def test_the_ini_file_can_switch_the_short_names_off(project):
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\nipperf_aliases = false\n")
    result = project.ask("--design=smoke", testbed="")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*: error: unrecognized arguments: --design=smoke"])
    result = project.ask("--ipperf-ipver=4", testbed="")
    result.stderr.fnmatch_lines(["ERROR: the filters leave *; add --ipperf-ipver=6, or *with --ipperf-reference"])


def test_the_old_form_of_the_ini_file_switches_them_off_too(project):
    (project.pytester.path / "pyproject.toml").unlink()
    project.pytester.makeini("[pytest]\nipperf_aliases = no\n")
    result = project.ask("--design=smoke", testbed="")
    result.stderr.fnmatch_lines(["*: error: unrecognized arguments: --design=smoke"])


def test_a_wrong_switch_is_told_in_a_sentence(project):
    (project.pytester.path / "pyproject.toml").unlink()
    project.pytester.makeini("[pytest]\nipperf_aliases = maybe\n")
    result = project.ask("--design=smoke")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: ini ipperf_aliases: * yes or no*"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_filters_and_levels_have_an_ini_twin_too(project):
    project.pytester.makepyprojecttoml("[tool.pytest.ini_options]\nipperf_connections = ['7']\nipperf_ipver = ['6']\n")
    result = project.ask("--co", "-q")
    assert [line.partition("[")[2] for line in result.outlines if "::" in line] == ["loopback-smtp-c7-1k-ipv6]"]
    result = project.ask("--co", "-q", "--connections=3")
    assert [line.partition("[")[2] for line in result.outlines if "::" in line] == ["loopback-smtp-c3-1k-ipv6]"]


def test_workers_read_the_short_names_as_the_controller_does(project):
    result = project.ask("--co", "-n2", "--design", "smoke")
    assert result.ret == pytest.ExitCode.OK
    project.network()
    result = project.run("-n2", "--design", "quick", "--connections", "1", "--payload=2k")
    result.assert_outcomes(passed=1)


def test_the_help_names_the_short_form_of_each_option_and_long_ones_only_are_registered(project):
    lines = project.ask("--help", testbed="").stdout.str()
    text = " ".join(lines.split())
    for name in ("testbed", "rate", "connections", "margin", "baseline"):
        assert f"--ipperf-{name}=" in text
        assert f"short: --{name}" in text
        assert f"\n  --{name}=" not in lines
