"""Agents behind a real sshd: private, on 127.0.0.1, with its own keys, and gone with the tests."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import hashlib
import io
import os
import platform
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processes import process_of, tree
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.messages import CacheState, RunEnd, ServeRequest
from pytest_ipperf.agent.sockets.ports import free_port, in_use
from pytest_ipperf.cli import main
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.access import base
from pytest_ipperf.lab.agents import bootstrap
from pytest_ipperf.lab.agents import client as client_module
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.code_archive import code_archive
from pytest_ipperf.lab.agents.heartbeat import HEARTBEAT
from pytest_ipperf.lab.deploy import wheels
from pytest_ipperf.lab.deploy.install import install_packages
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.servers import SERVERS
from tests.support.hosts.machines import SSHD_CONFIG, bare_pythons, sshd_program
from tests.support.servers.tcp import refusing_port, silent_listener

SERVER = f"""{SSHD_CONFIG}
Port {{port}}
ListenAddress 127.0.0.1
KbdInteractiveAuthentication no
SetEnv XDG_CACHE_HOME={{folder}}/cache
LogLevel INFO
"""
CLIENT = """
Host *
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {key}
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {known}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    ControlPath none
"""
# Whatever it is told to run, it runs in a Python that takes itself for an old one.
OLD = """#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 9, 2, "final", 0); sys.version = "3.9.2 (pretended)"
exec(sys.argv[sys.argv.index("-c", 1) + 1])' "$@"
"""


START_S = 120.0


@dataclasses.dataclass(frozen=True)
class Sshd:
    """A private sshd: its port, and its keys."""

    pid: int
    port: int
    folder: Path

    def host(self, tmp_path, *, key="user", port=None, known="known", python=sys.executable):
        """Return a host of an inventory that the client reaches by these keys."""
        (tmp_path / "ssh_config").write_text(
            CLIENT.format(
                port=port or self.port, user=getpass.getuser(), key=self.folder / key, known=self.folder / known
            )
        )
        (tmp_path / "hosts.ini").write_text(
            "[host far]\nway = ssh\nssh = far\nipv4 = 127.0.0.1\nipv6 = ::1\n"
            f"ssh_config = {tmp_path}/ssh_config\npython = {python}\n"
            "[testbed ring]\nclient = far\nserver = far\n"
        )
        return read_inventory(tmp_path / "hosts.ini")["ring"]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    program = sshd_program()
    if not program or not shutil.which("ssh"):
        pytest.skip("no sshd or no ssh here (Debian: apt-get install openssh-server openssh-client)")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port(["127.0.0.1"], 20000, 29999, random.Random())
    (folder / "sshd_config").write_text(SERVER.format(port=port, folder=folder))
    for known, key in (("known", "host"), ("mistaken", "stranger")):
        (folder / known).write_text(f"[127.0.0.1]:{port} {(folder / f'{key}.pub').read_text()}")
    log = (folder / "log").open("wb")
    process = subprocess.Popen([program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        found = Sshd(process.pid, port, folder)
        end = time.monotonic() + 20
        while not in_use("127.0.0.1", port, socket.SOCK_STREAM) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        plain = subprocess.run(
            ["ssh", "-F", _config(found), "-oBatchMode=yes", "far", "true"],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        if plain.returncode:
            why = " ".join(f"{plain.stderr} {(folder / 'log').read_text()}".split())
            pytest.skip(f"no access by ssh for {getpass.getuser()}: {why}")
        yield found
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def _config(found):
    path = found.folder / "ssh_config"
    path.write_text(
        CLIENT.format(port=found.port, user=getpass.getuser(), key=found.folder / "user", known=found.folder / "known")
    )
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a folder for the configuration and for private folders of local agents; give starts a long deadline."""
    monkeypatch.setattr(client_module, "_START_S", START_S)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


SERVED = ServeRequest(
    protocol="smtp", addresses=["127.0.0.1"], ports=(20000, 29999), connections=10, payload_bytes=1000,
    state=ServerState(), data="", zone={"mail.ipperf.test": ["127.0.0.1"]},
)  # fmt: skip


def pid_of(agent):
    assert agent._process
    return agent._process.pid


def alive(pid):
    found = process_of(pid)
    return found is not None and found.alive


