"""Servers at fault. A copy of this file on the shelf, called `silent_smtp`, is a server of SMTP that is silent.

Each takes its part of a transaction by rote, but for one thing.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.core.script import Script
from pytest_ipperf.servers.base import Entry, Server, Site


class Faulty(Server):
    """One process and one thread, called as its file is."""

    embedded = True
    apt = ""
    probe = (b"", b"")  # ready as soon as it listens, whatever it is going to say

    def __init__(self, module: str) -> None:
        self._module = module
        self.name = module.rpartition(".")[2]
        self.protocol = self.name.rpartition("_")[2]

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "0"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("script", site.script.to_bytes(), 0o644),)

    def argv(self, site: Site) -> Sequence[str]:
        order = {"addresses": site.addresses, "port": site.port, "script": f"{site.folder}/script"}
        return ("python", "-m", self._module, json.dumps(order))


class Talk(asyncio.Protocol):
    """One connection, faultless. `number` counts those of its address family, from 1."""

    pause_s = 0.0
    """Before each connection is accepted; those that wait are in the kernel's queue."""

    transport: asyncio.Transport

    def __init__(self, script: Script, family: int, number: int) -> None:
        self.script = script
        self.family = family
        self.number = number
        self.turn = 0
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.begin()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        ending, answer = self.script.turns[self.turn]
        if self.heard.endswith(ending):
            self.turn, self.heard = self.turn + 1, b""
            self.answer(answer)

    @property
    def halfway(self) -> bool:
        """Whether this turn is the one in the middle of the transaction."""
        return self.turn == (len(self.script.turns) + 1) // 2

    def begin(self) -> None:
        self.transport.write(self.script.greeting)

    def answer(self, text: bytes) -> None:
        self.transport.write(text)
        if self.turn == len(self.script.turns):
            self.transport.close()

    def reset(self) -> None:
        """By RST, as a machine does that has forgotten the connection."""
        never_linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, never_linger)
        self.transport.abort()


class Silent(Talk):
    """Never answers."""

    def begin(self) -> None:
        pass

    def answer(self, text: bytes) -> None:
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


class Garbage(Talk):
    """Answers noise, never the same twice."""

    def begin(self) -> None:
        if self.script.greeting:
            self.answer(b"")

    def answer(self, text: bytes) -> None:
        self.transport.write(random.randbytes(40) + b"\r\n")


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


class Slow(Talk):
    """Takes its time to accept a connection."""

    pause_s = 0.01


async def _accept(talk: type[Talk], script: Script, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    number = 0
    while True:
        await asyncio.sleep(talk.pause_s)
        sock, _ = await loop.sock_accept(listener)
        number += 1
        await loop.connect_accepted_socket(lambda: talk(script, listener.family, number), sock)  # noqa: B023 - now


async def _serve(talk: type[Talk], script: Script, listeners: Sequence[socket.socket]) -> None:
    await asyncio.gather(*(_accept(talk, script, listener) for listener in listeners))


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, backlog=4096)
    listener.settimeout(0)
    return listener


def main(name: str, argv: Sequence[str]) -> None:
    """Serves until SIGTERM; the only argument is the order of `argv` above, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    order = json.loads(argv[0])
    (talk,) = (each for each in (*Talk.__subclasses__(), Tenth6) if name.startswith(f"{each.__name__.lower()}_"))
    script = Script.from_bytes(Path(order["script"]).read_bytes())
    asyncio.run(_serve(talk, script, [_listener(address, order["port"]) for address in order["addresses"]]))


server = Faulty(__spec__.name)

if __name__ == "__main__":
    main(server.name, sys.argv[1:])
