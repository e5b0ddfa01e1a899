"""A project that measures nothing does not notice the installed plugin, whatever names the project uses."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.support.sessions.projects import SUITE

STRANGER = """
    import pytest

    def pytest_addoption(parser):
        for name in ("--testbed", "--rate", "--client", "--duration", "--margin", "--design"):
            parser.addoption(name, default="theirs")

    @pytest.fixture
    def measured(testbed, margin):
        return f"{testbed} {margin}"

    @pytest.fixture
    def testbed(pytestconfig):
        return pytestconfig.getoption("--testbed")

    @pytest.fixture
    def margin(): return 5

    @pytest.fixture
    def factors(): return (2, 3)

    @pytest.fixture(params=["a", "b"])
    def protocol(request): return request.param

    @pytest.fixture(params=[1, 2])
    def connections(request): return request.param
"""
UNRELATED = """
    import pytest

    @pytest.mark.http("GET", path="/")
    @pytest.mark.margin(3)
    def test_own_fixture(measured, factors):
        assert measured == "bench 5" and factors == (2, 3)

    def test_own_parameters(protocol, connections):
        assert protocol in "ab" and connections in (1, 2)

    @pytest.mark.parametrize("measured", [1, 2])
    def test_a_parameter(measured):
        assert measured in (1, 2)

    def test_nothing_heavy_is_loaded():
        import sys
        heavy = {HEAVY!r}
        assert not [name for name in sys.modules if name.split(".")[0] in heavy or name in heavy]
"""
HEAVY = [
    "scipy", "numpy", "matplotlib", "aiohttp", "sqlite3", "pytest_ipperf.lab", "pytest_ipperf.store",
    "pytest_ipperf.agent", "pytest_ipperf.experiment", "pytest_ipperf.report", "pytest_ipperf.metrics",
    "pytest_ipperf.plugin.session.session", "pytest_ipperf.plugin.options.settings",
    "pytest_ipperf.plugin.collect.collection",
]  # fmt: skip
# pytest itself or other plugins may import some of these; ours must not add any.
COSTLY = [*HEAVY, "execnet", "asyncio", "multiprocessing", "ctypes", "concurrent", "http", "email", "ssl", "uuid"]


@pytest.fixture
def stranger(pytester):
    """A project with options, fixtures, markers and an inventory of our names, none of which is ours."""
    pytester.makeconftest(STRANGER)
    pytester.makepyfile(UNRELATED.replace("{HEAVY!r}", repr(HEAVY)))
    (pytester.path / "hosts.ini").write_text("[web]\nthis is Ansible's\n")
    pytester.makeini("[pytest]\nmarkers =\n    http: theirs\n    margin: theirs\n")
    return pytester


@pytest.mark.parametrize("workers", [[], ["-n2", "--dist=each"], ["-nauto"]])
def test_an_unrelated_project_prints_nothing_of_ours(stranger, workers, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    plain = ("-p", "no:randomly", "--testbed", "bench", "--rate=7", "--client", "me", "-v", *workers)
    # In a new process, not forked from one that has imported the heavy modules.
    result = stranger.run(sys.executable, "-m", "pytest", *plain)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=16 if "--dist=each" in workers else 8)
    said = [line for line in (*result.outlines, *result.errlines) if "ipperf" in line and "plugins:" not in line]
    assert said == []
    assert not (stranger.path / ".ipperf").exists()


def test_the_order_and_the_output_are_those_without_the_plugin(stranger):
    found = []
    for own in ([], ["-p", "no:ipperf"]):
        result = stranger.runpytest_subprocess("-p", "no:randomly", "--testbed=bench", "-v", *own)
        # The last line is filled up around its time, which has not always as many digits.
        found.append([line.partition(" in ")[0].strip("= ") for line in result.outlines if "plugins:" not in line])
    assert found[0] == found[1]


def test_the_scheduler_of_xdist_is_left_alone(stranger):
    (stranger.path / "conftest.py").write_text(
        (stranger.path / "conftest.py").read_text()
        + textwrap.dedent("""
        def pytest_sessionfinish(session):
            loop = session.config.pluginmanager.get_plugin("dsession")
            if loop is not None:
                print("\\nscheduler", type(loop.sched).__module__, type(loop.queue).__module__)
        """)
    )
    # In new processes, as above: workers are forked where the session is.
    plain = ("-p", "no:randomly", "--testbed=bench", "-n2", "--dist=loadfile", "-s")
    result = stranger.run(sys.executable, "-m", "pytest", *plain)
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["scheduler xdist.scheduler.loadfile queue"])
    assert not [line for line in result.outlines if "ipperf" in line and "plugins:" not in line]


WRAPPED = """
    import pytest

    @pytest.fixture
    def my_measurement(measured):
        return measured

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[3])
    def test_wrapped(my_measurement, margin):
        assert my_measurement.slowdown <= margin
"""
OVERRIDDEN = """
    import pytest

    @pytest.fixture
    def measured(measured):
        return measured

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[3])
    def test_overridden(measured, margin):
        assert measured.slowdown <= margin
