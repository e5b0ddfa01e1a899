"""Bursts and runs against real servers on both loopback addresses, with scripted replies, wrong ones too."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import random
import socket
import struct
import threading
import time
from collections import Counter

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.samples import packed
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.sockets.target import RETRY_S, Target
from pytest_ipperf.core.measurement.path_proof import ExpectedPath, proof_violations
from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES, Conversation
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.nameserver import answers, reply
from tests.support.servers.mail import serve_mail
from tests.support.servers.tcp import StreamServer, family_of, refusing_port, reset, silent_listener, wait_for_client
from tests.support.servers.udp import DatagramServer, refusing_datagrams

ADDRESSES = ("127.0.0.1", "::1")
NAME = "mail.ipperf.test"
PACKETS = {"ipv4": 10**6, "ipv6": 10**6}
FOUR = f"content: dns: expected A 127.0.0.1 for {NAME}, seen "
SIX = f"content: dns: expected AAAA ::1 for {NAME}, seen "

both_families = pytest.mark.parametrize("address", ADDRESSES)


def name_server(address, answer=None, found=None):
    """Return a UDP name server; `answer` returns the reply to each query, or nothing."""
    known = answers({NAME: (address,) if found is None else found})
    return DatagramServer(address, lambda query, _: filter(None, [answer(query) if answer else reply(query, known)]))


def smtp(conn, number):
    """Serve as a mail server while the client stays; `number` is the connection's."""
    serve_mail(conn, b"250 2.0.0 Ok: queued as %X\r\n" % number)


def resets(conn, _):
    conn.sendall(b"220 hello\r\n")
    conn.recv(100)
    reset(conn)


def closes(conn, _):
    conn.sendall(b"220 hello\r\n")
    conn.recv(100)
    conn.shutdown(socket.SHUT_RDWR)


def talks_garbage(conn, _):
    conn.sendall(b"\x80\x00garbage\n")
    wait_for_client(conn)


def burst(address, port, resolver_port, n=1, *, deadline_s=10.0, payload=1000, source=None, ident=0):
    protocol = application("smtp")
    state = protocol.filled(ServerState(), payload)
    own = address if source is None else source
    target = Target(family_of(address), (address, resolver_port), NAME, port, own, (address,))
    ipver = 6 if ":" in address else 4
    talks = [protocol.conversation(state, index, ipver) for index in range(n)]
    made = Burst(target, talks, deadline_s, ident)
    made.run()
    return made


