"""aiosmtpd: an embedded SMTP server that accepts every message, answers as Postfix does, and keeps it in a file."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from pytest_ipperf.servers.base import ACCEPTED_AT_ONCE, Entry, Kept, Listener, Server, Site

_TIMEOUT_S = 300
_FOLDER = "kept"
# Like a server at final delivery, put the envelope's sender on top (RFC 5321, section 4.4).
_RETURN_PATH = b"Return-Path: <%s>\r\n"


class Aiosmtpd(Server):
    """Embedded SMTP server of one process and one thread; it delivers nothing, so nothing can be relayed."""

    name = "aiosmtpd"
    protocol = "smtp"
    embedded = True
    apt = "python3-aiosmtpd"
    packages = ("aiosmtpd",)
    probe = (b"", b"220 ")
    keeps = True

    def missing(self) -> str:
        return "" if find_spec("aiosmtpd") else "aiosmtpd is not installed for this Python (pip install aiosmtpd)"

    def version(self) -> str:
        return version("aiosmtpd")

    def entries(self, site: Site) -> Sequence[Entry]:
        del site
        return (Entry(_FOLDER, mode=0o700),)

    def argv(self, site: Site) -> Sequence[str]:
        config = {"addresses": site.addresses, "port": site.port, "folder": f"{site.folder}/{_FOLDER}"}
        return ("python", "-m", __name__, json.dumps(config))

    def kept(self, site: Site) -> Iterator[Kept]:
        before, after = _RETURN_PATH.split(b"%s")
        for path in Path(site.folder, _FOLDER).iterdir():
            with path.open("rb") as file:
                line = file.readline()
            yield Kept(str(path), line.removeprefix(before).removesuffix(after).decode("latin-1"))


class _Envelope(Protocol):
    mail_from: str
    content: bytes


class Keep:
    """Handler that keeps each message in a file of `folder`, named by a number.

    A descriptor is reserved for the file, so that messages can be kept even while sessions use up the process's limit.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spare = _held()
        # Continue after the numbers of an earlier server.
        self._numbers = itertools.count(1 + max((int(name, 16) for name in os.listdir(folder)), default=0))  # noqa: PTH208

    async def handle_DATA(self, server: object, session: object, envelope: _Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """Keep the message in a file, then answer as Postfix does."""
        del server, session
        name = self.write(envelope.mail_from, envelope.content)  # synchronous, as a thread would cost more
        return f"250 2.0.0 Ok: queued as {name}"

    def write(self, sender: str, content: bytes) -> str:
        """Keep a message and return its file's name; raise OSError if it cannot be written."""
        name = f"{next(self._numbers):08X}"
        os.close(self._spare)
        try:
            with open(f"{self._folder}/{name}", "xb") as file:  # noqa: PTH123 - faster
                file.write(_RETURN_PATH % sender.encode("latin-1", "replace") + content)
        finally:
            self._spare = _held()
        return name


def _held() -> int:
    """Open a descriptor that only reserves a place below the process's limit."""
    return os.open(os.devnull, os.O_RDONLY)


async def _serve(addresses: Sequence[str], port: int, folder: str) -> None:
    from aiosmtpd.smtp import SMTP  # noqa: PLC0415 - a host without it must still be able to read the recipe

    loop = asyncio.get_running_loop()
    handler = Keep(folder)

    def connected() -> SMTP:
        return SMTP(handler, hostname="mail.ipperf.test", data_size_limit=0, timeout=_TIMEOUT_S, loop=loop)

    for address in addresses:
        await loop.create_server(connected, sock=Listener(address, port), backlog=ACCEPTED_AT_ONCE)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Aiosmtpd.argv`, as JSON."""
    config = json.loads(argv[0])
    asyncio.run(_serve(config["addresses"], config["port"], config["folder"]))


server = Aiosmtpd()

if __name__ == "__main__":
    main(sys.argv[1:])