def folder_of(agent_pid):
    """Return the private folder of an agent's process, which holds its lock."""
    opened = [each.readlink() for each in Path(f"/proc/{agent_pid}/fd").iterdir()]
    (found,) = {path.parent for path in opened if path.name == ".lock"}
    return found


def leading_to(pid, top):
    """Return the processes of sshd from below `top` to a process, without that."""
    found = []
    while (process := process_of(pid)) and process.parent != top:
        pid = process.parent
        if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
            found.append(pid)
    return found


def children():
    """Return the children of this process, zombies included."""
    return {process.pid for level in tree(os.getpid())[1:2] for process in level}


def refused(testbed):
    """Return the error of a host that cannot be reached; it does not wait for a deadline and leaves no ssh behind."""
    before = children()
    begun = time.monotonic()
    with pytest.raises(AgentError) as caught:
        AgentClient(testbed.server)
    assert time.monotonic() - begun < START_S
    assert children() <= before
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence.removeprefix("host far: no agent could be started by access method ssh: ")


def test_an_agent_answers_and_is_gone_with_its_servers_after_close(sshd, folder, processes):
    with AgentClient(sshd.host(folder).server) as agent:
        agent_pid = agent.hello().pid
        served = agent.serve({"nameserver": SERVED})["nameserver"]
        assert 20000 <= served.port <= 29999
        assert agent.finish_run(RunEnd()).broken == []
        assert {agent_pid, pid_of(agent)} <= {*processes.below(sshd.pid, itself=False), *processes.below(pid_of(agent))}
    assert processes.left() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_client_of_ssh_is_killed(sshd, folder, processes, number):
    with AgentClient(sshd.host(folder).server) as agent:
        agent.serve({"nameserver": SERVED})
        assert len(processes.below(sshd.pid, itself=False)) > 3
        os.kill(pid_of(agent), number)
        with pytest.raises(AgentError) as caught:
            agent.hello()
        assert str(caught.value).startswith("host far: the agent died during call 'hello'; its host went down, ")
        assert processes.left() == []


def test_nothing_is_left_when_all_of_this_side_is_killed(sshd, folder, processes, me):
    sshd.host(folder)
    code = f"""
import time
from pathlib import Path
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.agent.rpc.messages import ServeRequest
from pytest_ipperf.core.portable.server_state import ServerState
agent = AgentClient(read_inventory(Path({str(folder / "hosts.ini")!r}))["ring"].server)
agent.serve({{"nameserver": {SERVED!r}}})
print(flush=True)
time.sleep(100)
"""
    with subprocess.Popen(me.argv(code), env=me.env, stdout=subprocess.PIPE, start_new_session=True) as owner:
        assert owner.stdout
        owner.stdout.readline()
        assert processes.below(owner.pid)
        assert len(processes.below(sshd.pid, itself=False)) > 3
        os.killpg(owner.pid, signal.SIGKILL)
    assert processes.left() == []


def test_an_agent_that_was_stopped_is_woken_to_go(sshd, folder, processes, monkeypatch):
    """Otherwise the host would stay leased: a stopped agent does not notice the end of its connection."""
    monkeypatch.setattr(client_module, "_STOP_S", 2.0)
    with AgentClient(sshd.host(folder).server) as agent:
        agent.serve({"nameserver": SERVED})
        assert len(processes.below(sshd.pid, itself=False)) > 3
        agent_pid = agent.hello().pid
        private = folder_of(agent_pid)
        os.kill(agent_pid, signal.SIGSTOP)
        with pytest.raises(AgentError, match=r"^host far: the agent sent no keep-alive for 0\.3 s during call 'h"):
            agent.within(0.3).hello()
    assert processes.left() == []
    assert not private.exists()


