"""Something stays on a host behind ssh: from the error of the test to the doctor who clears the mark."""

from __future__ import annotations

import json

import pytest

from pytest_ipperf.servers import SERVERS
from tests.support.hosts.doctor import findings

SERVER = next((name for name in ("dovecot", "courier") if not SERVERS[name].missing()), "")
# Between two epochs the only folder there is that of the mailboxes.
BUSY = "for each in $TMPDIR/ipperf-*; do mkdir $each/mounted && mount -t tmpfs none $each/mounted; done"
SUITE = f"""
    import os, subprocess
    import pytest
    from pytest_ipperf.core.portable.server_state import ServerState

    @pytest.fixture(scope="session")
    def server_state():
        return ServerState(users=10, password="secret")

    @pytest.mark.imap
    @pytest.mark.levels(connections=[10], payload=["1k"])
    def test_imap(measured):
        subprocess.run(["ssh", "-F", os.environ["CONFIG"], "server1", {BUSY!r}], check=True)
"""
SMTP = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1], payload=["1k"])
    def test_smtp(measured):
        pass
"""
ARGUMENTS = ("--design=smoke", "--ipver=6", "--transport=native")


@pytest.mark.evidence
def test_what_stays_fails_the_test_bars_the_host_and_is_cleared_by_the_doctor(farm):
    if not SERVER:
        pytest.skip("neither Dovecot nor Courier can run here")
    hosts = farm()
    server = hosts.hosts["server1"]
    env = {"CONFIG": str(hosts.ssh_config)}
    argv = (*ARGUMENTS, f"--ipperf-server={SERVER}")
    said, _ = (process := hosts.session(*argv, suite=SUITE, env=env)).communicate(timeout=200)
    assert process.returncode == 1, said
    assert "ERROR at teardown of test_imap[bed1-imap-c10-1k-ipv6]" in said
    (event,) = hosts.events("left")
    assert event["sentence"] in said
    assert event["sentence"].startswith("not everything could be removed: host server1: private folder ")
    assert event["sentence"].endswith("clear the mark: pytest-ipperf doctor --testbed=bed1 --clear")
    _, note = server.run("cat", "/run/pytest-ipperf/left").splitlines()
    folder = json.loads(note)["folder"]
    assert server.run("ls", "-A", folder).split() == [".lock", "mounted"]

    said, _ = (process := hosts.session(*ARGUMENTS, suite=SMTP)).communicate(timeout=200)
    assert process.returncode == 1
    assert "host server1: an earlier measurement has not restored it: private folder " in said
    found, status = findings(hosts)
    assert status == 1
    assert any(grade == "wrong" and folder in reported for grade, reported in found["server1", "left"])

    server.run("umount", f"{folder}/mounted")
    found, status = findings(hosts)
    assert status == 0
    assert any(reported.startswith("cleared the mark of: private folder ") for _, reported in found["server1", "left"])
    assert hosts.left() == []
