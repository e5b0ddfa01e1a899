"""Server processes made of small Python servers: ready, checked, stopped, and gone with their agent."""

from __future__ import annotations

import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.dirty_marks import LeftoverError, still_holds
from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.kernel.processes import process_of, tree
from pytest_ipperf.agent.kernel.processors import Processors
from pytest_ipperf.agent.servers import containment as containment_module
from pytest_ipperf.agent.servers import server_process as process_module
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.open_connections import open_connections
from pytest_ipperf.agent.sockets.ports import free_port, in_use
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Entry, Server, Site

ROOT = Path(__file__).parents[3]
ADDRESSES = ("127.0.0.1", "::1")

# Listens on both addresses, greets, holds each connection open, and starts two processes that leave its session.
LISTENS = """
import os, signal, socket, sys, threading, time
signal.signal(signal.SIGTERM, TERM)
sum(range(2_000_000))
print("up", flush=True)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, TERM)
        time.sleep(100)
        os._exit(0)
held = []
def serve(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.create_server((address, int(sys.argv[1])), family=family)
    while True:
        held.append(sock.accept()[0])
        held[-1].sendall(b"hello")
for address in ("127.0.0.1", "::1"):
    threading.Thread(target=serve, args=(address,), daemon=True).start()
while True:
    time.sleep(100)
"""


def script(term):
    return LISTENS.replace("SIGTERM, TERM", f"SIGTERM, {term}")


class Stub(Server):
    """Any command as a server."""

    name = "stub"
    protocol = "stub"
    embedded = False
    apt = "stub"
    probe = (b"", b"hello")

    def __init__(self, *command, missing=""):
        self._command = command
        self._missing = missing

    def missing(self):
        return self._missing

    def version(self):
        return "1"

    def entries(self, site):
        del site
        return [Entry("data")]

    def argv(self, site):
        return [word.replace("PORT", str(site.port)) for word in self._command]


def listener(term="lambda *_: os._exit(0)"):
    return Stub(sys.executable, "-c", script(term), "PORT")


class Embedded(Stub):
    """The same of an embedded server, which tells its processors first."""

    embedded = True

    def __init__(self):
        told = "import os; print(sorted(os.sched_getaffinity(0)), flush=True)"
        super().__init__("python", "-c", f"{told}\n{script('lambda *_: os._exit(0)')}", "PORT")


@pytest.fixture
def site():
    with private_folder() as folder:
        yield Site(str(folder / "site"), ADDRESSES, free_port(ADDRESSES, 20000, 29999, random.Random()), 10)


@pytest.fixture
def instance_of(site):
    """Create server processes, which are stopped even if the test fails."""
    made = []

    def make(server, **settings):
        made.append(ServerProcess(server, site, **settings))
        return made[-1]

    yield make
    for instance in made:
        instance.stop()


@pytest.fixture(params=["best", "relay"])
def _leash(request, monkeypatch):
    """Use both kinds of containment: the best one of this machine, and the one without namespaces."""
    if request.param == "relay":
        monkeypatch.setattr(process_module, "containment", containment_module._relay)


def _gone(pids):
    return not any((found := process_of(pid)) and found.alive for pid in pids)


def _becomes(true):
    end = time.monotonic() + 60
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.usefixtures("_leash")
def test_stop_is_polite_and_complete(instance_of, monkeypatch):
    monkeypatch.setattr(process_module, "_TERM_S", 120.0)  # after which it would kill
    instance = instance_of(listener())
    instance.start()
    assert instance.alive()
    pids = instance.pids()
    assert len(pids) >= 3
    assert instance.cpu_seconds() > 0
    begun = time.monotonic()
    instance.stop()
    assert time.monotonic() - begun < process_module._TERM_S
    assert not instance.alive()
    assert _gone(pids)
    assert instance.pids() == []
    instance.stop()


