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
import statistics
import struct
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.daemon import Daemon, free_port
from pytest_ipperf.agent.figures import PHASES
from pytest_ipperf.agent.folder import lay_out, private_folder
from pytest_ipperf.agent.load import LoadOrder, load
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Entry, Server, Site

_SPEC = importlib.util.spec_from_file_location("faulty_any", Path(__file__).with_name("faulty.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
faulty = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(faulty)

V4, V6 = "127.0.0.1", "::1"
PAYLOAD = 300
DEADLINE_S = 0.3
"""For those who wait for what does not come; all others have longer than they can need."""
ENOUGH_S = 10.0
STATE = ServerState(users=100, password="secret-42")
STREAMS = [name for name in PROTOCOLS if not PROTOCOLS[name].datagram]
PROTOCOL = "protocol: "

FAULTS = [
    *((name, "talk", "") for name in STREAMS),
    *((name, "silent", "talk deadline") for name in PROTOCOLS),
    *((name, "resets", "talk reset") for name in STREAMS),
    *((name, "closes", "talk closed") for name in STREAMS),
    *((name, "garbage", PROTOCOL) for name in PROTOCOLS),
    ("ftp", "nolistener", "data refused"),
    ("ftp", "noaccept", "data deadline"),
    ("ftp", "nodata", "data deadline"),
    ("ftp", "dataresets", "data reset"),
    ("ftp", "truncates", "protocol: 226 to RETR after 150 of 300 bytes"),
    ("ftp", "aborts", "protocol: reply '426 Connection closed; transfer aborted.' to RETR"),
    ("ftp", "cannotopen", "protocol: reply '425 No data connection.' to RETR"),
    ("ftp", "noword", "talk deadline"),
    ("imap", "leaves", "protocol: reply '* BYE shutting down' to SELECT"),
    ("imap", "counts", "protocol: a message of 301 bytes, not of 300"),
    ("imap", "shortens", "protocol: another message than the account's"),
    ("dns", "servfail", "protocol: SERVFAIL"),
    ("dns", "ident", "talk deadline"),
    ("dns", "truncated", "protocol: truncated"),
    ("dns", "cut", "protocol: malformed"),
    ("dns", "otherfamily", "protocol: no address"),
]


def order(name, address, port, n, **changed):
    settings = {
        "protocol": name, "client": "lean", "payload_bytes": PAYLOAD, "connections": n, "bursts": 1,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": address, "deadline_s": ENOUGH_S, "ident": 0, "state": dataclasses.asdict(STATE),
    }  # fmt: skip
    return LoadOrder(**{**settings, **changed})


def script(name):
    protocol = PROTOCOLS[name]
    if protocol.datagram:
        return None
    return protocol.script(protocol.filled(STATE, PAYLOAD))


def totals(told):
    rows = struct.iter_unpack(f"{len(PHASES)}d", told["rows"])
    return [row[PHASES.index("total")] for row in rows]


def deadline_of(kind):
    return DEADLINE_S if kind.endswith("deadline") else ENOUGH_S


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """What other tests have loaded is not looked at in each of the collections below."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more
    yield
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - as above
    assert threading.active_count() == 1


def run(name, fault, address, n, **changed):
    """What is told of a run against that server, which then has nobody left."""
    with faulty.served(fault, script(name), address) as (port, talks):
        began = time.monotonic()
        told = load(order(name, address, port, n, **changed))
        took = time.monotonic() - began
        end = time.monotonic() + 5
        while talks and time.monotonic() < end:
            time.sleep(0.002)
        assert not talks
    assert took < told["attempted"] / n * changed.get("deadline_s", ENOUGH_S) + 3
    assert len(totals(told)) + sum(told["failed"].values()) == told["attempted"]
    return told


def of_kind(told, kind):
    """How many failed so; of what a reply is named in, the beginning of the text."""
    return sum(
        count for failed, count in told["failed"].items() if failed == kind or (kind == PROTOCOL and kind in failed)
    )


@pytest.mark.parametrize(("name", "fault", "kind"), FAULTS)
def test_every_failure_is_counted_by_phase_and_kind(name, fault, kind):
    for n, address in ((1, V4), (10, V6), (100, V4))[kind.endswith("deadline") :]:
        told = run(name, fault, address, n, deadline_s=deadline_of(kind))
        assert told["attempted"] == n
        assert (of_kind(told, kind), told["rows"]) == (n, b"") if kind else not told["failed"], told["failed"]


OF_THE_LIBRARY = {
    ("ftp", "garbage"): "talk deadline",  # it reads on until a line begins with a code
    ("imap", "leaves"): "talk closed",  # it hears no BYE
    ("imap", "shortens"): "talk deadline",  # it takes the rest of the reply for the message's
}
"""What it does not see as the lean client does."""


@pytest.mark.parametrize(("name", "fault", "kind"), FAULTS)
def test_the_library_counts_the_same_but_knows_no_phase_of_data(name, fault, kind):
    kind = OF_THE_LIBRARY.get((name, fault), kind.replace("data ", "talk ", 1) if kind.startswith("data ") else kind)
    told = run(name, fault, V6, 10, client="library", deadline_s=deadline_of(kind))
    assert (of_kind(told, kind), told["rows"]) == (10, b"") if kind else not told["failed"], told["failed"]


REFUSED = {
    "dns": "protocol: REFUSED",
    "ftp": "protocol: reply '530 Login incorrect.' to PASS",
    "http": "protocol: reply 'HTTP/1.1 503 Service Unavailable'",
    "imap": "protocol: reply 'NO [UNAVAILABLE] try later' to LOGIN",
    "smtp": "protocol: reply '451 4.3.0 try later' to MAIL",
}


@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_tenth_log_in_refused_costs_every_tenth_its_deadline(name, client):
    """The server lets the first ten in. The run's value is ((N - k) mean + k deadline) / N."""
    n, lost = 200, 19
    told = run(name, "denies", V4, n // 2, bursts=2, client=client)
    assert told["failed"] == {REFUSED[name]: lost}
    times = totals(told)
    value = METRICS["response_time"].value(times, lost, ENOUGH_S)
    assert math.isclose(value, ((n - lost) * statistics.fmean(times) + lost * ENOUGH_S) / n)
    assert value > ENOUGH_S * lost / n


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_run_ends_when_three_bursts_have_completed_nothing(name):
    told = run(name, "silent", V6, 3, bursts=50, deadline_s=0.1)
    assert (told["failed"], told["attempted"]) == ({"talk deadline": 9}, 9)


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
def short_of_descriptors(server, most):
    recipe = SERVERS[server]
    if missing := recipe.missing():
        pytest.skip(f"{server} cannot run here: {missing}")
    protocol = PROTOCOLS[recipe.protocol if recipe.protocol != "any" else "smtp"]
    state = protocol.filled(STATE, PAYLOAD)
    with private_folder() as folder:
        port = free_port((V4, V6), 20000, 29999, random.Random())
        laid = recipe.provisions(f"{folder}/data", state)
        below = (dataclasses.replace(entry, path=f"data/{entry.path}") for entry in laid)
        lay_out(str(folder), [Entry(server), Entry("data"), *below])
        site = Site(
            str(folder / server), (V4, V6), port, 100, state=state, script=protocol.script(state),
            data=str(folder / "data"), ports=(20000, 29999),
        )  # fmt: skip
        limited = ("prlimit", f"--nofile={most}", sys.executable)
        daemon = Daemon(recipe if recipe.embedded else Limited(recipe, most), site, python=limited)
        daemon.start()
        try:
            yield protocol.name, port, daemon
        finally:
            daemon.stop()


@pytest.mark.parametrize("server", ["aiohttp", "aiosmtpd", "imapd", "null", "pyftpdlib"])
def test_a_server_that_runs_out_of_descriptors_loses_some_and_lives(server):
    """It accepts no more than it can, and sessions are held; the kernel takes the others, who then hear nothing."""
    with short_of_descriptors(server, 40) as (name, port, daemon):
        told = load(order(name, V4, port, 60, deadline_s=1.0))
        assert len(totals(told)) + sum(told["failed"].values()) == told["attempted"] == 60
        assert 0 < len(totals(told)) < 60
        daemon.wait_quiet(5)
        assert (daemon.exit_sentence(), daemon.mute()) == ("", "")
        assert load(order(name, V6, port, 3))["failed"] == {}
