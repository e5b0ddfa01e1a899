"""Bursts by aiohttp and aiosmtplib against real servers on both loopback addresses, and against hostile ones."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import random
import signal
import socket
import struct
import threading
import time
from collections import Counter
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.load.samples import packed
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from tests.support.servers.mail import serve_mail
from tests.support.servers.tcp import StreamServer, family_of, refusing_port, reset, silent_listener, wait_for_client
from tests.support.servers.udp import refusing_datagrams, silent_socket

ADDRESSES = ("127.0.0.1", "::1")
HOSTS = {application(name).host: ADDRESSES for name in ("http", "smtp")}
ONLY_IPV4 = "four.ipperf.test"
PAYLOAD = {"http": 10_000, "smtp": 1000}

both_families = pytest.mark.parametrize("address", ADDRESSES)
both_protocols = pytest.mark.parametrize("name", ["http", "smtp"])


@contextlib.contextmanager
def running(server, protocol="", connections=100):
    recipe = SERVERS[server]
    if missing := recipe.missing():
        pytest.skip(f"{server} cannot run here: {missing}")
    spoken: dict[str, Any] = {}
    if protocol:
        state = application(protocol).filled(ServerState(), PAYLOAD[protocol])
        spoken = {"state": state, "canned_replies": application(protocol).canned_replies(state)}
    with private_folder() as folder:
        port = free_port(ADDRESSES, 20000, 29999, random.Random())
        zone = {**HOSTS, ONLY_IPV4: ADDRESSES[:1]}
        instance = ServerProcess(recipe, Site(str(folder / server), ADDRESSES, port, connections, zone=zone, **spoken))
        instance.start()
        try:
            yield port
        finally:
            instance.stop()


@pytest.fixture(scope="module")
def resolver():
    with running("nameserver") as port:
        yield port


GREETING = b"220 mail.ipperf.test ESMTP\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10000\r\n\r\n"
SHORT = PAGE.replace(b"10000", b"100")


def first(conn, said):
    """Send the server's first bytes: a greeting, or a reply to the client's request."""
    if said == GREETING:
        conn.sendall(said)
    conn.recv(4096)


def resets(conn, said):
    first(conn, said)
    reset(conn)


def closes(conn, said):
    first(conn, said)
    conn.shutdown(socket.SHUT_RDWR)


def half(conn, said):
    """Send a page without its end, or no answer to EHLO."""
    first(conn, said)
    if said == PAGE:
        conn.sendall(PAGE + b"<html>")
    conn.shutdown(socket.SHUT_RDWR)


def endless(conn, said):
    """Send a complete page of wrong content, or a reply that never ends."""
    first(conn, said)
    if said == PAGE:
        conn.sendall(SHORT + b"x" * 100)
    wait_for_client(conn)


WORDS = {"http": PAGE, "smtp": GREETING}


def burst(name, address, port, resolver, n=1, **settings):
    protocol = application(name)
    made_for = {
        "deadline_s": 10.0,
        "first_ident": 65500,
        "host": protocol.host,
        "payload": PAYLOAD[name],
        "source": address,
    }
    made_for |= settings
    host, payload, source = (made_for.pop(key) for key in ("host", "payload", "source"))
    asked = (address, resolver) if resolver else None
    target = Target(family_of(address), asked, host if resolver else address, port, source, (address,))
    made = LibraryBurst(target, protocol, protocol.filled(ServerState(), payload), n, **made_for)
    made.run()
    return made


def failures(made):
    return Counter(each.failure for each in made.connections)


def descriptors():
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """Exclude objects of other tests from the garbage collections below.

    They stay excluded: `gc.unfreeze` would return the collected tests too, of which all later collections, those of
    measurements as well, would take tens of milliseconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_descriptor_is_left(resolver):
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    assert descriptors() <= before