@pytest.mark.usefixtures("_leash")
def test_what_ignores_sigterm_is_killed(instance_of, monkeypatch):
    monkeypatch.setattr(process_module, "_TERM_S", 0.5)
    monkeypatch.setattr(process_module, "_KILL_S", 20.0)
    instance = instance_of(listener("signal.SIG_IGN"))
    instance.start()
    pids = instance.pids()
    begun = time.monotonic()
    instance.stop()
    assert time.monotonic() - begun >= 0.5
    assert _gone(pids)


def test_what_cannot_be_killed_is_told_by_its_name_for_ever(instance_of, monkeypatch):
    """A process that hangs in the kernel cannot be killed; this one is only never sent the signal."""
    instance = instance_of(listener("signal.SIG_IGN"))
    instance.start()
    pids = instance.pids()
    monkeypatch.setattr(process_module, "_TERM_S", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(process_module, "_send", lambda *_: None)
        patch.setattr(process_module, "_KILL_S", 0.05)
        with pytest.raises(LeftoverError) as caught:
            instance.stop()
    pid, started_ticks = caught.value.note["process"]
    assert str(caught.value).endswith(f": process {pid} cannot be killed")
    assert (pid, started_ticks) in {
        (process.pid, process.started_ticks) for level in tree(os.getpid()) for process in level
    }
    assert still_holds(caught.value.note)
    instance.stop()
    assert _becomes(lambda: _gone(pids))
    assert not still_holds(caught.value.note)


def test_never_started_stops_too(instance_of):
    instance = instance_of(listener())
    instance.stop()
    assert not instance.alive()
    assert instance.exit_sentence() == ""
    assert instance.pids() == []


@pytest.mark.usefixtures("_leash")
def test_exit_at_once_is_told_with_its_last_words(instance_of):
    instance = instance_of(Stub("sh", "-c", "echo first; echo bad directive >&2; exit 3"))
    with pytest.raises(LabError) as caught:
        instance.start()
    assert str(caught.value) == "stub exited with status 3; its log ends: first | bad directive"


def test_a_program_that_cannot_be_started(instance_of):
    with pytest.raises(LabError, match=r"^stub exited with status \d+; its log ends: .*/nowhere/program"):
        instance_of(Stub("/nowhere/program")).start()


def test_never_ready(site, instance_of):
    instance = instance_of(Stub("sleep", "60"))
    with pytest.raises(LabError) as caught:
        instance.start(ready_s=0.3)
    expected = f"stub was not ready on 127.0.0.1 port {site.port} after 0.3 s: Connection refused; its log is empty"
    assert str(caught.value) == expected
    assert not instance.alive()


def test_a_wrong_answer_is_not_ready(site, instance_of):
    server = listener()
    server.probe = (b"", b"220 ")
    instance = instance_of(server)
    instance.launch()
    assert _becomes(lambda: in_use("127.0.0.1", site.port, socket.SOCK_STREAM))
    with pytest.raises(LabError, match=r"it answered b'hello' instead of b'220 '; its log ends: up$"):
        instance.wait_ready(0.0)


def test_what_is_missing_is_told(instance_of):
    with pytest.raises(LabError) as caught:
        instance_of(Stub("true", missing="stub is not installed (Debian: apt-get install stub)")).start()
    assert str(caught.value) == "stub cannot run here: stub is not installed (Debian: apt-get install stub)"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_port_in_use_is_named(site, address, instance_of):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, site.port), family=family), pytest.raises(LabError) as caught:
        instance_of(listener()).start()
    assert str(caught.value) == f"stub: port {site.port} on {address} is in use; give it a free one"


def test_an_address_of_another_host_is_named(site):
    other = Site(site.folder, ("192.0.2.1",), site.port, 1)
    with pytest.raises(LabError, match=r"address 192\.0\.2\.1: .*; it has to be an address of this host$"):
        ServerProcess(listener(), other).start()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_death_is_told(number, instance_of):
    instance = instance_of(listener("lambda *_: os._exit(7)"))
    instance.start()
    os.kill(instance.pids()[0], number)
    assert _becomes(lambda: not instance.alive())
    how = "was killed by signal 9" if number == signal.SIGKILL else "exited with status 7"
    # The shell that reported its end may have added a line of its own.
    assert instance.exit_sentence().startswith(f"stub {how}; its log ends: up")
    assert instance.pids() == []
    instance.stop()


