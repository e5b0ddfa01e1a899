"""A process that may open only few files says so in one message, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.inventory.builtin import BUILTIN

SUITE = """
import pytest

@pytest.mark.dns
@pytest.mark.levels(connections=[1])
@pytest.mark.margin("10%", at_least="0.5ms")
def test_dns(measured, margin):
    assert measured.slowdown <= margin
"""
PROGRAM = ("-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())")
NEEDED = {"loopback": 80, "lab": 88}


def run(folder, limit, *argv):
    """Run a program with this many descriptors, soft and hard limit."""
    temporary = folder / "tmp"
    temporary.mkdir()

    def limited():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    done = subprocess.run(
        [sys.executable, *argv], cwd=folder, env={**os.environ, "TMPDIR": str(temporary)}, preexec_fn=limited,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=100,
    )  # fmt: skip
    assert list(temporary.iterdir()) == []
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    return done.returncode, said


@pytest.mark.parametrize(("limit", "testbed"), [(16, "loopback"), (24, "lab"), (24, "loopback"), (64, "lab")])
def test_a_session_says_how_many_it_needs(tmp_path, limit, testbed):
    (tmp_path / "test_few.py").write_text(SUITE)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    status, said = run(
        tmp_path, limit, "-m", "pytest", "-p", "no:randomly", f"--testbed={testbed}", "--transport=native", "--ipver=6",
        "--ipperf-design=smoke",
    )  # fmt: skip
    assert status == 4, said
    sentence = (
        f"testbed {testbed} takes up to {NEEDED[testbed]} open files in this process, as it has "
        f"{len(BUILTIN[testbed].hosts)} hosts, and no more than {limit} are allowed (ulimit -H -n); "
        f"allow {NEEDED[testbed]} or more"
    )
    assert said.count(sentence) == 1
    assert "1 error" not in said


@pytest.mark.parametrize("limit", [12, 24])
def test_the_program_says_it_too(tmp_path, limit):
    for order in (("lab",), ("doctor", "--testbed=lab")):
        folder = tmp_path / order[0]
        folder.mkdir()
        status, said = run(folder, limit, *PROGRAM, *order)
        assert status == 1, said
        assert f"no more than {limit} are allowed (ulimit -H -n); allow 88 or more" in " ".join(said.split())


def test_records_are_looked_for_with_few(tmp_path):
    status, said = run(tmp_path, 12, *PROGRAM, "list", "--ipperf-records=.")
    assert (status, said) == (4, "pytest-ipperf: there is no session in runs yet\n")


def test_a_soft_limit_is_raised_where_the_hard_one_allows(monkeypatch):
    raised = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: raised.append((what, limits)))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (24, 4096))
    enough_descriptors(BUILTIN["lab"])
    assert raised == [(resource.RLIMIT_NOFILE, (88, 4096))]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    enough_descriptors(BUILTIN["lab"])
    monkeypatch.setattr(resource, "getrlimit", lambda _: (24, 87))
    with pytest.raises(LabError, match="allow 88 or more"):
        enough_descriptors(BUILTIN["lab"])
    assert len(raised) == 1
