"""Server states: written and verified once a session, the same for all epochs, and removed however it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.epoch import provisioning
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.servers import SERVERS

ROOT = Path(__file__).parents[3]
ARMS = [Arm(4, "native"), Arm(6, "native")]
WORK = Workload(testbed="loopback", protocol="imap", client="lean", connections=10, payload_bytes=1024)
FEW = ServerState(users=20, password="secret")
HOST = BUILTIN["loopback"].server
both_servers = pytest.mark.parametrize("server", ["courier", "dovecot"])


def test_a_host_is_asked_once_a_session_which_servers_it_cannot_run():
    asked = []

    def unusable(names):
        asked.append(names)
        return dict.fromkeys(names, "no")

    agent: Any = SimpleNamespace(host=HOST, unusable=unusable)
    with Provisioning() as keeping:
        for names in (("apache", "null"), ("apache", "null"), ("bind",)):
            assert keeping.unusable(agent, names) == dict.fromkeys(names, "no")
        agent.host = dataclasses.replace(HOST, way="namespace")
        assert keeping.unusable(agent, ("bind",)) == {"bind": "no"}
    assert asked == [["apache", "null"], ["bind"], ["bind"]]


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """Make a directory for private folders, all of which must be gone when the test ends.

    pytest's own directories are closed to other users, and too long for the names of Dovecot's sockets.
    """
    made = Path(tempfile.mkdtemp(prefix="ipperf-test-"))
    made.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(made))
    yield made
    made.rmdir()


@pytest.fixture
def keeper(folder, processes):
    with Provisioning() as keeping:
        yield keeping
        for agent in keeping._agents.values():
            processes.below(pid_of(agent))


def pid_of(agent):
    assert agent._process
    return agent._process.pid


def needs(server, testbed="loopback"):
    if why := SERVERS[server].missing():
        pytest.skip(f"{server} cannot run here: {why}")
    if testbed == "lab" and (why := unusable()):
        pytest.skip(f"the lab cannot be built here: {why}")


def standing_of(testbed):
    return live_testbed(BUILTIN[testbed], f"test {os.getpid()}", 1.0, lambda _: None)


def aged(folder):
    """Age what was left behind, as the next agent finds it some seconds later."""
    then = time.time() - 60
    for lock in folder.glob("ipperf-*/.lock"):
        os.utime(lock, (then, then))


@both_servers
@pytest.mark.parametrize(("testbed", "users"), [("loopback", 500), ("lab", 100)])
def test_all_accounts_are_there_for_all_epochs_and_all_numbers_of_connections(server, testbed, users, keeper):
    needs(server, testbed)
    state = ServerState(users=users, password="secret")
    held = keeper.folder(HOST, server, WORK, state)
    before = {path: path.stat().st_ino for path in Path(held).rglob("*:2,S")}
    assert len(before) == users
    said = []
    for connections in (1, 10, 100):
        work = dataclasses.replace(WORK, testbed=testbed, connections=connections)
        with standing_of(testbed) as live:
            service = live.serve(work, server, state, keeper)
            said.append(live.verify(ARMS[1], service, work, 30.0))
            for arm in ARMS:
                result = live.run(arm, service, work, bursts=1, deadline_s=30.0)
                assert (result.data.attempted, result.data.failed, result.violations) == (connections, {}, ())
    assert said[0].startswith(f"{service} holds its {users} accounts, as a log-in to each showed in ")
    assert said[1:] == ["", ""]
    assert {path: path.stat().st_ino for path in Path(held).rglob("*:2,S")} == before
    assert len(keeper._agents) == 1
    keeper.close()
    assert not Path(held).exists()


def test_the_library_finds_every_account_too(keeper):
    pytest.importorskip("aioimaplib")
    server = next((name for name in ("courier", "dovecot") if not SERVERS[name].missing()), "imapd")
    work = dataclasses.replace(WORK, client="library", connections=20)
    with standing_of("loopback") as live:
        service = live.serve(work, server, FEW, keeper)
        result = live.run(ARMS[0], service, work, bursts=1, deadline_s=30.0)
        assert (result.data.attempted, result.data.failed) == (20, {})
        assert result.proof["client"].startswith("aioimaplib ")


def test_an_account_that_is_not_as_it_should_be_is_found(keeper):
    server = "dovecot"
    needs(server)
    held = keeper.folder(HOST, server, WORK, FEW)
    (message,) = Path(held, "mail/user7/cur").iterdir()
    message.write_bytes(message.read_bytes().replace(b"quick", b"quiet"))
    with standing_of("loopback") as live:
        service = live.serve(WORK, server, FEW, keeper)
        with pytest.raises(LabError) as caught:
            live.verify(ARMS[0], service, WORK, 30.0)
        assert str(caught.value) == (
            f"host server: {service} does not hold all of its 20 accounts (content: expected 'ck brown fox jum' at "
            f"offset 125 of {WORK.payload_bytes} bytes, seen 'et brown fox jum': 1)"
        )


def test_another_state_or_payload_has_a_folder_of_its_own_and_the_same_state_none(keeper):
    needs("dovecot")
    larger = dataclasses.replace(WORK, payload_bytes=4096)
    again = dataclasses.replace(WORK, connections=100, testbed="lab", client="library")
    one = keeper.folder(HOST, "dovecot", WORK, FEW)
    laid = Path(one, "mail").stat().st_ctime_ns
    others = {
        keeper.folder(HOST, "dovecot", larger, FEW),
        keeper.folder(HOST, "dovecot", WORK, dataclasses.replace(FEW, users=21)),
    }
    assert len({one, *others}) == 3
    assert keeper.folder(HOST, "dovecot", again, FEW) == one
    assert Path(one, "mail").stat().st_ctime_ns == laid
    assert len(list(Path(one, "mail").iterdir())) == 20


def test_a_server_that_has_it_in_its_configuration_needs_nobody_to_keep_it(keeper):
    assert keeper.folder(HOST, "imapd", WORK, FEW) == ""
    assert keeper._agents == {}


def test_without_a_keeper_it_lasts_as_long_as_the_epoch(folder):
    needs("dovecot")
    with standing_of("loopback") as live:
        service = live.serve(WORK, "dovecot", FEW)
        assert live.verify(ARMS[0], service, WORK, 30.0)
        assert live.run(ARMS[1], service, WORK, bursts=1, deadline_s=30.0).data.failed == {}


# --- however it ends --------------------------------------------------------------------------------------------------


def test_an_agent_that_keeps_it_and_is_told_to_go_takes_it_along(keeper):
    needs("dovecot")
    held = Path(keeper.folder(HOST, "dovecot", WORK, FEW))
    (agent,) = keeper._agents.values()
    os.kill(pid_of(agent), signal.SIGTERM)
    end = time.monotonic() + 20
    while held.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not held.exists()


def test_an_agent_that_keeps_it_and_is_killed_is_told_and_the_next_one_takes_it_away(keeper, folder):
    needs("dovecot")
    held = Path(keeper.folder(HOST, "dovecot", WORK, FEW))
    (agent,) = keeper._agents.values()
    os.kill(pid_of(agent), signal.SIGKILL)
    agent._process.wait(10)
    keeper.note_verified(HOST, "dovecot", WORK, FEW)
    with pytest.raises(AgentError) as caught:
        keeper.folder(HOST, "dovecot", WORK, FEW)
    assert str(caught.value) == "host server: the agent that keeps what its servers hold died"
    assert not keeper.verified(HOST, "dovecot", WORK, FEW)
    assert held.exists()
    anew = Path(keeper.folder(HOST, "dovecot", WORK, FEW))
    assert anew != held
    assert anew.exists()
    keeper.close()
    assert not anew.exists()
    aged(folder)
    with standing_of("loopback"):
        assert not held.exists()


def test_an_agent_that_was_silent_once_is_replaced(keeper, folder, monkeypatch):
    """A late answer would be taken for that of the next call."""
    needs("dovecot")
    held = keeper.folder(HOST, "dovecot", WORK, FEW)
    keeper.note_verified(HOST, "dovecot", WORK, FEW)
    (agent,) = keeper._agents.values()
    before = pid_of(agent)
    os.kill(before, signal.SIGSTOP)
    monkeypatch.setattr(provisioning, "_PROVISION_S", 0.5)
    with pytest.raises(AgentError) as caught:
        keeper.folder(HOST, "dovecot", WORK, dataclasses.replace(FEW, users=21))
    assert str(caught.value).startswith("host server: the agent sent no keep-alive for 0.5 s during call 'provision'")
    with contextlib.suppress(ProcessLookupError):
        os.kill(before, signal.SIGCONT)
    monkeypatch.undo()
    monkeypatch.setenv("TMPDIR", str(folder))
    assert not keeper.verified(HOST, "dovecot", WORK, FEW)
    anew = keeper.folder(HOST, "dovecot", WORK, FEW)
    assert anew != held
    (agent,) = keeper._agents.values()
    assert pid_of(agent) != before
    keeper.close()
    aged(folder)
    with standing_of("loopback"):
        assert not Path(held).exists()


def test_a_host_with_sudo_has_another_agent_than_the_same_machine_without(keeper, monkeypatch):
    """The agents' servers run as different users, so one could not use the state written for the other."""
    opened = []

    def agent(host):
        opened.append((host.machine, host.sudo))
        methods = SimpleNamespace(provision=lambda *_: f"/tmp/{len(opened)}")
        return SimpleNamespace(lost=False, ended=False, within=lambda _: methods)

    monkeypatch.setattr(provisioning, "AgentClient", agent)
    monkeypatch.setattr(provisioning, "shut_down", lambda _: [])
    plain = Host(name="plain", way="ssh", settings={"ssh": "far.invalid"})
    root = dataclasses.replace(plain, name="root", sudo=True)
    folders = [keeper.folder(host, "dovecot", WORK, FEW) for host in (plain, root, plain, root)]
    assert folders == ["/tmp/1", "/tmp/2"] * 2
    assert opened == [(plain.machine, False), (plain.machine, True)]
    keeper.note_verified(root, "dovecot", WORK, FEW)
    assert not keeper.verified(plain, "dovecot", WORK, FEW)
    keeper.close()


HOLDS = """
import sys, time
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.epoch.provisioning import Provisioning
work = Workload(testbed="loopback", protocol="imap", client="lean", connections=10, payload_bytes=1024)
with Provisioning() as keeper:
    folder = keeper.folder(BUILTIN["loopback"].server, "dovecot", work, ServerState(users=20, password="secret"))
    print(folder, *(agent._process.pid for agent in keeper._agents.values()), flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_controller_ends(folder, processes, number):
    needs("dovecot")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        assert owner.stdout
        held, _ = owner.stdout.readline().split()
        assert processes.below(owner.pid, itself=False)
        assert Path(held).exists()
        os.kill(owner.pid, number)
        owner.wait(100)
    assert processes.left() == []
    assert not Path(held).exists()