def test_death_is_told_at_once_of_a_server_that_answers_no_more(instance_of, monkeypatch):
    """Its sockets are closed before it is seen to have ended."""
    monkeypatch.setattr(process_module, "_DYING_S", 20.0)
    instance = instance_of(listener())
    instance.start()
    os.kill(instance.pids()[0], signal.SIGKILL)
    assert instance.unresponsive().startswith("stub was killed by signal 9; its log ends: up")


def test_open_connections_keep_it_busy(site, instance_of):
    instance = instance_of(listener())
    instance.start()
    probes = open_connections(site.port)  # the server holds those of its probes too
    assert probes >= 2
    with socket.create_connection(("127.0.0.1", site.port)), socket.create_connection(("::1", site.port)):
        assert instance.wait_quiet(0.1) == f"stub: {probes + 2} connections still open"


def test_one_connection(site, monkeypatch, instance_of):
    monkeypatch.setattr(process_module, "open_connections", lambda _: 1)
    assert instance_of(listener()).busy() == "1 connection still open"


OWNER = """
import sys, time
sys.path[:0] = [{root!r}, {here!r}]
from test_server_process import *
if {relay}:
    process_module.containment = containment_module._relay
server = SERVERS[{name!r}] if {name!r} != "stub" else listener()
site = Site({folder!r}, ADDRESSES, free_port(ADDRESSES, 20000, 29999, random.Random()), 10)
instance = ServerProcess(server, site)
instance.start()
print(*instance.pids(), flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("relay", [False, True])
@pytest.mark.parametrize("name", ["stub", "apache", "postfix", "aiosmtpd", "nameserver"])
def test_is_gone_when_its_agent_is_killed(name, relay):
    if name != "stub" and (missing := SERVERS[name].missing()):
        pytest.skip(f"{name} cannot run here: {missing}")
    with private_folder() as folder:
        code = OWNER.format(
            root=str(ROOT), here=str(Path(__file__).parent), name=name, folder=f"{folder}/site", relay=relay
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout
            pids = [int(pid) for pid in owner.stdout.readline().split()]
            owner.kill()
        assert pids
        if name == "stub" and relay:  # the relay cannot reach a process outside the session
            pids = pids[:2]
        assert _becomes(lambda: _gone(pids))


@pytest.mark.usefixtures("_leash")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one processor")
def test_an_embedded_server_starts_everywhere_and_serves_where_its_agent_runs(instance_of):
    processors, everywhere = Processors(), sorted(os.sched_getaffinity(0))
    instance = instance_of(Embedded(), processors=processors)
    here = processors.bind(everywhere[:1])
    try:
        instance.start()
        assert sorted(os.sched_getaffinity(0)) == here
    finally:
        os.sched_setaffinity(0, everywhere)
    assert instance.log().startswith(f"{everywhere}\n")
    threads = [int(each.name) for pid in instance.pids() for each in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) >= 5
    assert all(sorted(os.sched_getaffinity(thread)) == here for thread in threads)


def test_embedded_code_may_come_from_memory(site, instance_of):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for entry in (
            "__init__.py",
            "servers",
            "core/__init__.py",
            "core/portable",
        ):
            path = ROOT / "pytest_ipperf" / entry
            for file in path.rglob("*.py") if path.is_dir() else [path]:
                archive.write(file, str(file.relative_to(ROOT)))
    code = os.memfd_create("code")
    try:
        os.write(code, packed.getvalue())
        # Code in the site's folder must not be taken for ours.
        Path(site.folder, "pytest_ipperf").mkdir(parents=True)
        Path(site.folder, "json.py").write_text("raise SystemExit('not this one')")
        instance_of(SERVERS["nameserver"], code_fd=code).start()
    finally:
        os.close(code)
