"""A forked session behaves like one in a new process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_ipperf
from tests.support.sessions import fork_server
from tests.support.sessions.forked_python import ForkedPython, preload_copy, run_python

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:randomly", "-q", "-rN", "--tb=no")
SAYS = """
import os, sys
def test_says(pytestconfig):
    print(os.getcwd(), sys.path, sys.argv[1:], sorted(os.environ.items()), sys.dont_write_bytecode, __name__)
    print(pytestconfig.rootpath, sys.stdin.read(), file=sys.stderr)
    assert not os.environ.get("FAILS")
"""


BUFFERED = "import sys; sys.stdout = open(1, 'w', closefd=False)"  # also where PYTHONUNBUFFERED is set


def reported(lines):
    return [line for line in lines if not line.endswith("s") or " in " not in line]


@pytest.mark.parametrize(("fails", "status"), [("", 0), ("yes", 1)])
def test_it_says_and_ends_with_what_a_new_one_would(pytester, monkeypatch, fails, status):
    pytester.makepyfile(SAYS)
    monkeypatch.setenv("FAILS", fails)
    forked, new = (pytester.run(*argv, "-s") for argv in ((sys.executable, "-mpytest", *PYTEST[3:]), PYTEST))
    assert (forked.ret, reported(forked.outlines), forked.errlines) == (status, reported(new.outlines), new.errlines)
    assert new.ret == status


def test_programs_that_import_a_copy_of_the_package_are_forks_that_have_it(tmp_path):
    """And programs that import another one are not."""
    says = "import sys; print('pytest_ipperf.plugin.start' in sys.modules); import pytest_ipperf; print(pytest_ipperf)"
    for name in ("one", "other"):
        shutil.copytree(Path(pytest_ipperf.__file__).parent, tmp_path / name / "pytest_ipperf")
    preload_copy(tmp_path / "one")
    for name, has in (("one", True), ("other", False), ("one", True)):
        env = {**os.environ, "PYTHONPATH": str(tmp_path / name)}
        done = run_python(["-c", says], env=env, cwd=tmp_path, copy_of_package=True)
        loaded, package = done.stdout.splitlines()
        assert loaded == str(has), done.stderr
        assert f"'{tmp_path}/{name}/pytest_ipperf/__init__.py'" in package


@pytest.mark.parametrize("words", ["-n 2", "-n2", "-n auto", "-nauto", "-nlogical", "--numprocesses=2", "--tx popen"])
def test_all_ways_to_ask_for_workers_have_them_forked(words):
    assert fork_server._WORKERS.search(f"-m pytest {words}")
    assert fork_server._WORKERS.search(f"'{words}'")


@pytest.mark.parametrize("words", ["-m pytest -no", "--name=2", "a-n2", "-m native"])
def test_other_words_ask_for_no_workers(words):
    assert not fork_server._WORKERS.search(words)


def test_what_ends_it_by_a_signal_is_its_status(pytester):
    pytester.makepyfile("import os, signal\ndef test_dies(): os.kill(os.getpid(), signal.SIGKILL)")
    assert pytester.runpytest_subprocess().ret == -9


def test_it_is_killed_when_its_time_is_over(pytester):
    pytester.makepyfile("import time\ndef test_sleeps(): time.sleep(100)")
    with pytest.raises(pytester.TimeoutExpired):
        pytester.runpytest_subprocess(timeout=2)


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LC_ALL", "TZ"])
def test_what_only_a_new_python_looks_at_takes_a_new_one(pytester, monkeypatch, name):
    monkeypatch.setenv(name, "0")
    with pytester.popen([sys.executable, "-mpytest", "--version"], stdout=subprocess.DEVNULL) as session:
        assert isinstance(session, subprocess.Popen)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (f"{BUFFERED}; print('lost')", 120),
        (f"{BUFFERED}; print('lost'); sys.exit(3)", 120),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.stdout.close(); sys.exit(3)", 3),
        ("import sys; sys.stdout = None", 0),
    ],
)
def test_output_that_nobody_reads_gives_the_status_of_python(code, status):
    def ended(begin):
        to_read, to_write = os.pipe()
        os.close(to_read)
        with os.fdopen(to_write, "wb") as nobody, begin(nobody) as program:
            return program.wait(60)

    def new(nobody):
        return subprocess.Popen([sys.executable, "-c", code], stdout=nobody, stderr=subprocess.DEVNULL)

    def forked(nobody):
        return ForkedPython(["-c", code], stdout=nobody, stderr=subprocess.DEVNULL)

    assert [ended(begin) for begin in (new, forked)] == [status, status]


def test_a_session_in_a_process_of_its_own_has_nothing_to_complain_of(project):
    """A fork cannot show what Python or the package says at its start."""
    project.network()
    argv = [*PYTEST, "--testbed=pair", "--design=smoke", "--connections=1"]
    session = subprocess.run(argv, cwd=project.pytester.path, capture_output=True, text=True, check=False)
    assert session.returncode == 10, session.stdout
    assert session.stderr == ""
