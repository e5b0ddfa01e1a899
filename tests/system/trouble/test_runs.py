"""Single runs against servers at fault: what fails is counted by phase and kind, to the last one, and nothing is left.

What becomes of such runs in a session, `test_faults.py` shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib.util
import math
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.records.arm_summary import summarise
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.failures import restricted_mean
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.report.workload_kinds import tables
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Entry, Server, Site
from tests.support.needs import needs

_SPEC = importlib.util.spec_from_file_location("faulty_any", Path(__file__).with_name("faulty.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
faulty = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(faulty)

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
V4, V6 = "127.0.0.1", "::1"
PAYLOAD = 300
DEADLINE_S = 0.15
"""For those who wait for what does not come; all others have longer than they can need."""
ENOUGH_S = 10.0
HANGS_S = 60.0
STATE = ServerState(users=100, password="secret-42")
STREAMS = [name for name in applications() if not application(name).datagram]
SPOKEN = [name for name in applications() if name in STREAMS or application(name).resolves]
"""The protocols that the faulty servers of this folder speak; of others their own tests know the faults."""
PROTOCOL, LOOK_UP = "protocol: ", "content: dns: "
DIFFERS = "expected 'ck brown fox jum' at offset {} of 300 bytes, seen 'et brown fox jum'"

FAULTS = [
    *((name, "talk", "") for name in STREAMS),
    *((name, "silent", "talk deadline") for name in SPOKEN),
    *((name, "greets", "talk deadline") for name in ("ftp", "imap", "smtp")),
    *((name, "resets", "talk reset") for name in STREAMS),
    *((name, "closes", "talk closed") for name in STREAMS),
    *((name, "garbage", PROTOCOL) for name in SPOKEN),
    ("ftp", "nolistener", "data refused"),
    ("ftp", "noaccept", "data deadline"),
    ("ftp", "nodata", "data deadline"),
    ("ftp", "dataresets", "data reset"),
    ("ftp", "truncates", "content: expected 300 bytes, seen 150 before 226"),
    ("ftp", "differs", f"content: {DIFFERS.format(7)}"),
    ("ftp", "aborts", "protocol: reply '426 Connection closed; transfer aborted.' to RETR"),
    ("ftp", "cannotopen", "protocol: reply '425 No data connection.' to RETR"),
    ("ftp", "noword", "talk deadline"),
    ("imap", "leaves", "protocol: reply '* BYE shutting down' to SELECT"),
    ("imap", "counts", "content: expected 300 bytes, seen 301 in the literal"),
    ("imap", "shortens", "content: expected 'From: <client@ip' at offset 0 of 300 bytes, seen 'client@ipperf.te'"),
    ("imap", "differs", f"content: {DIFFERS.format(125)}"),
    ("http", "differs", f"content: {DIFFERS.format(66)}"),
    ("http", "empties", "content: expected 300 bytes, seen 13 in Content-Length"),
    ("http", "halves", "content: expected 300 bytes, seen 150 before the body's end"),
    ("dns", "servfail", "protocol: SERVFAIL"),
    ("dns", "ident", "talk deadline"),
    ("dns", "truncated", "protocol: truncated"),
    ("dns", "cut", "protocol: malformed"),
    ("dns", "otherfamily", LOOK_UP),
    ("dns", "elsewhere", LOOK_UP),
    ("dns", "aged", LOOK_UP),
]


def spec(spoken, address, port, n, **changed):
    settings = {
        "protocol": spoken, "client": "lean", "payload_bytes": PAYLOAD, "connections": n, "bursts": 1,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": address, "deadline_s": ENOUGH_S, "ident": 0, "state": STATE,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


def script(name):
    protocol = application(name)
    if protocol.datagram:
        return None
    return protocol.canned_replies(protocol.filled(STATE, PAYLOAD))


def totals(reply):
    rows = struct.iter_unpack(f"{len(PHASES)}d", reply.rows)
    return [row[PHASES.index("total")] for row in rows]


def deadline_of(kind):
    return DEADLINE_S if kind.endswith("deadline") else ENOUGH_S


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """What other tests have loaded is not looked at in each of the collections below, nor in those of later tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more
    threads = set(threading.enumerate())  # what an earlier test has left may end meanwhile
    yield
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - as above
    assert set(threading.enumerate()) <= threads