@both_families
@pytest.mark.parametrize(
    ("name", "server"), [("http", "apache"), ("http", "aiohttp"), ("smtp", "postfix"), ("smtp", "aiosmtpd")]
)
def test_every_connection_completes_and_its_phases_are_in_order(name, server, address, resolver, repeat_after):
    repeat_after(60.0)
    with running(server, name) as port:
        for n in (1, 50):
            made = burst(name, address, port, resolver, n)
            assert failures(made) == {"": n}
            rows = list(struct.iter_unpack(f"{len(PHASES)}d", packed(made.connections, made.began)))
            assert len(rows) == n
            for start, dns, connect, first_byte, total, late, behind in rows:
                assert 0 <= start < 10
                assert 0 < dns <= connect <= first_byte <= total <= 10
                assert math.isnan(late)
                assert behind == 0
            assert {each.peer for each in made.connections} == made.sources == {address}
            assert made.families == {family_of(address)}
            assert made.dns_retries == 0
            assert 0 <= made.lag_s < 10
            assert 1 <= made.peak <= n


@pytest.mark.parametrize(
    ("name", "server", "address"), [("http", "aiohttp", ADDRESSES[0]), ("smtp", "null", ADDRESSES[1])]
)
def test_a_thousand_at_once(name, server, address, resolver):
    with running(server, name, connections=1000) as port:
        made = burst(name, address, port, resolver, 1000, deadline_s=60.0)
    assert failures(made) == {"": 1000}
    assert made.peak > 10


@both_families
@both_protocols
def test_without_a_resolver_nothing_is_looked_up(name, address):
    with running("null", name) as port:
        made = burst(name, address, port, None, 5, source="")
    assert failures(made) == {"": 5}
    assert all(each.resolved == each.opened for each in made.connections)
    assert {each.peer for each in made.connections} == made.sources == {address}


@both_families
@both_protocols
def test_a_refused_connection_is_a_failure_by_kind(name, address, resolver):
    with refusing_port(address) as port:
        made = burst(name, address, port, resolver, 5)
    assert failures(made) == {"connect refused": 5}
    assert {each.peer for each in made.connections} == {address}


@both_families
@pytest.mark.parametrize(
    ("name", "talk", "failure"),
    [
        ("http", resets, "talk reset"),
        ("smtp", resets, "talk reset"),
        ("http", closes, "talk closed"),
        ("smtp", closes, "talk closed"),
        ("http", half, "talk closed"),
        ("http", endless, "content: expected 10000 bytes, seen 100 in Content-Length"),
    ],
)
def test_a_server_that_breaks_off_is_a_failure_by_kind(name, talk, failure, address, resolver):
    with StreamServer(address, lambda conn, _: talk(conn, WORDS[name])) as peer:
        made = burst(name, address, peer.port, resolver, 5)
    assert failures(made) == {failure: 5}
    assert packed(made.connections, made.began) == b""


@pytest.mark.parametrize(
    ("name", "said", "failure"),
    [
        ("http", b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
         "protocol: reply 'HTTP/1.1 503 Service Unavailable'"),
        ("http", b"\x80\x00garbage\n\r\n", "protocol: *"),
        ("smtp", b"554 go away\r\n", "protocol: reply '554 go away' to the greeting"),
        ("smtp", b"\x80\x00garbage\r\n", "protocol: reply 'Malformed SMTP response line: *garbage' to the greeting"),
        ("smtp", b"x" * 100_000, "protocol: reply 'Response too long' to the greeting"),
        ("smtp", b"220 hi\r\n500 what?\r\n", "protocol: reply '500 what?' to EHLO"),
    ],
)  # fmt: skip
def test_a_wrong_reply_is_named(name, said, failure, resolver):
    first, second = said[:8], said[8:] if said.startswith(b"220 hi") else b""
    said = first if second else said

    def talk(conn, _):
        if name == "http":
            conn.recv(4096)
        conn.sendall(said)
        if second:
            conn.recv(4096)
            conn.sendall(second)
        wait_for_client(conn)

    with StreamServer("127.0.0.1", talk) as peer:
        made = burst(name, "127.0.0.1", peer.port, resolver, 3)
    (found,) = failures(made)
    before, _, after = failure.partition("*")
    assert found.startswith(before)
    assert found.endswith(after)


def test_a_message_that_is_not_queued_has_failed(resolver):
    with StreamServer("127.0.0.1", lambda conn, _: serve_mail(conn, b"250 2.0.0 Ok\r\n")) as peer:
        made = burst("smtp", "127.0.0.1", peer.port, resolver)
    assert failures(made) == {"protocol: reply '250 2.0.0 Ok' to the message": 1}


