"""Conversations by datagrams, by both clients, with servers that lose, refuse and confuse."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pytest_ipperf.agent.load.lean.datagram_client import DatagramBurst
from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.samples import packed
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import PHASES, Application, Conversation
from tests.support.receive_timestamps import wait_until_stamped
from tests.support.servers.tcp import family_of
from tests.support.servers.udp import DatagramServer, refusing_datagrams

ADDRESSES = ("127.0.0.1", "::1")

both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


class Ask(Conversation):
    """A number as query, and the same number as reply."""

    __slots__ = ("_number",)

    def __init__(self, number):
        super().__init__()
        self._number = b"%d" % number

    def first_bytes(self):
        return b"ask " + self._number

    def receive_data(self, data):
        self.finished = data == b"answer " + self._number
        if data.startswith(b"no"):
            self.trouble = "reply no"
        return b""


@dataclass(frozen=True)
class Numbers(Application):
    """Protocol of these tests."""

    name: str = "numbers"
    title: str = "Numbers"
    host: str = "numbers.ipperf.test"
    source: str = ""
    ends_with: str = ""
    typical_s: float = 0.0001
    datagram: bool = True

    def content(self, payload_bytes):
        return bytes(payload_bytes)

    def conversation(self, state, index, ipver):
        del state, ipver
        return Ask(index)

    def canned_replies(self, state):
        del state
        return CannedReplies(b"", ())

    @asynccontextmanager
    async def library(self, state, *, family, source, port):
        del state, family, source, port

        async def ask(call):
            loop = asyncio.get_running_loop()
            with await call.connect() as sock:
                await loop.sock_sendall(sock, b"ask %d" % call.index)
                while await loop.sock_recv(sock, 100) != b"answer %d" % call.index:
                    pass
                call.note_end()
                await call.everyone()

        yield ask


def answered(query, _):
    return [query.replace(b"ask", b"answer")]


def burst(address, port, n=1, *, client="lean", deadline_s=10.0, source=None):
    target = Target(family_of(address), None, address, port, address if source is None else source)
    protocol = Numbers()
    made = (
        DatagramBurst(target, [Ask(index) for index in range(n)], deadline_s, 0)
        if client == "lean"
        else LibraryBurst(target, protocol, ServerState(), n, deadline_s=deadline_s, first_ident=0)
    )
    made.run()
    return made


def failures(made):
    return Counter(each.failure for each in made.connections)


def rows_of(data):
    return [dict(zip(PHASES, row, strict=True)) for row in struct.iter_unpack(f"{len(PHASES)}d", data)]


@pytest.fixture(autouse=True)
def _no_descriptor_is_left():
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more
    yield
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - as above


@both_clients
@both_families
@pytest.mark.parametrize("source", [None, ""])
def test_each_asks_by_a_socket_of_its_own_and_has_one_phase(client, address, source, repeat_after):
    repeat_after(60.0)
    with rx_timestamping(), DatagramServer(address, answered) as oracle:
        wait_until_stamped()
        made = burst(address, oracle.port, 20, client=client, source=source)
    assert failures(made) == {"": 20}
    assert sorted(oracle.heard) == sorted(b"ask %d" % index for index in range(20))
    assert {name[0] for name in oracle.peers} == {address}
    assert len({name[1] for name in oracle.peers}) == 20
    assert made.sources == {address}
    assert made.families == {family_of(address)}
    assert {each.peer for each in made.connections} == {address}
    assert 1 <= made.peak <= 20
    for row in rows_of(packed(made.connections, made.began)):
        assert row["dns"] == row["connect"] == 0
        assert 0 < row["first_byte"] == row["total"] < 10
        if client == "lean":
            assert 0 <= row["late"] < row["total"]


@both_clients
@both_families
def test_a_port_where_nobody_is_has_refused(client, address):
    with refusing_datagrams(address) as port:
        assert failures(burst(address, port, 3, client=client)) == {"talk refused": 3}


@both_families
def test_a_question_without_an_answer_is_repeated_and_then_given_up(address, repeat_after):
    repeat_after(0.2, 60.0)
    with DatagramServer(address, lambda *_: []) as oracle:
        made = burst(address, oracle.port, 3, deadline_s=1.2)
    assert failures(made) == {"talk deadline": 3}
    assert made.dns_retries == 3
    assert sorted(oracle.heard) == sorted([b"ask 0", b"ask 1", b"ask 2"] * 2)


def test_a_lost_answer_costs_the_patience():
    with DatagramServer(
        "127.0.0.1", lambda question, number: [question.replace(b"ask", b"answer")] * (number > 0)
    ) as oracle:
        made = burst("127.0.0.1", oracle.port)
    assert failures(made) == {"": 1}
    (row,) = rows_of(packed(made.connections, made.began))
    assert 1 <= row["first_byte"] == row["total"]


@both_clients
def test_what_is_no_answer_is_no_answer(client):
    def confuses(question, _):
        return [b"", b"answer x", b"x" * 1400, question.replace(b"ask", b"answer")]

    with DatagramServer("127.0.0.1", confuses) as oracle:
        assert failures(burst("127.0.0.1", oracle.port, 5, client=client)) == {"": 5}


def test_an_answer_that_says_no_is_a_failure_by_kind():
    with DatagramServer("127.0.0.1", lambda *_: [b"no"]) as oracle:
        assert failures(burst("127.0.0.1", oracle.port, 5)) == {"protocol: reply no": 5}


@both_clients
def test_a_source_that_this_host_does_not_have_is_told(client):
    made = burst("127.0.0.1", 9, 2, client=client, source="192.0.2.1")
    assert failures(made) == {"talk no source address": 2}


@both_clients
@both_families
def test_load_does_it_for_a_protocol_by_datagrams(client, address, monkeypatch):
    for room in ("worker", "limits"):
        monkeypatch.setattr(f"pytest_ipperf.agent.load.{room}.application", {"numbers": Numbers()}.get)
    with DatagramServer(address, answered) as oracle:
        spec = LoadSpec(
            protocol="numbers", client=client, payload_bytes=100, connections=5, bursts=3,
            ipver=6 if ":" in address else 4, resolver="", resolver_port=0, name=address, port=oracle.port,
            source=address, deadline_s=10.0, ident=0,
        )  # fmt: skip
        told = load(spec)
    assert told.failed == {}
    assert len(rows_of(told.rows)) == told.attempted == 15
    assert told.families == ["AF_INET6" if ":" in address else "AF_INET"]
    assert told.peers == {address: 15}
    assert told.sources == [address]