"""


@pytest.mark.parametrize("suite", [WRAPPED, OVERRIDDEN], ids=["wrapped", "overridden"])
def test_a_fixture_that_wraps_ours_measures(project, suite):
    project.network()
    project.pytester.makepyfile(suite)
    result = project.run("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*[[]loopback-smtp-c3-1k-ipv6[]] PASSED*"])
    assert project.measured == ["loopback-smtp-c3-1k ipv4 ipv6"]


def test_the_header_stands_where_something_is_known_to_be_measured(project):
    project.pytester.makepyfile(test_plain="def test_plain(): pass")
    lines = project.ask("--co").outlines
    (at,) = [number for number, line in enumerate(lines) if line.startswith("ipperf ")]
    assert lines[at - 1].startswith("collected ")
    assert lines[at + 1].startswith("ipperf: plan: ")
    for nothing in (["-k", "plain"], ["test_plain.py"]):
        result = project.ask("--co", *nothing, testbed="")
        result.stdout.fnmatch_lines(["*1*test*collected*"])
        result.stdout.no_fnmatch_line("*ipperf*:*")
    for silent in (["-q"], ["--no-header"]):
        project.ask("--co", *silent).stdout.no_fnmatch_line("ipperf [0-9]*")


def test_a_wrong_line_of_the_ini_file_hurts_only_whoever_measures(project):
    project.pytester.makepyprojecttoml(
        "[tool.pytest.ini_options]\nipperf_design = 'fast'\nipperf_hosts = 'nowhere.ini'\n"
    )
    project.pytester.makepyfile(test_plain="def test_plain(): pass")
    for unrelated in (["test_plain.py"], ["-k", "test_plain"]):
        project.ask(*unrelated, testbed="").assert_outcomes(passed=1, deselected=1 if "-k" in unrelated else 0)
    result = project.ask(testbed="")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *nowhere.ini: cannot be read*"])


def test_a_wrong_option_is_an_error_even_where_nothing_is_measured(pytester):
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess("--ipperf-design=fast")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --ipperf-design: design 'fast' does not exist; *"])


def test_no_costly_module_is_loaded_for_the_options(tmp_path):
    """Neither `--version` nor a collection imports them; modules that pytest imports by itself do not count."""
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    code = "import sys, json, pytest; pytest.main(sys.argv[1:]); print('\\n' + json.dumps(sorted(sys.modules)))"

    def loaded(*arguments):
        command = [sys.executable, "-c", code, "-p", "no:randomly", "-p", "no:allure_pytest", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return set(json.loads(done.stdout.splitlines()[-1]))

    for arguments in (["--version"], ["--co", "-q"]):
        added = loaded(*arguments) - loaded("-p", "no:ipperf", *arguments)
        # `--version` alone loads no plugin.
        assert any(name.startswith("pytest_ipperf.") for name in added) is ("--co" in arguments)
        tops = {name.split(".")[0] for name in added}
        assert sorted(name for name in COSTLY if name in added or name in tops) == []


ELSEWHERE = """
    import select, sys

    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name in ("fcntl", "resource", "pwd", "grp", "termios"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())
    del select.epoll
    import os, signal, socket
    for where, names in ((os, ("geteuid", "getuid", "sched_setaffinity", "setns", "pidfd_open")),
                         (socket, ("AF_NETLINK", "AF_PACKET", "SO_BINDTODEVICE", "recv_fds", "IPPROTO_ICMPV6")),
                         (signal, ("SIGHUP", "SIGUSR1", "pthread_sigmask"))):
        for name in names:
            if hasattr(where, name):
                delattr(where, name)
    import ctypes
    ctypes.CDLL = None
    PLATFORM = sys.argv.pop(1)
    import pytest
    import _pytest.pathlib
    sys.platform = PLATFORM
    sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_off_linux_only_what_measures_says_so(tmp_path, platform):
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(SUITE))
    (tmp_path / "run.py").write_text(textwrap.dedent(ELSEWHERE))
    # Calls of other plugins do not count, and capturing needs what was removed.
    plain = ["-p", "pytest_ipperf.plugin", "-p", "no:faulthandler", "-p", "no:cacheprovider", "-p", "no:tmpdir", "-s"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*arguments):
        command = [sys.executable, "run.py", platform, *plain, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)

    done = run("test_plain.py")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "ipperf " not in done.stdout.replace("ipperf-", "")
    done = run("--ipver=6")
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    sentence = f"pytest-ipperf measures on Linux only; this is {platform}"
    assert done.stdout.count(f"\n{sentence}\n") == 1
    assert "Traceback" not in done.stdout + done.stderr


TWICE = """
    pytest_plugins = ["pytester"]

    def test_twice(pytester):
        for _ in range(2):
            pytester.makepyfile(test_suite={suite!r})
            assert pytester.runpytest_inprocess("--co", "--testbed=loopback", "-p", "no:randomly").ret == 0
"""


def test_one_process_can_have_several_sessions_that_measure(pytester):
    """Pytester removes the modules that an inner session has imported, but not the attributes of their packages."""
    pytester.makepyfile(TWICE.replace("{suite!r}", repr(textwrap.dedent(SUITE))))
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)