@pytest.mark.parametrize("payload", [200, 70_000])
def test_a_message_is_the_lean_clients_to_the_byte_and_so_are_the_commands(payload, resolver):
    heard: list[bytes] = []
    with StreamServer("127.0.0.1", lambda conn, _: serve_mail(conn, note=heard.append)) as peer:
        made = burst("smtp", "127.0.0.1", peer.port, resolver, payload=payload)
    assert failures(made) == {"": 1}
    state = application("smtp").filled(ServerState(), payload)
    lean = application("smtp").conversation(state, 0, 4)
    commands = b"".join(lean.receive_data(reply) for reply in (GREETING, *[b"250 Ok\r\n"] * 3))
    assert b"".join(heard) == commands + state.content + b".\r\n" + b"QUIT\r\n"


def test_a_page_is_asked_for_by_the_servers_name(resolver):
    heard, page = [], application("http").content(PAYLOAD["http"])

    def talk(conn, _):
        heard.append(conn.recv(4096))
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + page[:-3])
        time.sleep(0.05)
        conn.sendall(page[-3:])

    with StreamServer("::1", talk) as peer:
        made = burst("http", "::1", peer.port, resolver)
    assert failures(made) == {"": 1}
    (request,) = heard
    assert request.startswith(b"GET /index.html HTTP/1.1\r\n")
    assert f"\r\nHost: www.ipperf.test:{peer.port}\r\n".encode() in request
    assert b"\r\nAccept-Encoding: identity\r\n" in request


@both_families
@both_protocols
def test_a_server_without_an_answer_costs_the_deadline_and_no_more(name, address, resolver, monkeypatch):
    """A call that is not cancelled would be waited for as long as a server that is slow to close."""
    monkeypatch.setattr("pytest_ipperf.agent.load.library_client._CLOSE_TIMEOUT_S", 60.0)
    with StreamServer(address, wait_for_client) as peer:
        begun = time.monotonic()
        made = burst(name, address, peer.port, resolver, 5, deadline_s=1.0, payload=1_000_000)
        took = time.monotonic() - begun
    assert failures(made) == {"talk deadline": 5}
    assert 1.0 <= took < 30


def test_a_large_message_that_nobody_takes_costs_the_deadline_and_leaves_nothing(resolver):
    ended = threading.Event()

    def talk(conn, _):
        conn.sendall(GREETING)
        for _ in range(3):
            conn.recv(100)
            conn.sendall(b"250 Ok\r\n")
        conn.recv(100)
        conn.sendall(b"354 go on\r\n")
        ended.wait(60)

    with StreamServer("127.0.0.1", talk) as peer:
        made = burst("smtp", "127.0.0.1", peer.port, resolver, 3, deadline_s=1.0, payload=20_000_000)
        ended.set()
    assert failures(made) == {"talk deadline": 3}


@both_protocols
def test_a_server_that_never_accepts_costs_the_deadline(name, resolver):
    with silent_listener(backlog=0) as port:
        made = burst(name, "127.0.0.1", port, resolver, 5, deadline_s=1.0)
    found = failures(made)
    # The kernel itself accepts one or two into the queue, which then receive nothing.
    assert set(found) == {"connect deadline", "talk deadline"}
    assert found["connect deadline"] >= 3


@pytest.mark.parametrize(("name", "address"), [("http", "127.0.0.1"), ("smtp", "::1")])
def test_a_silent_resolver_is_asked_again_and_then_given_up(name, address, repeat_after):
    repeat_after(0.2, 60.0)
    with silent_socket(address) as silent:
        made = burst(name, address, 9, silent.getsockname()[1], 3, deadline_s=1.0)
        silent.settimeout(0)
        heard = Counter(silent.recv(2048) for _ in range(6))
    assert failures(made) == {"dns deadline": 3}
    assert made.dns_retries == 3
    assert set(heard.values()) == {2}
    assert {int.from_bytes(query[:2], "big") for query in heard} == {65500, 65501, 65502}


