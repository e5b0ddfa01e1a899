"""Engine of a query load: real name servers on the loopback device, and ones that lie, lose, truncate or die."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import threading
import time
from array import array

import pytest

from pytest_ipperf.agent.flows.dns.load import Load
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import FlowServer, FlowSpec
from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.dns.zone import WILDCARD, text_of
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import flow
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.nameserver import reply, text_records

ADDRESSES = ("127.0.0.1", "::1")
PORTS = (20000, 29999)
PROTOCOL = flow("dns_load")
ENGINE = ENGINES["dns_load"]
SMALL, LARGE = 64, 2000
QUERY_BYTES = 12 + 1 + 16 + len(".load.ipperf.test") + 1 + 4 + 11
ANSWER_BYTES = QUERY_BYTES + 12 + SMALL + 1
NAMES = ["bind", "nameserver"]
RUN_S = 0.1
"""Duration of a run; a closed loop has thousands of answers in it, of as much processor time as there is."""

every_server = pytest.mark.parametrize("name", NAMES)


def spec_of(
    port, *, payload=SMALL, ipver=4, clients=1, run_s=RUN_S, warmup_s=0.03, deadline_s=10.0, cached_ttl_s=0, **levels
):
    factors = {each.name: each.levels[0] for each in PROTOCOL.factors if not each.silent} | levels
    return FlowSpec(
        engine="dns_load", ipver=ipver, source="", address=ADDRESSES[ipver == 6], ports=PORTS, connections=clients,
        payload_bytes=payload, factors=factors, warmup_s=warmup_s, run_s=run_s, deadline_s=deadline_s, ident=1,
        service=FlowServer(port=port, cached_ttl_s=cached_ttl_s), pattern="1/0/0",
    )  # fmt: skip


@contextlib.contextmanager
def serving(name, payload):
    """A real server with the zone of that payload; gives its port and process."""
    recipe = SERVERS[name]
    if missing := recipe.missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    with private_folder() as folder:
        port = free_port(ADDRESSES, *PORTS, random.Random())
        state = PROTOCOL.served_state(ServerState(), payload)
        site = Site(str(folder / name), ADDRESSES, port, 1000, state, zone={PROTOCOL.host: ADDRESSES})
        instance = ServerProcess(recipe, site)
        instance.start()
        try:
            yield port, instance
        finally:
            instance.stop()


@pytest.fixture(scope="module")
def ports():
    """Ports of running servers, by name and payload."""
    with contextlib.ExitStack() as stack:
        usable = [name for name in NAMES if not SERVERS[name].missing()]
        yield {
            (name, payload): stack.enter_context(serving(name, payload))[0]
            for name in usable
            for payload in (SMALL, LARGE)
        }


def port_of(ports, name, payload=SMALL):
    if (name, payload) not in ports:
        pytest.skip(f"{name} cannot run here: {SERVERS[name].missing()}")
    return ports[name, payload]


def run(spec, is_enough=lambda report: report.attempted):
    """Run again where this machine stood still for most of so short a run."""
    for _ in range(20):
        report = ENGINE.near(spec, lambda: None)
        if is_enough(report):
            break
    return report


# --- real servers -----------------------------------------------------------------------------------------------------


@every_server
@pytest.mark.parametrize("ipver", [4, 6])
@pytest.mark.parametrize(
    "levels",
    [
        {},
        {"qnames": "unique", "clients": 5},
        {"outstanding": 1},
        {"carrier": "tcp"},
        {"carrier": "tcp", "clients": 5, "qnames": "unique"},
        {"carrier": "tcp", "reuse": "per_query", "outstanding": 10},
    ],
    ids=lambda levels: "-".join(map(str, levels.values())) or "udp",
)
def test_a_closed_loop_is_answered_by_a_real_server(name, ipver, levels, ports):
    report = run(spec_of(port_of(ports, name), ipver=ipver, **levels))
    facts, rows = report.facts, array("d", report.samples)
    assert report.failed == {}
    # The last ones may come after the end, and those of the warm-up in the run.
    assert abs(facts["answered"] - report.attempted) <= levels.get("outstanding", 100)
    assert report.attempted == facts["asked"] == len(rows) // 2 > 0
    assert facts["payload_bytes"] == facts["answered"] * ANSWER_BYTES
    assert facts["truncated"] == facts["unexpected"] == facts["lost"] == 0
    assert all(0 <= at_s < RUN_S for at_s in rows[::2])
    assert all(0 < response_s <= 10.0 for response_s in rows[1::2])
    assert report.families == ["AF_INET6" if ipver == 6 else "AF_INET"]
    assert report.sources == [ADDRESSES[ipver == 6]]
    sockets = facts["served"] if "reuse" in levels else levels.get("clients", 1)
    assert report.peers == {ADDRESSES[ipver == 6]: sockets}


@every_server
@pytest.mark.parametrize("carrier", ["udp", "tcp"])
def test_an_open_loop_asks_at_the_instants_of_its_schedule(name, carrier, ports):
    port = port_of(ports, name)
    reports = [run(spec_of(port, qps=500.0, carrier=carrier, run_s=0.3)) for _ in range(2)]
    found = [sorted(array("d", report.samples)[::2]) for report in reports]
    for report, instants in zip(reports, found, strict=True):
        missed = report.failed.pop("not sent in time", 0)
        assert report.failed == {}
        assert report.facts["offered_qps"] == 500
        assert len(instants) + missed == report.attempted == report.facts["asked"]
    # The same pattern gives the same instants, of which a delayed machine may leave out the last ones.
    shared = min(map(len, found))
    assert shared > 0
    assert found[0][:shared] == pytest.approx(found[1][:shared], abs=1e-9)


def test_queries_may_come_at_even_gaps(ports):
    report = run(spec_of(port_of(ports, "nameserver"), qps=200.0, spacing="constant", run_s=0.3))
    instants = sorted(array("d", report.samples)[::2])
    gaps = [after - before for before, after in zip(instants, instants[1:])]  # noqa: B905, RUF007
    assert 60 <= report.attempted <= 61  # one may be due at the very beginning
    assert gaps == pytest.approx([0.005] * len(gaps))


@every_server
@pytest.mark.parametrize("ipver", [4, 6])
@pytest.mark.parametrize("levels", [{}, {"edns": "none"}, {"qnames": "unique"}], ids=["edns", "none", "unique"])
def test_an_answer_that_does_not_fit_is_asked_for_by_tcp(name, ipver, levels, ports):
    report = run(spec_of(port_of(ports, name, LARGE), payload=LARGE, ipver=ipver, outstanding=10, **levels))
    facts = report.facts
    assert report.failed == {}
    assert facts["truncated"] == facts["served"] > 0
    assert report.peers == {ADDRESSES[ipver == 6]: 1 + facts["served"]}  # one socket, and a connection for each


@every_server
def test_a_larger_buffer_spares_the_second_attempt(name, ports):
    report = run(spec_of(port_of(ports, name, LARGE), payload=LARGE, edns=4096, outstanding=10))
    assert report.facts["truncated"] == 0
    assert report.facts["answered"] > 0


@every_server
def test_a_server_with_another_zone_ends_the_run(name, ports):
    port = port_of(ports, name)
    for levels in ({}, {"carrier": "tcp"}):
        with pytest.raises(LabError) as caught:
            run(spec_of(port, payload=65, **levels))
        said = str(caught.value)
        assert said.startswith(f"the name server at 127.0.0.1 port {port} has not answered a first query rightly")
        assert "content: dns: expected TXT of 66 bytes" in said
        assert " for *.load.ipperf.test, seen TXT of 65 bytes " in said


def test_a_server_that_dies_is_noticed_and_the_rest_is_lost(monkeypatch):
    finish, answered = Load.finish, iter(range(10**9))

    with serving("nameserver", SMALL) as (port, instance):
        pids = instance.pids()

        def kills(*answer):
            if next(answered) == 20:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
            finish(*answer)

        monkeypatch.setattr(Load, "finish", kills)
        report = ENGINE.near(spec_of(port, run_s=1.0, deadline_s=0.2, outstanding=5), lambda: None)
        assert set(report.failed) == {"no answer"}
        assert report.facts["served"] >= 20
        assert instance.unresponsive().startswith("nameserver was killed by signal 9; ")


@pytest.mark.parametrize(("carrier", "why"), [("udp", "no answer, refused"), ("tcp", "connect refused(, no answer)?")])
def test_who_does_not_listen_is_named(carrier, why, monkeypatch):
    monkeypatch.setattr("pytest_ipperf.agent.flows.engines.dns_load._FIRST_S", 0.5)
    port, ask = free_port(["127.0.0.1"], *PORTS, random.Random()), Load._ask
    asked: list[None] = []
    monkeypatch.setattr(Load, "_ask", lambda *query: asked.append(ask(*query)))
    with pytest.raises(LabError, match=rf"port {port} has not answered .* within 0\.5 s \({why}\)"):
        run(spec_of(port, carrier=carrier, deadline_s=0.2))
    assert 2 <= len(asked) <= 6  # a refusal comes at once, and is no reason to ask at once again


def test_an_agent_that_is_stopped_ends_the_run(ports):
    class StopError(Exception):
        pass

    def alive():
        raise StopError

    with pytest.raises(StopError):
        ENGINE.near(spec_of(port_of(ports, "nameserver"), run_s=60.0), alive)


@pytest.mark.parametrize("ipver", [4, 6])
@pytest.mark.parametrize("carrier", ["udp", "tcp"])
def test_a_forwarder_answers_one_name_from_its_cache_and_fetches_each_unique_one(ipver, carrier):
    """Cached records grow old, fetched ones have their whole TTL; the server says how often it had to ask upstream."""
    recipe = SERVERS["bind_forwarder"]
    with serving("bind_forwarder", SMALL) as (port, _):
        levels = {"ipver": ipver, "carrier": carrier, "cached_ttl_s": recipe.cached_ttl_s}
        for qnames in ("one", "unique"):
            report = run(spec_of(port, qnames=qnames, **levels))
            assert report.failed == {}
            assert report.facts["answered"] > 0
        with pytest.raises(LabError, match=r"expected an authoritative answer|expected a TTL of 0 s"):
            run(spec_of(port, **{**levels, "cached_ttl_s": 0}))


# --- servers that do wrong --------------------------------------------------------------------------------------------


class Wrong(threading.Thread):
    """Name server by UDP and TCP on one thread each; `change` makes a list of answers out of the right one.

    It gets the number of the query, from 0, and the right answer. The first ones, of the zone's check, are right.
    """

    def __init__(self, change, payload=SMALL):
        super().__init__(daemon=True)
        self.texts = text_records({WILDCARD: text_of(payload).decode()})
        self.change, self.number, self.ended = change, 0, False
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.port = self.stream.getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.port))
        self.start()
        threading.Thread(target=self.accept, daemon=True).start()

    def answers(self, query, most_bytes=0):
        right = reply(query, {}, self.texts, most_bytes)
        self.number += 1
        return self.change(self.number - 2, right) if self.number > 1 else [right]

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                query, peer = self.datagrams.recvfrom(4096)
                for each in self.answers(query):
                    self.datagrams.sendto(each, peer)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self.stream.accept()[0]
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        with contextlib.suppress(OSError, struct.error), peer, peer.makefile("rb") as lines:
            while True:
                query = lines.read(struct.unpack("!H", lines.read(2))[0])
                for each in self.answers(query, 65535):
                    if not each:
                        return
                    peer.sendall(len(each).to_bytes(2, "big") + each)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.refuse()
        self.datagrams.close()

    def refuse(self):
        """Refuse connections from now on; `close` alone would let the waiting `accept` take one more."""
        if self.stream.fileno() >= 0:
            self.stream.shutdown(socket.SHUT_RDWR)
            self.stream.close()


both_carriers = pytest.mark.parametrize("carrier", ["udp", "tcp"])


def changed(at, value):
    return lambda number, right: [right[:at] + bytes([value]) + right[at + 1 :]]


@both_carriers
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (changed(3, 5), "protocol: REFUSED"),
        (changed(3, 2), "protocol: SERVFAIL"),
        (changed(2, 0x05), "protocol: not a response"),
        (changed(2, 0x81), "content: dns: expected an authoritative answer, seen one without the AA flag"),
        (
            changed(13, ord("z")),
            "content: dns: expected an answer about *.load.ipperf.test TXT, seen one about zZ.load.ipperf.test",
        ),
        (lambda _, right: [right[: QUERY_BYTES - 11]], "protocol: malformed"),
        (changed(QUERY_BYTES - 11 + 20, ord("!")), "content: dns: expected TXT of 65 bytes"),
        (lambda _, right: [right[:7] + b"\0" + right[8:]], "protocol: malformed"),
    ],
    ids=["refused", "servfail", "query", "no-aa", "name", "cut", "text", "count"],
)
def test_a_wrong_answer_is_a_failure_by_its_kind_and_never_completes(carrier, change, kind):
    with Wrong(change) as server:
        report = run(spec_of(server.port, carrier=carrier, outstanding=3, warmup_s=0.0, run_s=0.15, qnames="unique"))
    assert report.facts["answered"] == 0
    assert report.samples == b""
    assert report.attempted == sum(report.failed.values()) > 0
    if "zZ" in kind:  # each name is another one
        assert all(each.startswith("content: dns: expected an answer about *.load") for each in report.failed)
    else:
        assert all(each.startswith(kind) for each in report.failed), report.failed
        assert len(report.failed) == 1


def test_lost_answers_are_counted_and_never_repeated():
    names = []

    def change(number, right):
        names.append(right[13:29])
        return [] if number % 4 == 0 else [right]

    with Wrong(change) as server:
        report = run(spec_of(server.port, outstanding=4, warmup_s=0.0, run_s=0.5, deadline_s=0.1, qnames="unique"))
        end = time.monotonic() + 20
        while len(names) < report.attempted and time.monotonic() < end:  # the server may be behind with the last ones
            time.sleep(0.01)
    assert set(report.failed) == {"no answer"}
    assert report.facts["lost"] == report.failed["no answer"] >= report.attempted // 4 - 2
    assert len(names) == len(set(names)) >= report.attempted


def test_a_late_answer_is_lost_and_unexpected():
    late = []

    def change(number, right):
        late.append(right)
        return [] if number % 2 else late[-2:]

    with Wrong(change) as server:
        report = run(
            spec_of(server.port, outstanding=1, warmup_s=0.0, run_s=0.6, deadline_s=0.1),
            lambda report: "no answer" in report.failed and report.facts["unexpected"],
        )
    assert report.failed["no answer"] > 0
    assert report.facts["unexpected"] > 0
    assert report.facts["answered"] + report.facts["lost"] <= report.attempted + 1  # asked before the run, at most one


def test_answers_to_nobody_and_twice_are_unexpected():
    with Wrong(lambda _, right: [b"\xff\xff" + right[2:], right, right]) as server:
        report = run(spec_of(server.port, outstanding=1, run_s=0.2))
    assert report.facts["answered"] > 0
    assert report.facts["unexpected"] >= report.facts["answered"]


def test_a_connection_that_ends_fails_its_queries_and_is_opened_again():
    with Wrong(lambda number, right: [b""] if number % 5 == 4 else [right]) as server:
        report = run(spec_of(server.port, carrier="tcp", outstanding=1, warmup_s=0.0, run_s=1.5))
    assert set(report.failed) <= {"talk closed", "talk reset"}
    assert report.failed
    assert report.facts["answered"] > 0
    assert report.peers["127.0.0.1"] >= 2


def test_a_truncated_answer_by_tcp_is_a_failure():
    with Wrong(lambda _, right: [right[:2] + b"\x87" + right[3:]]) as server:
        report = run(spec_of(server.port, carrier="tcp", outstanding=1, run_s=0.1))
    assert set(report.failed) == {"truncated by TCP"}


def test_a_query_that_fell_back_is_lost_if_nobody_answers_by_tcp():
    with Wrong(lambda _, right: [right[:2] + b"\x87" + right[3:]] if len(right) < 512 else []) as server:
        server.refuse()
        report = run(spec_of(server.port, outstanding=2, warmup_s=0.0, run_s=0.3))
    assert set(report.failed) == {"connect refused"}
    assert report.facts["truncated"] >= report.attempted
    assert report.facts["answered"] == 0


def test_a_server_that_does_not_keep_up_with_a_rate_is_told():
    wait = threading.Event()

    def slowly(_, right):
        wait.wait(0.02)
        return [right]

    with Wrong(slowly) as server:
        report = run(spec_of(server.port, qps=400.0, run_s=0.5, deadline_s=0.3))
    assert report.facts["answered"] < 100
    if "not sent in time" not in report.failed:  # else this machine did not either
        (note,) = [each for each in report.notes if each.endswith("the server or the path did not keep up")]
        assert " queries a second were answered" in note


def test_a_client_that_is_behind_is_told_and_its_queries_count(ports, monkeypatch):
    monkeypatch.setattr("pytest_ipperf.agent.flows.dns.load._GRACE_S", 0.0)
    report = run(spec_of(port_of(ports, "nameserver"), qps=2e6, run_s=0.1, warmup_s=0.0))
    assert report.failed["not sent in time"] > 0
    assert report.attempted == pytest.approx(2e5, rel=0.05)
    assert any("its own host or link bounds this figure" in note for note in report.notes)
