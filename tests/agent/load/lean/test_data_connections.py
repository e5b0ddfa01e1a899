"""Conversations with a data connection, against servers with scripted replies, wrong ones too."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import time
from collections import Counter

import pytest

from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.samples import packed
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.protocols.base import PHASES, Conversation
from tests.support.servers.tcp import StreamServer, family_of, reset

ADDRESSES = ("127.0.0.1", "::1")

both_families = pytest.mark.parametrize("address", ADDRESSES)


class Fetch(Conversation):
    """Fetch a file several times, each time on a data connection to the port that the server names."""

    __slots__ = ("_ended", "_heard", "_said", "_times", "sizes")

    closing_bytes = b"QUIT\n"

    def __init__(self, times=1):
        super().__init__()
        self._times = times
        self._heard = self._said = b""
        self._ended = False
        self.sizes = [0]

    def first_bytes(self):
        return b""

    def receive_data(self, data):
        self._heard += data
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            if line.startswith(b"port "):
                self.data_port = int(line[5:])
            else:
                self._said = line
        return self._go_on()

    def data_connection_opened(self):
        return b"RETR\n"

    def receive_from_data_connection(self, data):
        self.sizes[-1] += len(data)
        self._ended = not data
        return self._go_on()

    def _go_on(self):
        if self._said.startswith(b"550"):
            self.trouble = "reply 550"
        if not (self._ended and self._said == b"226"):
            return b""
        self._ended, self._said = False, b""
        if len(self.sizes) == self._times:
            self.finished = True
            return b""
        self.sizes.append(0)
        return b"AGAIN\n"


class Files(StreamServer):
    """A server of files; `give` handles a file's transfer: both connections and the number."""

    def __init__(self, address, give, listens=lambda _: True):
        super().__init__(address, self._files)
        self._address, self._give, self._listens = address, give, listens
        self.data_names, self.quits = [], 0

    def _files(self, conn, number):
        with conn.makefile("rb") as lines:
            while True:
                self._transfer(conn, lines, number)
                if (line := lines.readline()) != b"AGAIN\n":
                    self.quits += line == b"QUIT\n"
                    return

    def _transfer(self, conn, lines, number):
        listener = socket.socket(family_of(self._address))
        with listener:
            listener.bind((self._address, 0))
            if self._listens(number):
                listener.listen()
            conn.sendall(b"port %d\n" % listener.getsockname()[1])
            if not self._listens(number):
                lines.readline()
                return
            data, name = listener.accept()
        with data:
            self.data_names.append(name)
            if lines.readline() == b"RETR\n":
                self._give(conn, data, number)


def sends(size):
    """Return a transfer of that size, followed by the final reply."""

    def give(conn, data, _):
        data.sendall(bytes(size))
        data.shutdown(socket.SHUT_RDWR)
        conn.sendall(b"226\n")

    return give


def resets(_, data, __):
    reset(data)


def burst(address, port, n=1, times=1, deadline_s=10.0, **settings):
    target = Target(family_of(address), None, address, port, address)
    made = Burst(target, [Fetch(times) for _ in range(n)], deadline_s, 0, **settings)
    made.run()
    return made


def failures(made):
    return Counter(each.failure for each in made.connections)


def descriptors():
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more


@pytest.fixture(autouse=True)
def _no_descriptor_is_left():
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    assert descriptors() <= before


@both_families
@pytest.mark.parametrize(("n", "size", "times"), [(30, 10_000, 1), (30, 1, 3), (3, 5_000_000, 2), (2, 0, 2)])
@pytest.mark.parametrize("hold", [True, False])
def test_files_come_whole_by_connections_of_their_own(address, n, size, times, hold):
    with Files(address, sends(size)) as server:
        made = burst(address, server.port, n, times, hold=hold)
    assert failures(made) == {"": n}
    assert [each.conversation.sizes for each in made.connections] == [[size] * times] * n
    assert made.sources == {address}
    assert made.families == {family_of(address)}
    assert {each.peer for each in made.connections} == {address}
    assert {name[0] for name in server.peers + server.data_names} == {address}
    assert len({name[1] for name in server.peers}) == n  # connections to the same port come from different ones
    assert len(server.data_names) == n * times
    assert server.quits == n