@both_families
@both_protocols
def test_a_resolver_that_is_not_there_is_told(name, address):
    with refusing_datagrams(address) as port:
        assert failures(burst(name, address, 9, port, 3)) == {"dns refused": 3}


@both_protocols
@pytest.mark.parametrize(
    ("host", "address", "failure"),
    [
        ("nowhere.ipperf.test", "127.0.0.1", "dns NXDOMAIN"),
        (ONLY_IPV4, "::1", f"content: dns: expected AAAA ::1 for {ONLY_IPV4}, seen no record"),
    ],
)
def test_a_name_without_an_address_of_the_family_is_told(name, host, address, failure, resolver):
    assert failures(burst(name, address, 9, resolver, 3, host=host)) == {failure: 3}


@both_protocols
def test_a_source_that_this_host_does_not_have_is_told(name, resolver):
    assert failures(burst(name, "127.0.0.1", 9, resolver, 2, source="192.0.2.1")) == {"dns no source address": 2}


def test_every_tenth_reset_leaves_the_others_their_figures(resolver):
    content = application("http").content(PAYLOAD["http"])

    def talk(conn, number):
        if number % 10 == 9:
            resets(conn, PAGE)
        else:
            conn.recv(4096)
            conn.sendall(PAGE + content)

    with StreamServer("127.0.0.1", talk) as peer:
        made = burst("http", "127.0.0.1", peer.port, resolver, 30)
        assert peer.accepted == 30
    assert failures(made) == {"": 27, "talk reset": 3}
    assert len(packed(made.connections, made.began)) == 27 * 8 * len(PHASES)


class _Mail:
    """A mail server that records each message and each QUIT, and queues the first message late.

    No message is queued before all `sessions` have sent theirs, so all are open at once. With `hold` the first one
    waits a while, in which others could leave, and else until another has left.
    """

    def __init__(self, sessions, *, hold):
        self._hold, self._all_are_here, self._one_left = hold, threading.Barrier(sessions), threading.Event()
        self.seen: list[int | str] = []

    def talk(self, conn, number):
        def note(line):
            if line == b".\r\n":
                self._all_are_here.wait(20)
                if number == 0:
                    self._one_left.wait(0.3 if self._hold else 20)
                self.seen.append("queued")
            elif line == b"QUIT\r\n":
                self.seen.append(number)
                self._one_left.set()

        serve_mail(conn, note=note)


@pytest.mark.parametrize("hold", [True, False])
def test_nobody_leaves_before_the_last_one_has_its_figure(hold, resolver):
    mail = _Mail(5, hold=hold)
    with StreamServer("127.0.0.1", mail.talk) as peer:
        made = burst("smtp", "127.0.0.1", peer.port, resolver, 5, hold=hold, deadline_s=30.0)
    assert failures(made) == {"": 5}
    assert sorted(map(str, mail.seen)) == ["0", "1", "2", "3", "4", *["queued"] * 5]
    assert (mail.seen[:5] == ["queued"] * 5) is hold
    assert made.peak == 5


def test_a_server_that_does_not_say_goodbye_is_left_after_a_while(resolver, monkeypatch):
    monkeypatch.setattr("pytest_ipperf.agent.load.library_client._CLOSE_TIMEOUT_S", 0.2)

    with StreamServer("127.0.0.1", lambda conn, _: serve_mail(conn, bye=b"")) as peer:
        begun = time.monotonic()
        made = burst("smtp", "127.0.0.1", peer.port, resolver, 3)
        assert time.monotonic() - begun < 30  # the library would wait for a minute
    assert failures(made) == {"": 3}


@both_protocols
def test_a_signal_to_end_ends_it_at_once_by_its_own_handler(name, resolver):
    def leave(*_):
        raise SystemExit(7)

    def talk(conn, number):
        if number == 19:
            os.kill(os.getpid(), signal.SIGTERM)
        wait_for_client(conn)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with StreamServer("127.0.0.1", talk) as peer:
            # Else the burst would end at its deadline, and raise nothing.
            with pytest.raises(SystemExit, match="7"):
                burst(name, "127.0.0.1", peer.port, resolver, 20, deadline_s=60.0)
            assert signal.getsignal(signal.SIGTERM) is leave
    finally:
        signal.signal(signal.SIGTERM, before)