def spec(address, port, resolver_port, **changed):
    settings = {
        "protocol": "smtp", "client": "lean", "payload_bytes": 1000, "connections": 5, "bursts": 1,
        "ipver": 6 if ":" in address else 4, "resolver": address, "resolver_port": resolver_port, "name": NAME,
        "port": port, "source": address, "deadline_s": 10.0, "ident": 0,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


def rows_of(data):
    values = list(struct.iter_unpack(f"{len(PHASES)}d", data))
    return [dict(zip(PHASES, row, strict=True)) for row in values]


def failures(made):
    return Counter(each.failure for each in made.connections)


def contradictions(address, result):
    """Return the contradictions that the path proof finds in a run that was to go to `address`."""
    expected = ExpectedPath(ipver=6 if ":" in address else 4, client=address, server=address, exclusive=False)
    completed = len(rows_of(result.rows))
    seen = {
        **dataclasses.asdict(result),
        "completed": completed,
        "packets": PACKETS,
        "protocol41": {},
        "bare_ipv6": None,
    }
    return proof_violations(expected, seen)


def descriptors():
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more


@pytest.fixture(autouse=True)
def _no_descriptor_is_left(request):
    if "isolated" in request.fixturenames:
        request.getfixturevalue("isolated")("")  # starts the server of forks, whose descriptors stay
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    assert descriptors() <= before


@both_families
@pytest.mark.parametrize("n", [1, 50])
def test_every_connection_completes_and_its_phases_are_in_order(address, n):
    with StreamServer(address, smtp) as server, name_server(address) as resolver:
        made = burst(address, server.port, resolver.port, n)
    assert failures(made) == {"": n}
    rows = rows_of(packed(made.connections, made.began))
    assert len(rows) == n
    for row in rows:
        assert 0 < row["dns"] <= row["connect"] <= row["first_byte"] <= row["total"] <= 10
        assert 0 <= row["start"] < 10
    assert [row["start"] for row in rows] == sorted(row["start"] for row in rows)
    assert {each.peer for each in made.connections} == {address}
    assert made.sources == {address}


@both_families
def test_n_at_once_really_is_at_once(address):
    with StreamServer(address, smtp) as server, name_server(address) as resolver:
        made = burst(address, server.port, resolver.port, 50)
        assert failures(made) == {"": 50}
    assert server.peak == server.accepted == 50


@both_families
def test_the_source_may_be_left_to_the_host(address):
    with StreamServer(address, smtp) as server, name_server(address) as resolver:
        made = burst(address, server.port, resolver.port, 2, source="")
    assert failures(made) == {"": 2}
    assert made.sources == {address}


@both_families
@pytest.mark.parametrize(
    ("talk", "failure"),
    [
        (resets, "talk reset"),
        (closes, "talk closed"),
        (talks_garbage, "protocol: "),
    ],
)
def test_a_server_that_breaks_off_is_a_failure_by_kind(address, talk, failure):
    with StreamServer(address, talk) as server, name_server(address) as resolver:
        made = burst(address, server.port, resolver.port, 5)
    assert all(each.failure.startswith(failure) for each in made.connections), failures(made)
    assert packed(made.connections, made.began) == b""


@both_families
def test_a_refused_connection_is_a_failure_by_kind(address):
    with refusing_port(address) as port, name_server(address) as resolver:
        made = burst(address, port, resolver.port, 5)
    assert failures(made) == {"connect refused": 5}


@both_families
def test_a_server_without_an_answer_costs_the_deadline_and_no_more(address):
    with StreamServer(address, wait_for_client) as server, name_server(address) as resolver:
        begun = time.monotonic()
        made = burst(address, server.port, resolver.port, 5, deadline_s=1.0)
        took = time.monotonic() - begun
    assert failures(made) == {"talk deadline": 5}
    assert 1.0 <= took < 30


def test_a_server_that_never_accepts_costs_the_deadline():
    with silent_listener(backlog=0) as port, name_server("127.0.0.1") as resolver:
        made = burst("127.0.0.1", port, resolver.port, 5, deadline_s=1.0)
    found = failures(made)
    # The kernel itself accepts one or two into the queue, which then receive nothing.
    assert set(found) == {"connect deadline", "talk deadline"}
    assert found["connect deadline"] >= 3


@both_families
def test_every_tenth_reset_leaves_the_others_their_figures(address):
    def sometimes(conn, number):
        (resets if number % 10 == 9 else smtp)(conn, number)

    with StreamServer(address, sometimes) as server, name_server(address) as resolver:
        result = load(spec(address, server.port, resolver.port, connections=30))
    assert result.attempted == 30
    assert result.failed == {"talk reset": 3}
    assert len(rows_of(result.rows)) == 27
    assert contradictions(address, result) == []


@both_families
def test_every_tenth_sent_elsewhere_leaves_the_others_their_figures(address, repeat_after):
    repeat_after(60.0)
    other = "2001:db8::9" if address == "::1" else "127.0.0.9"
    known, elsewhere = (answers({NAME: (found,)}) for found in (address, other))
    asked = []

    def sometimes(query):
        asked.append(query)
        return reply(query, elsewhere if len(asked) % 10 == 0 else known)

    with StreamServer(address, smtp) as server, name_server(address, sometimes) as resolver:
        result = load(spec(address, server.port, resolver.port, connections=30))
    assert result.failed == {f"{SIX}AAAA {other}" if address == "::1" else f"{FOUR}A {other}": 3}
    assert len(rows_of(result.rows)) == 27
    assert result.peers == {address: 27}  # nobody connected
    assert contradictions(address, result) == []


@both_families
def test_a_silent_resolver_is_asked_again_and_then_given_up(address, repeat_after):
    repeat_after(0.2, 60.0)
    with name_server(address, lambda _: b"") as resolver:
        begun = time.monotonic()
        result = load(spec(address, 9, resolver.port, connections=3, deadline_s=1.2))
        took = time.monotonic() - begun
    assert result.failed == {"dns deadline": 3}
    assert result.dns_retries == 3
    assert result.peers == {}
    assert len(resolver.heard) == 6
    assert 1.2 <= took < 30


@both_families
def test_a_lost_datagram_costs_the_resolvers_patience(address, repeat_after):
    repeat_after(RETRY_S[0], 60.0)
    known, asked = answers({NAME: (address,)}), []

    def loses_the_first(query):
        asked.append(query)
        return reply(query, known) if len(asked) > 1 else b""

    with StreamServer(address, smtp) as server, name_server(address, loses_the_first) as resolver:
        made = burst(address, server.port, resolver.port)
    assert failures(made) == {"": 1}
    assert made.dns_retries == 1
    (row,) = rows_of(packed(made.connections, made.began))
    assert row["dns"] >= 1
    assert asked[0] == asked[1]


def test_a_name_that_does_not_exist_is_a_failure_by_kind():
    with name_server("127.0.0.1", found=()) as resolver, name_server("127.0.0.1") as other:
        assert failures(burst("127.0.0.1", 9, resolver.port)) == {f"{FOUR}no record": 1}
        resolver.answer = lambda query, _: [reply(query, answers({"www.ipperf.test": ("127.0.0.1",)}))]
        assert failures(burst("127.0.0.1", 9, resolver.port)) == {"dns NXDOMAIN": 1}
        other.answer = lambda query, _: [query[:2] + b"\x81\x80" + b"\xff" * 20]
        assert failures(burst("127.0.0.1", 9, other.port)) == {"dns malformed": 1}


@both_families
def test_a_resolver_that_is_not_there_is_a_failure_by_kind(address):
    with refusing_datagrams(address) as port:
        assert failures(burst(address, 9, port)) == {"dns refused": 1}


def test_an_answer_to_another_question_is_not_taken():
    known = answers({NAME: ("127.0.0.1",)})

    def other_number(query):
        return bytes([query[0] ^ 1]) + reply(query, known)[1:]

    with name_server("127.0.0.1", other_number) as resolver:
        assert failures(burst("127.0.0.1", 9, resolver.port, deadline_s=0.3)) == {"dns deadline": 1}


def record(query, rtype, data):
    """Return a reply with one record of that type, whatever the query."""
    return query[:2] + struct.pack("!5H", 0x8500, 1, 1, 0, 0) + query[12:] + struct.pack("!HHHIH", 0xC00C, rtype, 1, 0,
        len(data)) + data  # fmt: skip


def test_an_address_of_the_other_family_is_no_address():
    with name_server("::1", lambda query: record(query, dns.TYPE_A, b"\x7f\0\0\1")) as resolver:
        assert failures(burst("::1", 9, resolver.port)) == {f"{SIX}A 127.0.0.1": 1}
    with name_server("127.0.0.1", lambda query: record(query, dns.TYPE_AAAA, bytes(15) + b"\1")) as resolver:
        assert failures(burst("127.0.0.1", 9, resolver.port)) == {f"{FOUR}AAAA ::1": 1}
    # A record of type A that holds an IPv6 address.
    with name_server("127.0.0.1", lambda query: record(query, dns.TYPE_A, bytes(15) + b"\1")) as resolver:
        assert failures(burst("127.0.0.1", 9, resolver.port)) == {"dns malformed": 1}


def test_an_address_that_is_not_the_servers_is_not_connected_to():
    """An AAAA record of ::ffff:127.0.0.1 would make an IPv6 socket use IPv4."""
    mapped = socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.1")
    with (
        StreamServer("127.0.0.1", smtp) as server,
        name_server("::1", lambda query: record(query, dns.TYPE_AAAA, mapped)) as resolver,
    ):
        result = load(spec("::1", server.port, resolver.port, connections=2))
    assert result.failed == {f"{SIX}AAAA ::ffff:127.0.0.1": 2}
    assert (result.peers, server.accepted) == ({}, 0)


@pytest.mark.parametrize("source", ["::1", ""])
def test_ipv4_in_the_clothes_of_ipv6_is_caught(source):
    """The address ::ffff:127.0.0.1 makes an IPv6 socket use IPv4: it must not count as IPv6."""
    with StreamServer("127.0.0.1", smtp) as server:
        to = {"resolver": "", "name": "::ffff:127.0.0.1"}
        result = load(spec("::1", server.port, 0, connections=2, source=source, **to))
    assert result.peers == {"::ffff:127.0.0.1": 2}
    assert "expected connections to ::1, seen to ::ffff:127.0.0.1" in contradictions("::1", result)
    if source:  # a socket with an IPv6 address cannot even connect
        assert result.rows == b""
        assert result.failed == {"connect unreachable": 2}


def test_a_source_address_that_is_not_here_is_a_failure_by_kind():
    result = load(spec("127.0.0.1", 9, 9, source="192.0.2.1", connections=2))
    assert result.failed == {"dns no source address": 2}
    assert result.sources == []


@both_families
def test_a_large_message_is_sent_whole_to_a_slow_reader(address):
    """One server reads slowly, and the others must not wait for it."""
    sizes, quick, ended = [], threading.Semaphore(0), threading.Event()

    def slow(conn, number):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        conn.sendall(b"220 hello\r\n")
        for _ in range(3):
            conn.recv(1000)
            conn.sendall(b"250 Ok\r\n")
        conn.recv(1000)
        conn.sendall(b"354 go on\r\n")
        if number == 0:
            ended.wait(20)  # no byte of the message is read until all others are done
        message = b""
        while not message.endswith(b"\r\n.\r\n"):
            message += conn.recv(1 << 20)
        sizes.append(len(message))
        conn.sendall(b"250 Ok: queued\r\n")
        quick.release()
        if len(sizes) == 4:
            ended.set()
        wait_for_client(conn)

    with StreamServer(address, slow) as server, name_server(address) as resolver:
        made = burst(address, server.port, resolver.port, 5, payload=1 << 20)
        ended.set()
    assert failures(made) == {"": 5}
    assert sizes == [(1 << 20) + 3] * 5


@pytest.mark.parametrize("payload", [1000, 1 << 23])
def test_the_rest_of_a_message_that_the_kernel_has_no_room_for_waits_for_no_acknowledgement(payload, monkeypatch):
    """The server reads none of the message until the client has sent what it could."""
    at_once, sent = [], threading.Event()
    send, complete = Burst._send, Burst._complete

    def reads_late(conn, _):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        for said in (b"220 hello\r\n", b"250 Ok\r\n", b"250 Ok\r\n", b"250 Ok\r\n"):
            conn.sendall(said)
            conn.recv(1000)
        conn.sendall(b"354 go on\r\n")
        sent.wait(20)
        message = b""
        while not message.endswith(b"\r\n.\r\n"):
            message += conn.recv(1 << 20)
        conn.sendall(b"250 Ok: queued\r\n")
        wait_for_client(conn)

    def sends(made, connection, data):
        send(made, connection, data)
        if len(data) >= payload:
            sent.set()

    def asked(made, connection, *args):
        at_once.append(connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return complete(made, connection, *args)

    monkeypatch.setattr(Burst, "_send", sends)
    monkeypatch.setattr(Burst, "_complete", asked)
    with StreamServer("127.0.0.1", reads_late) as server, name_server("127.0.0.1") as resolver:
        made = burst("127.0.0.1", server.port, resolver.port, 1, payload=payload)
    assert failures(made) == {"": 1}
    assert at_once == [payload > 1000]  # lockstep, and the rest of a message


@pytest.mark.parametrize("lockstep", [False, True])
def test_only_a_conversation_in_lockstep_is_left_to_nagles_algorithm(lockstep, monkeypatch):
    at_once = []

    class Hello(Reader):
        __slots__ = ()

    Hello.lockstep = lockstep
    complete = Burst._complete

    def asked(made, connection, *args):
        at_once.append(bool(connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        return complete(made, connection, *args)

    def talk(conn, _):
        conn.sendall(b"x")
        wait_for_client(conn)

    monkeypatch.setattr(Burst, "_complete", asked)
    with StreamServer("127.0.0.1", talk) as server:
        made = Burst(Target(socket.AF_INET, None, "127.0.0.1", server.port, ""), [Hello("little", Counter())], 30.0, 0)
        made.run()
    assert failures(made) == {"": 1}
    assert at_once == [not lockstep]


def test_a_server_that_answers_before_it_has_heard_all_is_heard():
    done = threading.Event()

    def refuses(conn, _):
        conn.sendall(b"220 hello\r\n")
        for _ in range(3):
            conn.recv(1000)
            conn.sendall(b"250 Ok\r\n")
        conn.recv(1000)
        conn.sendall(b"354 go on\r\n")
        conn.recv(1000)
        conn.sendall(b"552 too much\r\n")
        done.wait(20)

    with StreamServer("127.0.0.1", refuses) as server, name_server("127.0.0.1") as resolver:
        made = burst("127.0.0.1", server.port, resolver.port, payload=8 << 20)
        done.set()
    ((failure, _),) = failures(made).items()
    assert failure.startswith("protocol: ")
    assert "552 too much" in failure


def test_a_large_message_to_one_who_does_not_read_ends_at_the_deadline():
    ended = threading.Event()

    def deaf(conn, _):
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        conn.sendall(b"220 hello\r\n")
        for _ in range(3):
            conn.recv(1000)
            conn.sendall(b"250 Ok\r\n")
        conn.recv(1000)
        conn.sendall(b"354 go on\r\n")
        ended.wait(60)

    with StreamServer("127.0.0.1", deaf) as server, name_server("127.0.0.1") as resolver:
        made = burst("127.0.0.1", server.port, resolver.port, 3, payload=8 << 20, deadline_s=1.0)
        ended.set()
    assert failures(made) == {"talk deadline": 3}


MANY = """
import pathlib, socket
from test_epoll_client import *
with (
    StreamServer("127.0.0.1", wait_for_client) as busy,
    StreamServer("127.0.0.1", smtp) as server,
    name_server("127.0.0.1") as resolver,
):
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40049")
    for _ in range(40):  # closed here first, so that each keeps its port for a minute
        socket.create_connection(("127.0.0.1", busy.port)).close()
    print(dict(failures(burst("127.0.0.1", server.port, resolver.port, 40))))
"""


def test_ports_of_connections_closed_a_moment_ago_are_no_loss(isolated):
    """A port in TIME_WAIT blocks one connection to the same server and no other."""
    assert isolated(MANY) == "{'': 40}"


@both_families
def test_load_repeats_bursts_and_adds_them_up(address, repeat_after):
    repeat_after(60.0)
    with StreamServer(address, smtp) as server, name_server(address) as resolver:
        result = load(spec(address, server.port, resolver.port, bursts=3, connections=4, ident=65530))
    assert server.accepted == len(resolver.heard) == 12
    assert len(rows_of(result.rows)) == result.attempted == 12
    assert result.failed == {}
    assert result.families == ["AF_INET6" if ":" in address else "AF_INET"]
    assert result.peers == {address: 12}
    assert result.sources == [address]
    assert result.dns_retries == 0
    assert result.cpu_s > 0
    assert result.wall_s > 0
    assert contradictions(address, result) == []
    assert gc.isenabled()


def test_who_fails_by_the_deadline_makes_no_burst_longer():
    """Waiting for the deadline is no work, and would make the client seem idle."""

    def some(conn, number):
        (smtp if number % 2 else wait_for_client)(conn, number)

    with StreamServer("127.0.0.1", some) as server, name_server("127.0.0.1") as resolver:
        result = load(spec("127.0.0.1", server.port, resolver.port, connections=6, bursts=1, deadline_s=1.5))
    assert result.failed == {"talk deadline": 3}
    assert 0 < result.wall_s < 1.5


def test_load_ends_after_three_bursts_in_a_row_that_nobody_answers():
    with refusing_port() as port, name_server("127.0.0.1") as resolver:
        result = load(spec("127.0.0.1", port, resolver.port, bursts=100))
    assert (result.attempted, result.failed) == (15, {"connect refused": 15})


@both_families
@pytest.mark.parametrize("name", ["aiosmtpd", "aiohttp"])
def test_real_servers_serve_a_burst(address, name):
    recipe = SERVERS[name]
    if missing := recipe.missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    protocol = application(recipe.protocol)
    zone, state = {protocol.host: ADDRESSES}, protocol.filled(ServerState(), 1000)
    with private_folder() as folder, contextlib.ExitStack() as stack:
        ports = {}
        for each in ("nameserver", name):
            ports[each] = free_port([address], 20000, 29999, random.Random())
            site = Site(str(folder / each), (address,), ports[each], 50, state, zone)
            instance = ServerProcess(SERVERS[each], site)
            stack.callback(instance.stop)
            instance.start()
        result = load(spec(address, ports[name], ports["nameserver"], protocol=recipe.protocol, name=protocol.host,
                             connections=50))  # fmt: skip
    assert result.failed == {}
    assert len(rows_of(result.rows)) == 50
    assert contradictions(address, result) == []


class Endless(socket.socket):
    """A socket on which more data has always arrived."""

    def recvmsg(self, bufsize, *_):
        return bytes(bufsize), [], 0, None


class Reader(Conversation):
    """Conversation that receives until another one has received something, for at most a million times."""

    __slots__ = ("_heard", "_name")

    def __init__(self, name, heard):
        super().__init__()
        self._name, self._heard = name, heard

    def first_bytes(self):
        return b""

    def receive_data(self, _):
        self._heard[self._name] += 1
        self.finished = self._heard["little"] > 0
        self.trouble = "never a turn" * (self._heard["much"] == 10**6)
        return b""


def test_one_whose_peer_is_faster_than_the_client_leaves_the_others_their_turn(monkeypatch):
    heard: Counter[str] = Counter()
    kinds = iter([Endless, socket.socket])

    def socket_for(target, kind):
        return next(kinds)(target.family, kind | socket.SOCK_NONBLOCK)

    def talk(conn, _):
        conn.sendall(b"x")
        wait_for_client(conn)

    monkeypatch.setattr("pytest_ipperf.agent.load.lean.epoll_client.bare_socket", socket_for)
    with StreamServer("127.0.0.1", talk) as server:
        target = Target(socket.AF_INET, None, "127.0.0.1", server.port, "")
        made = Burst(target, [Reader("much", heard), Reader("little", heard)], 30.0, 0)
        made.run()
    assert failures(made) == {"": 2}