@both_families
def test_the_figure_is_that_of_the_last_word(address):
    def give(conn, data, _):
        time.sleep(0.1)
        data.sendall(b"x")
        data.shutdown(socket.SHUT_RDWR)
        time.sleep(0.1)
        conn.sendall(b"226\n")

    with Files(address, give) as server:
        made = burst(address, server.port)
    (row,) = [dict(zip(PHASES, row, strict=True)) for row in struct.iter_unpack(
        f"{len(PHASES)}d", packed(made.connections, made.began))]  # fmt: skip
    assert 0 < row["connect"] <= row["first_byte"] <= row["total"] - 0.2
    assert 0 <= row["late"] < row["total"]  # the final reply came on the control connection, where the kernel stamps


def test_a_word_that_comes_before_the_files_end_is_no_end():
    def give(conn, data, _):
        conn.sendall(b"226\n")
        time.sleep(0.1)
        data.sendall(b"x" * 1000)
        data.shutdown(socket.SHUT_RDWR)

    with Files("127.0.0.1", give) as server:
        made = burst("127.0.0.1", server.port, 3, times=2)
    assert failures(made) == {"": 3}
    assert [each.conversation.sizes for each in made.connections] == [[1000, 1000]] * 3


@both_families
def test_a_data_port_on_which_nobody_listens_is_a_failure_by_kind(address):
    with Files(address, sends(1), listens=lambda _: False) as server:
        assert failures(burst(address, server.port, 5)) == {"data refused": 5}


@both_families
def test_a_file_that_is_broken_off_is_a_failure_by_kind(address):
    with Files(address, resets) as server:
        assert failures(burst(address, server.port, 5)) == {"data reset": 5}


def test_a_file_that_does_not_come_costs_the_deadline_and_no_more():
    def give(conn, _, __):
        conn.recv(100)

    with Files("127.0.0.1", give) as server:
        begun = time.monotonic()
        assert failures(burst("127.0.0.1", server.port, 5, deadline_s=1.0)) == {"data deadline": 5}
        assert 1.0 <= time.monotonic() - begun < 30


def test_a_file_after_which_no_word_comes_costs_the_deadline():
    def give(_, data, __):
        data.shutdown(socket.SHUT_RDWR)

    with Files("127.0.0.1", give) as server:
        assert failures(burst("127.0.0.1", server.port, 5, deadline_s=1.0)) == {"talk deadline": 5}


@pytest.mark.parametrize(("word", "failure"), [(b"550\n", "protocol: reply 550"), (b"", "talk closed")])
def test_the_first_connections_end_is_the_end_of_both(word, failure):
    closed = []

    def give(conn, data, _):
        conn.sendall(word)
        if not word:
            conn.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(ConnectionResetError):
            closed.append(data.recv(100))

    with Files("127.0.0.1", give) as server:
        assert failures(burst("127.0.0.1", server.port, 5)) == {failure: 5}
    assert closed == [b""] * 5


def test_failures_of_some_leave_the_others_their_files():
    """Descriptors are opened and closed within a batch of events, and none may be taken for another."""
    whole = sends(20_000)

    def give(conn, data, number):
        if number % 10 == 3:
            resets(conn, data, number)
        elif number % 10 == 6:
            conn.sendall(b"550\n")
        else:
            whole(conn, data, number)

    with Files("127.0.0.1", give, listens=lambda number: number % 10 != 9) as server:
        made = burst("127.0.0.1", server.port, 60, hold=False)
    assert failures(made) == {"": 42, "data reset": 6, "data refused": 6, "protocol: reply 550": 6}
    assert {tuple(each.conversation.sizes) for each in made.connections if not each.failure} == {(20_000,)}


@pytest.mark.parametrize("port", [65536, 99999, -1])
def test_a_port_that_does_not_exist_is_the_servers_failure(port):
    def talk(conn, _):
        conn.sendall(b"port %d\n" % port)
        conn.recv(100)

    with StreamServer("127.0.0.1", talk) as server:
        assert failures(burst("127.0.0.1", server.port)) == {f"protocol: data port {port}": 1}


def test_no_descriptor_for_the_file_is_a_failure_by_kind(monkeypatch):
    def none(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("pytest_ipperf.agent.load.lean.data_connections.bare_socket", none)
    with Files("127.0.0.1", sends(1), listens=lambda _: False) as server:
        assert failures(burst("127.0.0.1", server.port, 2)) == {"data out of file descriptors": 2}
