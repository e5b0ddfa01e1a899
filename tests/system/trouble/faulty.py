"""Servers at fault. A file of the registry called `silent_smtp` with a `Faulty` is a server of SMTP that is silent.

Each takes its part of a transaction from canned replies, but for one thing. In the registry it keeps the messages that
it accepts, as each server of SMTP has to. `served` has one in a thread of its own, which keeps none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from pytest_ipperf.core.portable.dns import TYPE_A
from pytest_ipperf.core.portable.reply_script import DATA_PORT, CannedReplies
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.servers import aiosmtpd
from pytest_ipperf.servers.base import Entry, Kept, Server, Site
from pytest_ipperf.servers.nameserver import answers, reply


class Faulty(Server):
    """One process and one thread, called as its file is."""

    embedded = True
    apt = ""
    probe = (b"", b"")  # ready as soon as it listens, whatever it is going to say

    def __init__(self, module: str) -> None:
        self._module = module
        self.name = module.rpartition(".")[2]
        self.protocol = self.name.rpartition("_")[2]
        self.keeps = self.protocol == "smtp"

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "0"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("script", site.canned_replies.to_bytes(), 0o644), *aiosmtpd.server.entries(site))

    def kept(self, site: Site) -> Iterable[Kept]:
        return aiosmtpd.server.kept(site)

    def argv(self, site: Site) -> Sequence[str]:
        (kept,) = aiosmtpd.server.entries(site)
        config = {"addresses": site.addresses, "port": site.port, "script": f"{site.folder}/script"}
        config["kept"] = f"{site.folder}/{kept.path}"
        return ("python", "-m", self._module, json.dumps(config))


_MAIL = b"MAIL FROM:<"


class Talk(asyncio.Protocol):
    """One connection, faultless. `number` counts those of its address family, from 1."""

    pause_s = 0.0
    """Before each connection is accepted; those that wait are in the kernel's queue."""
    keep: aiosmtpd.Keep | None = None
    """Where accepted messages are kept."""

    transport: asyncio.Transport

    def __init__(self, script: CannedReplies, family: int, number: int) -> None:
        self.script = script
        self.family = family
        self.number = number
        self.turn = 0
        self.sender = b""
        self.heard = b""
        self.asked = b""
        self.listener: socket.socket | None = None
        self.transfer: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.transfer:
            self.transfer.cancel()
        if self.listener:
            self.listener.close()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        ending, answer = self.script.turns[self.turn]
        if not self.heard.endswith(ending):
            return
        self.asked, self.heard = self.heard, b""
        tag = self.asked.split(maxsplit=1)[0]
        if self.asked.endswith(b" CAPABILITY\r\n"):  # the library's own wish
            self.transport.write(b"* CAPABILITY IMAP4rev1\r\n%b OK done\r\n" % tag)
            return
        if self.asked.startswith(_MAIL):
            self.sender = self.asked.removeprefix(_MAIL).rstrip(b">\r\n")
        self.turn += 1
        self.answer(re.sub(rb"(?m)^a\d(?= )", tag, answer))

    @property
    def halfway(self) -> bool:
        """Whether this turn is the one in the middle of the transaction."""
        return self.turn == (len(self.script.turns) + 1) // 2

    def begin(self) -> None:
        self.transport.write(self.script.greeting)

    def answer(self, text: bytes) -> None:
        if DATA_PORT in text:
            text = text.replace(DATA_PORT, b"%d" % self.listen())
        if text.startswith(b"150 "):
            said, _, done = text.partition(b"\n")
            self.transport.write(said + b"\n")
            self.transfer = asyncio.ensure_future(self._moved(done))
            return
        if self.keep and b" queued as " in text:
            self.keep.write(self.sender.decode(), self.asked.removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n."))
        self.transport.write(text)
        if self.turn == len(self.script.turns):
            self.transport.close()

    def listen(self) -> int:
        """A port for the data, on which a connection is waited for."""
        self.listener = _listener(self.transport.get_extra_info("sockname")[0], 0)
        port: int = self.listener.getsockname()[1]
        return port

    async def _moved(self, done: bytes) -> None:
        assert self.listener
        sock, _ = await asyncio.get_running_loop().sock_accept(self.listener)
        with sock, contextlib.suppress(OSError):
            await self.move(sock, self.script.data or b"", done)

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        """Sends all of the data and says so."""
        await asyncio.get_running_loop().sock_sendall(sock, data)
        sock.close()
        self.transport.write(done)

    def reset(self) -> None:
        """By RST, as a machine does that has forgotten the connection."""
        _never_linger(self.transport.get_extra_info("socket"))
        self.transport.abort()


def _never_linger(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Silent(Talk):
    """Never answers."""

    def begin(self) -> None:
        pass

    def answer(self, text: bytes) -> None:
        pass


class Greets(Talk):
    """Greets and says no more."""

    def data_received(self, data: bytes) -> None:
        pass


class Resets(Talk):
    """Resets the connection in the middle of an answer."""

    def answer(self, text: bytes) -> None:
        if self.halfway:
            self.transport.write(text[: len(text) // 2])
            self.reset()
        else:
            super().answer(text)


class Closes(Talk):
    """Closes the connection in the middle of an answer."""

    def answer(self, text: bytes) -> None:
        if self.halfway:
            self.transport.write(text[: len(text) // 2])
            self.transport.close()
        else:
            super().answer(text)


def noise(number: int) -> bytes:
    """Never the same twice, nor a reply that goes on in further lines."""
    return random.Random(number).randbytes(40).replace(b"-", b"+")


class Garbage(Talk):
    """Answers noise."""

    def begin(self) -> None:
        if self.script.greeting:
            self.answer(b"")

    def answer(self, text: bytes) -> None:
        self.transport.write(noise(self.number) + b"\r\n")


class Tenth(Talk):
    """Refuses every tenth connection: resets it at once."""

    def begin(self) -> None:
        if self.number % 10:
            super().begin()
        else:
            self.reset()


class Tenth6(Tenth):
    """Refuses every tenth connection over IPv6, and none over IPv4."""

    def begin(self) -> None:
        if self.family == socket.AF_INET6:
            super().begin()
        else:
            Talk.begin(self)


REFUSALS: Mapping[str, tuple[bytes, bytes]] = {
    "ftp": (b"PASS ", b"530 Login incorrect.\r\n"),
    "http": (b"GET ", b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
    "imap": (b" LOGIN ", b"%b NO [UNAVAILABLE] try later\r\n"),
    "smtp": (b"MAIL ", b"451 4.3.0 try later\r\n"),
}
"""What is refused, and in which words."""
# As many come first to see whether the accounts are there.
_WELCOME = 10


class Denies(Talk):
    """Refuses every tenth by its protocol's own word, but for the first ten."""

    def answer(self, text: bytes) -> None:
        words = [words for asked, words in REFUSALS.values() if asked in self.asked[:40]]
        if words and self.number % 10 == 0 and self.number > _WELCOME:
            self.transport.write(words[0].replace(b"%b", self.asked.split(maxsplit=1)[0]))
        else:
            super().answer(text)


class Denies6(Denies):
    """The same over IPv6, and none over IPv4."""

    def answer(self, text: bytes) -> None:
        (super().answer if self.family == socket.AF_INET6 else super(Denies, self).answer)(text)


class Dies(Talk):
    """Ends its process when it is spoken to."""

    def data_received(self, data: bytes) -> None:
        os._exit(3)


class Leaves(Talk):
    """Says goodbye in the middle of an answer (IMAP's BYE)."""

    def answer(self, text: bytes) -> None:
        if self.halfway:
            self.transport.write(text.partition(b"\n")[0] + b"\n* BYE shutting down\r\n")
            self.transport.close()
        else:
            super().answer(text)


class Counts(Talk):
    """Announces a literal that has one byte more than what follows."""

    def answer(self, text: bytes) -> None:
        super().answer(re.sub(rb"\{(\d+)\}", lambda size: b"{%d}" % (int(size[1]) + 1), text))


class Shortens(Talk):
    """Announces a literal as it should be and gives less."""

    def answer(self, text: bytes) -> None:
        begun, mark, rest = text.partition(b"}\r\n")
        super().answer(begun + mark + rest[7:] if mark else text)


class Differs(Talk):
    """Gives other content of the same length."""

    def answer(self, text: bytes) -> None:
        super().answer(text.replace(b"quick", b"quiet"))

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await super().move(sock, data.replace(b"quick", b"quiet"), done)


class Differs6(Differs):
    """The same over IPv6, and the right content over IPv4."""

    def answer(self, text: bytes) -> None:
        (super().answer if self.family == socket.AF_INET6 else super(Differs, self).answer)(text)


_LENGTH = re.compile(rb"\r\nContent-Length: \d+")


class Empties(Talk):
    """Answers with a page that is empty."""

    def answer(self, text: bytes) -> None:
        head = _LENGTH.sub(b"\r\nContent-Length: 13", text).partition(b"\r\n\r\n")[0]
        super().answer(head + b"\r\n\r\n<html></html>")


class Halves(Talk):
    """Ends a page, whose length it does not tell, after half of it."""

    def answer(self, text: bytes) -> None:
        head, end, page = _LENGTH.sub(b"", text).partition(b"\r\n\r\n")
        super().answer(head + end + page[: len(page) // 2])


class NoListener(Talk):
    """Names a port for the data where nobody listens."""

    def listen(self) -> int:
        self.listener = socket.socket(self.family)
        self.listener.bind((self.transport.get_extra_info("sockname")[0], 0))
        port: int = self.listener.getsockname()[1]
        return port


class NoAccept(Talk):
    """Never accepts the connection for the data, which the kernel does in its place."""

    async def _moved(self, done: bytes) -> None:
        pass


class NoData(Talk):
    """Accepts the connection for the data and sends none."""

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await asyncio.get_running_loop().sock_recv(sock, 1)


class DataResets(Talk):
    """Resets the connection for the data in the middle."""

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(sock, data[: len(data) // 2])
        _never_linger(sock)


class Truncates(Talk):
    """Says that all went well after half of the data."""

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await super().move(sock, data[: len(data) // 2], done)


class Aborts(Talk):
    """Says after half of the data that it was not all."""

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await super().move(sock, data[: len(data) // 2], b"426 Connection closed; transfer aborted.\r\n")


class CannotOpen(Talk):
    """Says that there is no connection for the data."""

    def answer(self, text: bytes) -> None:
        super().answer(b"425 No data connection.\r\n" if text.startswith(b"150 ") else text)


class NoWord(Talk):
    """Sends all of the data and does not say so."""

    async def move(self, sock: socket.socket, data: bytes, done: bytes) -> None:
        await super().move(sock, data, b"")


class Slow(Talk):
    """Takes its time to accept a connection."""

    pause_s = 0.02


async def _accept(talk: type[Talk], script: CannedReplies, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    number = 0
    while True:
        await asyncio.sleep(talk.pause_s)
        sock, _ = await loop.sock_accept(listener)
        number += 1
        await loop.connect_accepted_socket(lambda: talk(script, listener.family, number), sock)  # noqa: B023 - now


# --- by datagrams -----------------------------------------------------------------------------------------------------


def _flagged(message: bytes, flags: int) -> bytes:
    """A response with other flags (RFC 1035, section 4.1.1), and nothing but the question."""
    return message[:2] + struct.pack("!HHHHH", flags, 1, 0, 0, 0) + message[12:]


def _right(query: bytes, address: str) -> bytes:
    """Answer as the name server should that is asked at this address; the other family's is nowhere."""
    hosts = [protocol.host for protocol in map(application, applications())]
    other = "192.0.2.1" if ":" in address else "2001:db8::1"
    return reply(query, answers(dict.fromkeys(hosts, (address, other))))


def _other_family(query: bytes, address: str) -> bytes:
    """The answer has the record of the other address family."""
    at = query.index(b"\0", 12) + 1
    asked = struct.unpack_from("!H", query, at)[0]
    turned = bytearray(query)
    struct.pack_into("!H", turned, at, 29 - asked)
    assert {asked, 29 - asked} == {TYPE_A, 28}
    return _right(bytes(turned), address)


def _asked(query: bytes) -> int:
    """Return the type that is asked for."""
    found: int = struct.unpack_from("!H", query, query.index(b"\0", 12) + 1)[0]
    return found


def _misled(query: bytes) -> bytes:
    return _right(query, "192.0.2.9" if _asked(query) == TYPE_A else "2001:db8::9")


def _aged(query: bytes, address: str) -> bytes:
    """Answer with a TTL of 60 s in the only record."""
    response = _right(query, address)
    at = len(response) - (4 if _asked(query) == TYPE_A else 16) - 6
    return response[:at] + struct.pack("!I", 60) + response[at + 4 :]


LOOK_UPS: Mapping[str, tuple[str, Callable[[bytes, int, str], bytes]]] = {
    "silent": ("Never answers.", lambda *_: b""),
    "servfail": ("Answers SERVFAIL.", lambda query, *_: _flagged(query, 0x8402)),
    "ident": ("Answers with another identifier.", lambda query, _, at: bytes([query[0] ^ 255]) + _right(query, at)[1:]),
    "truncated": ("Answers that the answer is too long (TC).", lambda query, *_: _flagged(query, 0x8600)),
    "cut": ("Loses the answer's last bytes.", lambda query, _, at: _right(query, at)[:-2]),
    "otherfamily": ("Answers with an address of the other family.", lambda query, _, at: _other_family(query, at)),
    "elsewhere": ("Answers with the address of another machine.", lambda query, *_: _misled(query)),
    "aged": ("Answers with a record that may be kept.", lambda query, _, at: _aged(query, at)),
    "garbage": ("Answers noise with the right identifier.", lambda query, number, _: query[:2] + noise(number)),
    "denies": (
        "Refuses every tenth, but for the first ten.",
        lambda query, number, at: _right(query, at) if number % 10 or number <= _WELCOME else _flagged(query, 0x8405),
    ),
}
"""What each does, and what it makes of a query; the number counts them, from 1, and the address is its own."""


class LookUps(asyncio.DatagramProtocol):
    """A name server at fault."""

    def __init__(self, answer: Callable[[bytes, int, str], bytes]) -> None:
        self._answer = answer
        self._numbers: dict[tuple[object, bytes], int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # which it does not say itself in Python 3.11

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        # One that is asked again, as the answer was late, is the same.
        number = self._numbers.setdefault((addr, data[:2]), len(self._numbers) + 1)
        if said := self._answer(data, number, self._transport.get_extra_info("sockname")[0]):
            self._transport.sendto(said, addr)


# --- how they are run -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(fault: str, script: CannedReplies | None, address: str) -> Iterator[tuple[int, set[Talk]]]:
    """A server in a thread; gives its port and its open connections. Without a script it is one of names, by UDP."""
    ready, ended, talks = threading.Event(), asyncio.Event(), set[Talk]()
    port: list[int] = []
    loop: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loop.append(asyncio.get_running_loop())
        if script is None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            end, _ = await loop[0].create_datagram_endpoint(
                lambda: LookUps(LOOK_UPS[fault][1]), local_addr=(address, 0), family=family
            )
            port.append(end.get_extra_info("sockname")[1])
            ready.set()
            await ended.wait()
            end.close()
            return
        with _listener(address, 0) as listener:
            port.append(listener.getsockname()[1])
            ready.set()
            accepting = asyncio.ensure_future(_accept(_watched(_TALKS[fault], talks), script, listener))
            await ended.wait()
            accepting.cancel()
            for talk in list(talks):
                talk.transport.abort()
            await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield port[0], talks
    finally:
        loop[0].call_soon_threadsafe(ended.set)
        thread.join(10)
        assert not thread.is_alive()


def _watched(talk: type[Talk], talks: set[Talk]) -> type[Talk]:
    class Watched(talk):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            talks.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            talks.discard(self)

    return Watched


def _kinds(of: type[Talk]) -> Iterator[type[Talk]]:
    yield of
    for each in of.__subclasses__():
        yield from _kinds(each)


_TALKS = {each.__name__.lower(): each for each in _kinds(Talk)}


async def _serve(talk: type[Talk], script: CannedReplies, listeners: Sequence[socket.socket]) -> None:
    await asyncio.gather(*(_accept(talk, script, listener) for listener in listeners))


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, backlog=4096)
    listener.settimeout(0)
    return listener


def main(name: str, argv: Sequence[str]) -> None:
    """Serves until SIGTERM; the only argument is the configuration of `argv` above, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = json.loads(argv[0])
    talk = _TALKS[name.partition("_")[0]]
    talk.keep = aiosmtpd.Keep(config["kept"])
    script = CannedReplies.from_bytes(Path(config["script"]).read_bytes())
    asyncio.run(_serve(talk, script, [_listener(address, config["port"]) for address in config["addresses"]]))