def run(name, fault, address, n, **changed):
    """The reply about a run against that server, which then has nobody left."""
    with faulty.served(fault, script(name), address) as (port, talks):
        began = time.monotonic()
        reply = load(spec(name, address, port, n, **changed))
        took = time.monotonic() - began
        end = time.monotonic() + 20
        while talks and time.monotonic() < end:
            time.sleep(0.002)
        assert not talks
    assert took < reply.attempted / n * changed.get("deadline_s", ENOUGH_S) + HANGS_S
    assert len(totals(reply)) + sum(reply.failed.values()) == reply.attempted
    return reply


def of_kind(reply, kind):
    """How many failed so; of what a reply is named in, the beginning of the text."""
    return sum(
        count
        for failed, count in reply.failed.items()
        if failed == kind or (kind in {PROTOCOL, LOOK_UP} and failed.startswith(kind))
    )


def with_time_for(kind, name, fault, address, n, **changed):
    """The reply about a run in which all have come so far as to fail by this kind.

    On a busy machine some have not when their time is up; with more of it, all fail there.
    """
    deadline_s = deadline_of(kind)
    reply = run(name, fault, address, n, deadline_s=deadline_s, **changed)
    while kind.endswith("deadline") and of_kind(reply, kind) < n and deadline_s < ENOUGH_S:
        deadline_s *= 4
        reply = run(name, fault, address, n, deadline_s=deadline_s, **changed)
    return reply


@pytest.mark.parametrize(("name", "fault", "kind"), FAULTS)
def test_every_failure_is_counted_by_phase_and_kind(name, fault, kind):
    for n, address in ((1, V4), (10, V6), (100, V4))[kind.endswith("deadline") :]:
        reply = with_time_for(kind, name, fault, address, n)
        assert reply.attempted == n
        assert (of_kind(reply, kind), reply.rows) == (n, b"") if kind else not reply.failed, reply.failed


@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize(("fault", "kind"), [(fault, kind) for name, fault, kind in FAULTS if name == "dns"])
def test_a_look_up_that_fails_is_counted_as_such_whatever_it_was_for(fault, kind, client):
    kind = kind.replace("talk ", "dns ").replace(PROTOCOL, "dns ")
    for name in STREAMS[: 1 if kind.endswith("deadline") else None]:
        with faulty.served(fault, None, V6) as (port, _):
            asks = {"name": application(name).host, "resolver": V6, "resolver_port": port}
            reply = load(spec(name, V6, 9, 10, client=client, deadline_s=deadline_of(kind), **asks))
        assert sum(reply.failed.values()) == 10
        assert all(failed == kind or (kind[-1] == " " and failed.startswith(kind)) for failed in reply.failed)


OF_THE_LIBRARY = {
    ("ftp", "garbage"): "talk deadline",  # it reads on until a line begins with a code
    ("imap", "leaves"): "talk closed",  # it hears no BYE
    ("imap", "shortens"): "talk deadline",  # it takes the rest of the reply for the message's
}
"""What it does not see as the lean client does."""


@pytest.mark.parametrize(("name", "fault", "kind"), FAULTS)
def test_the_library_counts_the_same_but_knows_no_phase_of_data(name, fault, kind):
    kind = OF_THE_LIBRARY.get((name, fault), kind.replace("data ", "talk ", 1) if kind.startswith("data ") else kind)
    reply = with_time_for(kind, name, fault, V6, 10, client="library")
    assert (of_kind(reply, kind), reply.rows) == (10, b"") if kind else not reply.failed, reply.failed


