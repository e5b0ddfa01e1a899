"""Data left on a host is an error of the last item that measured, however the session ended, and a dirty mark."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pytest_ipperf.servers import SERVERS

SERVER = next((name for name in ("dovecot", "courier") if not SERVERS[name].missing()), "")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount"),
    pytest.mark.skipif(not SERVER, reason="neither Dovecot nor Courier can run here"),
]

# The network is simulated, the agent that keeps mailboxes is real.
KEEPING = """
import os, subprocess
from pathlib import Path
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.inventory.builtin import BUILTIN

serve = LiveTestbed.serve

def keep(self, workload, wanted, state, provisioning):
    held = Workload(testbed="loopback", protocol="imap", client="lean", connections=1, payload_bytes=1000)
    state_held = ServerState(users=3, password="secret")
    folder = Path(provisioning.folder(BUILTIN["loopback"].server, {server!r}, held, state_held)).parent
    if {stays} and not (folder / "mounted").exists():
        (folder / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", folder / "mounted"], check=True)
    return serve(self, workload, wanted, state, provisioning)

LiveTestbed.serve = keep
"""
MORE = """
    import os, signal, pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 10], payload=["1k"])
    def test_smtp(measured):
        {then}

    def test_ordinary():
        pass
"""
STAYS = re.compile(
    r"not everything could be removed: host server: private folder (\S+) cannot be removed: Device or resource busy: "
    r"mounted; put it in order, then clear the mark: pytest-ipperf doctor --testbed=loopback --clear"
)


@pytest.fixture
def run(project, tmp):
    """Run an inner pytest that leaves data on the host, and ends in a given way."""

    def ran(*arguments, stays=True, then="pass"):
        project.network()
        conftest = project.pytester.path / "conftest.py"
        conftest.write_text(conftest.read_text() + KEEPING.format(server=SERVER, stays=stays))
        project.pytester.makepyfile(MORE.format(then=then))
        return project.run("--ipver=6", "--transport=native", "--design=smoke", *arguments)

    return ran


def left(project):
    return [event["sentence"] for event in project.kept() if event["event"] == "left"]


def test_a_session_that_leaves_nothing_says_nothing(project, run, tmp):
    result = run(stays=False)
    result.assert_outcomes(passed=3)
    assert left(project) == list(tmp.iterdir()) == []


def test_what_stays_is_an_error_of_the_last_item_that_measured_and_marks_the_host(project, run, tmp):
    """A mailbox's folder is a busy mount; everything else is removed."""
    result = run("-v")
    result.assert_outcomes(passed=3, errors=1)
    assert result.ret == 1
    text = result.stdout.str()
    found = STAYS.search(text)
    assert found
    assert re.search(r"ERROR at teardown of test_smtp\[loopback-smtp-c10-1k-ipv6\]", text)
    assert text.index("c10-1k-ipv6] ERROR") < text.index("test_ordinary PASSED")
    assert left(project) == [found[0]]
    _, note = (tmp / "run" / "left").read_text().splitlines()
    assert json.loads(note)["folder"] == found[1]
    assert sorted(path.name for path in Path(found[1]).iterdir()) == [".lock", "mounted"]


def test_it_is_an_error_of_the_item_that_ends_the_session_before(project, run, tmp):
    """As by -x."""
    result = run("--maxfail=1", then="assert False")
    result.assert_outcomes(failed=1, errors=1)
    assert re.search(r"ERROR at teardown of test_smtp\[loopback-smtp-c1-1k-ipv6\]", result.stdout.str())
    assert len(left(project)) == 1
    assert (tmp / "run" / "left").exists()


def test_a_session_that_is_interrupted_says_so_too(project, run, tmp):
    result = run("-q", then="os.kill(os.getpid(), signal.SIGINT)")
    assert result.ret == 2
    assert STAYS.search(result.stdout.str())
    assert len(left(project)) == 1
    assert (tmp / "run" / "left").exists()


def test_a_worker_of_xdist_says_it_of_its_own(project, run, tmp):
    result = run("-n1")
    result.assert_outcomes(passed=3, errors=1)
    assert result.ret == 1
    assert STAYS.search(result.stdout.str())
    assert len(left(project)) == 1
    assert (tmp / "run" / "left").exists()