def test_an_agent_whose_sshd_was_stopped_is_told_to_go(sshd, folder, processes, monkeypatch):
    """The agent sees no end of its connection, as the sshd in between is stopped."""
    monkeypatch.setattr(client_module, "_STOP_S", 2.0)
    monkeypatch.setattr(client_module, "_REAP_S", 20.0)
    with AgentClient(sshd.host(folder).server) as agent:
        agent.serve({"nameserver": SERVED})
        agent_pid = agent.hello().pid
        leading, own = leading_to(agent_pid, sshd.pid), [each.pid for level in tree(agent_pid) for each in level]
        assert leading
        assert len(own) > 1
        assert {*leading, *own} <= {*processes.below(sshd.pid, itself=False)}
        private = folder_of(agent_pid)
        for pid in leading:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(AgentError, match="sent no keep-alive"):
                agent.within(0.3).hello()
            agent.close()
            assert [pid for pid in own if alive(pid)] == []
            assert not private.exists()
        finally:
            for pid in leading:
                os.kill(pid, signal.SIGCONT)
    assert processes.left() == []


def test_an_agent_whose_controller_falls_silent_ends_by_itself(sshd, folder, processes, monkeypatch):
    """Imitates a power failure of the controller: nothing arrives any more, not even the end of the connection."""
    monkeypatch.setattr(client_module, "WATCHDOG_TIMEOUT_S", 4.0)  # by which the next call has to come
    with AgentClient(sshd.host(folder).server) as agent:
        agent.serve({"nameserver": SERVED})
        (agent_pid,) = (pid for pid in processes.below(sshd.pid, itself=False) if pid == agent.hello().pid)
        os.kill(pid_of(agent), signal.SIGSTOP)
        end = time.monotonic() + 20
        while Path(f"/proc/{agent_pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert not Path(f"/proc/{agent_pid}").exists()
        os.kill(pid_of(agent), signal.SIGCONT)
        with pytest.raises(AgentError, match=r"^host far: the agent died during call 'hello'; its host went down, "):
            agent.hello()
    assert processes.left() == []


def test_nothing_passes_on_the_line_while_something_is_measured(sshd, folder, monkeypatch):
    """60 bursts last longer than the keep-alive interval; the kernel's counts of the connection show its packets."""
    monkeypatch.setattr(HEARTBEAT, "_every_s", 0.01)
    with AgentClient(sshd.host(folder).server) as agent, HEARTBEAT.pause():
        served = agent.serve({"null": dataclasses.replace(SERVED, zone={})})["null"]
        spec = LoadSpec(
            protocol="smtp", client="lean", payload_bytes=1000, connections=10, bursts=60, ipver=4, resolver="",
            resolver_port=0, name="127.0.0.1", port=served.port, source="127.0.0.1", deadline_s=5.0, ident=0,
        )  # fmt: skip
        reported = agent.load(spec)
        assert (reported.attempted, reported.failed, reported.control) == (600, {}, 0)


def test_a_wrong_key_is_told(sshd, folder):
    assert refused(sshd.host(folder, key="stranger")).endswith("Permission denied (publickey). (exit status 255)")


@pytest.fixture
def gone():
    """Return a port at which nobody listens."""
    with refusing_port() as port:
        yield port


def test_a_wrong_port_is_told_and_nothing_beside_it(sshd, folder, gone, capfd):
    sentence = f"ssh: connect to host 127.0.0.1 port {gone}: Connection refused (exit status 255)"
    assert refused(sshd.host(folder, port=gone)) == sentence
    assert capfd.readouterr() == ("", "")


def test_a_host_that_is_not_the_known_one_is_told(sshd, folder):
    sentence = refused(sshd.host(folder, known="mistaken"))
    assert re.fullmatch(r"Host key for \S+ has changed and you have requested strict checking\. .*", sentence), sentence


def test_a_port_on_which_something_else_listens_is_told(sshd, folder, monkeypatch):
    monkeypatch.setattr(client_module, "_START_S", 0.5)
    monkeypatch.setattr(base, "_PATIENCE_S", 0.5)
    with silent_listener() as port:
        assert refused(sshd.host(folder, port=port)) == "no answer in 0.5 s"


def test_a_host_without_that_python_is_told(sshd, folder):
    sentence = refused(sshd.host(folder, python="/nowhere/python3"))
    assert "/nowhere/python3" in sentence
    assert sentence.endswith("(exit status 127)")


def test_a_python_that_is_too_old_is_told(sshd, folder):
    (folder / "python3.9").write_text(OLD.format(python=shlex.quote(sys.executable)))
    (folder / "python3.9").chmod(0o755)
    sentence = refused(sshd.host(folder, python=folder / "python3.9"))
    assert sentence == "Python 3.9.2 is too old; 3.10 is needed (exit status 1)"


def test_something_that_is_no_python_is_told(sshd, folder):
    sentence = "what was started there ended before it answered; it must be a Python"
    assert refused(sshd.host(folder, python=shutil.which("true"))) == sentence


def test_of_something_that_says_our_code_again_only_the_rest_is_told(sshd, folder):
    sentence = refused(sshd.host(folder, python=shutil.which("ls")))
    assert "'...'" in sentence
    assert "import" not in sentence


def test_a_whole_testbed_behind_ssh_stands_and_measures(sshd, folder, processes):
    """Both of its hosts are one machine, so the second lease is already held by the same job."""
    testbed = sshd.host(folder)
    waited: list[str] = []
    workload = Workload(testbed="ring", protocol="smtp", client="lean", connections=5, payload_bytes=1000)
    with contextlib.ExitStack() as stack:
        try:
            live = stack.enter_context(live_testbed(testbed, f"test {os.getpid()}", 10.0, waited.append))
        except LabError as error:
            if "is still held by" not in str(error):
                raise
            pytest.skip(f"someone measures on this machine: {error}")
        service = live.serve(workload, "embedded")
        assert len(processes.below(sshd.pid, itself=False)) > 3
        for ipver in (4, 6):
            arm = Arm(ipver, "native")
            assert live.prove(arm, service, workload)["contradictions"] == []
            result = live.run(arm, service, workload, bursts=2, deadline_s=10.0)
            assert (result.data.attempted, result.data.failed, result.violations) == (10, {}, ())
    assert processes.left() == []


def test_a_host_behind_ssh_keeps_the_mailboxes_of_all_epochs_and_gives_them_up(sshd, processes):
    """The mailboxes' owner must be able to enter their folder, whose name must leave room for names of sockets."""
    name = next((name for name in ("dovecot", "courier") if not SERVERS[name].missing()), "")
    if not name:
        pytest.skip("neither Dovecot nor Courier can run here")
    with tempfile.TemporaryDirectory(prefix="ipperf-far-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "sub").mkdir()
        testbed = sshd.host(folder / "sub")
        state = ServerState(users=30, password="secret")
        work = Workload(testbed="ring", protocol="imap", client="lean", connections=5, payload_bytes=1000)
        said = []
        with Provisioning() as keeper:
            for connections in (5, 10):
                work = dataclasses.replace(work, connections=connections)
                with contextlib.ExitStack() as stack:
                    try:
                        live = stack.enter_context(live_testbed(testbed, f"test {os.getpid()}", 10.0, lambda _: None))
                    except LabError as error:
                        if "is still held by" not in str(error):
                            raise
                        pytest.skip(f"someone measures on this machine: {error}")
                    service = live.serve(work, name, state, keeper)
                    said.append(live.verify(Arm(6, "native"), service, work, 10.0))
                    assert live.run(Arm(4, "native"), service, work, bursts=1, deadline_s=10.0).data.failed == {}
            held = Path(keeper.folder(testbed.server, name, work, state))
            assert len(list(held.rglob("*:2,S"))) == 30
            assert processes.below(sshd.pid, itself=False)
        assert said[0].startswith(f"{service} holds its 30 accounts, ")
        assert said[1:] == [""]
        assert not held.exists()


# --- what a host keeps ------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(sshd):
    """Make an empty cache of the host."""
    folder = sshd.folder / "cache" / "pytest-ipperf"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@pytest.fixture
def sent(monkeypatch):
    """Record the sizes of the archives that hosts asked for."""
    sizes = []

    def reported(magic):
        sizes.append(len(packed := code_archive(magic)))
        return packed

    monkeypatch.setattr(bootstrap, "code_archive", reported)
    return sizes


def test_code_is_sent_once(sshd, folder, kept, sent):
    host = sshd.host(folder).server
    for _ in range(3):
        with AgentClient(host) as agent:
            reported = agent.cache()
    assert len(sent) == 1
    (entry,) = kept.iterdir()
    assert hashlib.sha256(entry.read_bytes()).hexdigest() == entry.name
    assert reported == CacheState(folder=str(kept), note="", entries=1, bytes=sent[0])
    assert kept.stat().st_mode & 0o777 == 0o700


def test_a_python_of_another_kind_keeps_what_it_made_of_the_code(sshd, folder, kept, sent):
    others = [path for release, path in bare_pythons() if release[:2] != sys.version_info[:2]]
    if not others:
        pytest.skip("no other Python from 3.10 on here")
    host = sshd.host(folder, python=others[0]).server
    for _ in range(2):
        with AgentClient(host) as agent:
            assert agent.hello().python != platform.python_version()
    assert len(sent) == 1
    (entry,) = kept.iterdir()
    assert entry.name.startswith(hashlib.sha256(code_archive(b"")).hexdigest())
    with zipfile.ZipFile(io.BytesIO(entry.read_bytes()[32:])) as archive:
        assert "pytest_ipperf/agent/rpc/server.pyc" in archive.namelist()


def test_code_that_was_changed_on_the_host_is_not_run(sshd, folder, kept, sent):
    host = sshd.host(folder).server
    with AgentClient(host):
        pass
    (entry,) = kept.iterdir()
    entry.write_bytes(code_archive(b""))  # which would run
    with AgentClient(host) as agent:
        assert agent.hello().pid
    assert len(sent) == 2
    assert hashlib.sha256(entry.read_bytes()).hexdigest() == entry.name


def test_a_cache_to_which_others_may_write_is_not_used_and_that_is_told(sshd, folder, kept, sent):
    host = sshd.host(folder).server
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    for _ in range(2):
        with AgentClient(host) as agent:
            note = agent.cache().note
    assert note == f"the cache {kept} is not used: others may write to it; remove it"
    assert (len(sent), list(kept.iterdir())) == (2, [])


def count_calls(monkeypatch, agent, calls):
    """Add the name of every further call of this agent to `calls`."""
    request = agent.request

    def counted(name, *arguments, **more):
        calls.append(name)
        request(name, *arguments, **more)

    monkeypatch.setattr(agent, "request", counted)


def test_packages_are_sent_once(sshd, folder, kept, monkeypatch):
    others = [path for release, path in bare_pythons() if release[:2] != sys.version_info[:2]]
    if not others:
        pytest.skip("no other Python from 3.10 on here")
    monkeypatch.setattr(wheels, "_pip", lambda: ())
    host = sshd.host(folder, python=others[0]).server
    calls: list[str] = []
    for _ in range(2):
        with AgentClient(host) as agent:
            count_calls(monkeypatch, agent, calls)
            assert install_packages(agent, ["aioimaplib"]) == f"aioimaplib {version('aioimaplib')}"
    assert calls == ["packages", "unpack_kept", "unpack_and_keep", "packages", "packages", "unpack_kept", "packages"]


def test_clean_removes_what_is_kept(sshd, folder, kept, capsys):
    host = sshd.host(folder).server
    with AgentClient(host):
        size = sum(path.stat().st_size for path in kept.iterdir())
    inventory = ["--ipperf-hosts", str(folder / "hosts.ini")]
    assert main(["clean", "--testbed", "ring", *inventory]) == 0
    assert capsys.readouterr().out == f"far: removed 1 entry of the cache ({size / 1e6:.1f} MB)\n"
    assert not kept.exists()
    assert main(["clean", *inventory]) == 0
    assert capsys.readouterr().out == "far: nothing to remove\n"


def test_clean_goes_on_behind_a_host_that_cannot_be_reached(sshd, folder, kept, gone, capsys):
    sshd.host(folder)
    inventory = folder / "hosts.ini"
    (folder / "gone").write_text((folder / "ssh_config").read_text().replace(f"Port {sshd.port}", f"Port {gone}"))
    inventory.write_text(
        inventory.read_text().replace("server = far", "server = gone")
        + f"[host gone]\nway = ssh\nssh = gone\nipv4 = 127.0.0.2\nssh_config = {folder}/gone\n"
    )
    assert main(["clean", "--ipperf-hosts", str(inventory)]) == 1
    reported = capsys.readouterr()
    assert reported.out == "far: nothing to remove\n"
    assert reported.err.startswith("pytest-ipperf: host gone: no agent could be started by access method ssh: ")
    assert reported.err.endswith("Connection refused (exit status 255)\n")