def documented():
    """The rows of the page: protocols, what the server does, and how both clients count it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, fault, kind in FAULTS:
        if kind:
            talk = faulty.LOOK_UPS[fault][0] if application(name).datagram else faulty._TALKS[fault].__doc__
            library = OF_THE_LIBRARY.get((name, fault), kind.replace("data ", "talk ") if kind[:5] == "data " else kind)
            row = (talk, kind, "the same" if library == kind else f"`{library}`")
            found.setdefault(row, []).append(application(name).title)
    return [
        f"| {', '.join(titles)} | {does} | `{f'{kind}...' if kind in {PROTOCOL, LOOK_UP} else kind}` | {library} |"
        for (does, kind, library), titles in found.items()
    ]


def test_the_page_has_a_row_for_each_with_the_kind_that_is_counted():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index("| protocol | what the server does | counted as | by the library |")
    assert lines[begin + 2 : begin + 2 + len(documented())] == documented()
    assert not lines[begin + 2 + len(documented())]


REFUSED = {
    "dns": "protocol: REFUSED",
    "ftp": "protocol: reply '530 Login incorrect.' to PASS",
    "http": "protocol: reply 'HTTP/1.1 503 Service Unavailable'",
    "imap": "protocol: reply 'NO [UNAVAILABLE] try later' to LOGIN",
    "smtp": "protocol: reply '451 4.3.0 try later' to MAIL",
}


@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize("name", SPOKEN)
def test_every_tenth_log_in_refused_costs_every_tenth_its_deadline(name, client):
    """The server lets the first ten in. The run's value is ((N - k) mean + k deadline) / N."""
    n, lost = 200, 19
    reply = run(name, "denies", V4, n // 2, bursts=2, client=client)
    assert reply.failed == {REFUSED[name]: lost}
    times = totals(reply)
    value = restricted_mean(times, lost, ENOUGH_S)
    assert math.isclose(value, ((n - lost) * statistics.fmean(times) + lost * ENOUGH_S) / n)
    assert value > ENOUGH_S * lost / n


@pytest.mark.parametrize("changed", [{"workers": 2}, {"rate_per_s": 2000.0}], ids=["workers", "arrivals"])
@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize("name", SPOKEN)
def test_refusals_are_counted_the_same_by_several_workers_and_in_open_mode(name, client, changed):
    assert run(name, "denies", V6, 100, client=client, **changed).failed == {REFUSED[name]: 9}


@pytest.mark.parametrize("changed", [{"workers": 2}, {"rate_per_s": 500.0}], ids=["workers", "arrivals"])
@pytest.mark.parametrize("name", SPOKEN)
def test_the_deadline_is_the_same_for_several_workers_and_in_open_mode(name, changed):
    reply = with_time_for("talk deadline", name, "silent", V4, 50, **changed)
    assert (reply.failed, reply.attempted) == ({"talk deadline": 50}, 50)


def summary(arm, time_s, lost):
    """An arm that had two runs of a hundred, of which so many were lost; the others took so long, or a bit longer."""
    runs = []
    for number in range(2):
        times = [time_s * (1 + number / 1000)] * (100 - lost)
        runs.append(Run(
            arm=arm, epoch=0, block=number, slot=0, warmup=False, started_at=0.0, attempted=100,
            failed={"talk reset": lost} if lost else {}, completed_s=statistics.fmean(times),
            values={"response_time": restricted_mean(times, lost, ENOUGH_S)},
        ))  # fmt: skip
    return summarise(arm, "response_time", runs, [], ())


@pytest.mark.parametrize("design", ["quick", "paper"])
def test_a_mean_of_those_alone_that_completed_is_in_no_row_but_those_that_say_so(design):
    test, reference = summary(Arm(6, "native"), 0.0467, 9), summary(Arm(4, "native"), 0.0231, 0)
    record = Record(
        cell="lab-smtp-c100-1k-ipv6", testbed="lab", protocol="smtp", connections=100, payload_bytes=1024, ipver=6,
        transport="native", twin=False, client="lean", server="any", metric="response_time", design=design, judges=True,
        seed=1, look=1, looks=1, epochs=2, blocks=1, deadline_s=ENOUGH_S, test=test, reference=reference, estimate=None,
        low=None, high=None, confidence=0.95, sd_epoch=None, sd_block=None, margin="", margin_fraction=None, alpha=0.05,
        verdict="measured", reasons=(), sentence="",
    )  # fmt: skip
    lines = tables([record])
    assert [line for line in lines if "943" in line]  # 0.91 * 46.7 ms and 0.09 * 10 s
    found = [line for line in lines if "46.7" in line]
    assert bool(found) == (design == "paper")
    assert all(line.strip().startswith("study's formula: ") for line in found)


@pytest.mark.parametrize("name", SPOKEN)
def test_a_run_ends_when_three_bursts_have_completed_nothing(name):
    reply = run(name, "silent", V6, 3, bursts=50, deadline_s=0.1)
    assert (sum(reply.failed.values()), reply.attempted) == (9, 9)
    # On a busy machine some do not connect in that time.
    assert {kind.partition(" ")[2] for kind in reply.failed} == {"deadline"}


# --- clients that lack ports ------------------------------------------------------------------------------------------

FEW_PORTS = """
import importlib.util, socket, sys
spec = importlib.util.spec_from_file_location("runs", sys.argv[1])
runs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runs)
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
others = [socket.socket(family) for _ in range(10)]
for at, other in enumerate(others):
    other.bind((sys.argv[2], 40000 + at))
with runs.standing("null", "ftp") as (port, _):
    print(runs.load(runs.spec("ftp", sys.argv[2], port, 10, bursts=3)).failed)
"""


@needs("ip", "unshare")
@pytest.mark.parametrize("address", [V4, V6])
def test_ports_that_come_to_an_end_within_a_run_are_told_as_such(address):
    """For 30 sessions that stay there are 35 ports, but others have ten of them; the data go to other ports."""
    words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no rights for a network namespace")
    ports = "echo 40000 40034 >/proc/sys/net/ipv4/ip_local_port_range"
    up = f'PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; {ports}; exec "$@"'
    argv = [*words, "sh", "-ec", up, "sh", sys.executable, "-c", FEW_PORTS, __file__, address]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("{'connect out of ports': 5}\n", 0), done.stderr


# --- servers that lack descriptors ------------------------------------------------------------------------------------


class Limited(Server):
    """A recipe whose server, a program of the host, may have so many descriptors."""

    def __init__(self, recipe, most):
        self._recipe = recipe
        self._most = most
        self.name, self.embedded, self.probe = recipe.name, False, recipe.probe

    def missing(self):
        return ""

    def version(self):
        return ""

    def entries(self, site):
        return self._recipe.entries(site)

    def busy(self, site):
        return self._recipe.busy(site)

    def argv(self, site):
        return ("prlimit", f"--nofile={self._most}", *self._recipe.argv(site))


@contextlib.contextmanager
def standing(server, name, most_descriptors=4096):
    recipe = SERVERS[server]
    if missing := recipe.missing():
        pytest.skip(f"{server} cannot run here: {missing}")
    protocol = application(name)
    state = protocol.filled(STATE, PAYLOAD)
    with private_folder() as folder:
        port = free_port((V4, V6), 20000, 29999, random.Random())
        laid = recipe.provisions(f"{folder}/data", state)
        below = (dataclasses.replace(entry, path=f"data/{entry.path}") for entry in laid)
        populate(str(folder), [Entry(server), Entry("data"), *below])
        site = Site(
            str(folder / server), (V4, V6), port, 100, state=state, canned_replies=protocol.canned_replies(state),
            data=str(folder / "data"), ports=(20000, 29999),
        )  # fmt: skip
        limited = ("prlimit", f"--nofile={most_descriptors}", sys.executable)
        instance = ServerProcess(recipe if recipe.embedded else Limited(recipe, most_descriptors), site, python=limited)
        instance.start()
        try:
            yield port, instance
        finally:
            instance.stop()


def resume_when_connected(pid, port, n):
    """Let a stopped server go on once so many have connected, by IPv4, which the kernel does in its place."""

    def connected():
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(words[2].endswith(f":{port:04X}") and words[3] == "01" for words in lines)  # TCP_ESTABLISHED

    end = time.monotonic() + 2
    while connected() < n and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("server", "name"),
    [("aiohttp", "http"), ("aiosmtpd", "smtp"), ("imapd", "imap"), ("null", "smtp"), ("pyftpdlib", "ftp")],
)
def test_a_server_that_runs_out_of_descriptors_loses_some_and_lives(server, name):
    """It serves those that it can accept, though all others wait; the kernel takes these, who then hear nothing.

    The server is held up until all have connected. Each second asyncio accepts as many as there are descriptors.
    """
    with standing(server, name, 40) as (port, instance):
        (pid,) = instance.pids()
        os.kill(pid, signal.SIGSTOP)
        resumed = threading.Thread(target=resume_when_connected, args=(pid, port, 200))
        resumed.start()
        reply = load(spec(name, V4, port, 200, deadline_s=2.5))
        resumed.join()
        assert len(totals(reply)) + sum(reply.failed.values()) == reply.attempted == 200
        assert 0 < len(totals(reply)) < 200
        instance.wait_quiet(20)
        assert (instance.exit_sentence(), instance.unresponsive()) == ("", "")
        assert load(spec(name, V6, port, 3)).failed == {}


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("server", "name", "most", "kinds"),
    [("apache", "http", 60, {"protocol: reply 'HTTP/1.1 403 Forbidden'"}), ("proftpd", "ftp", 40, set())],
)
def test_a_server_of_processes_or_threads_needs_few_descriptors_in_each(server, name, most, kinds):
    """Apache accepts more than it can open files for."""
    with standing(server, name, most) as (port, instance):
        reply = load(spec(name, V4, port, 100))
        assert set(reply.failed) <= kinds
        assert totals(reply)
        assert instance.unresponsive() == ""


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("server", "name", "words"),
    [
        ("postfix", "smtp", "could allocate space for only 60 open files"),
        ("dovecot", "imap", "Too many open files"),
    ],
)
def test_a_server_that_does_not_start_with_few_says_why(server, name, words):
    with pytest.raises(LabError, match=words), standing(server, name, 60):
        pass
