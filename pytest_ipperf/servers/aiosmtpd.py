"""aiosmtpd: an embedded SMTP server that takes every message, answers as Postfix does, and forgets it."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

from pytest_ipperf.servers.base import Entry, Server, Site

_BACKLOG = 4096
_TIMEOUT_S = 300


class Aiosmtpd(Server):
    """One process and one thread; nothing is stored, so nothing can be relayed."""

    name = "aiosmtpd"
    protocol = "smtp"
    embedded = True
    apt = "python3-aiosmtpd"
    packages = ("aiosmtpd",)
    probe = (b"", b"220 ")

    def missing(self) -> str:
        return "" if find_spec("aiosmtpd") else "aiosmtpd is not installed for this Python (pip install aiosmtpd)"

    def version(self) -> str:
        return version("aiosmtpd")

    def entries(self, site: Site) -> Sequence[Entry]:
        del site
        return ()

    def argv(self, site: Site) -> Sequence[str]:
        return ("python", "-m", __name__, json.dumps({"addresses": site.addresses, "port": site.port}))


class _Discard:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def handle_DATA(self, *_: object) -> str:  # noqa: N802 - the name that aiosmtpd calls
        return f"250 2.0.0 Ok: queued as {next(self._numbers):08X}"


async def _serve(addresses: Sequence[str], port: int) -> None:
    from aiosmtpd.smtp import SMTP  # noqa: PLC0415 - a host without it must still be able to read the recipe

    loop = asyncio.get_running_loop()
    handler = _Discard()

    def connected() -> SMTP:
        return SMTP(handler, hostname="mail.ipperf.test", data_size_limit=0, timeout=_TIMEOUT_S, loop=loop)

    for address in addresses:
        await loop.create_server(connected, address, port, backlog=_BACKLOG, reuse_address=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


def main(argv: Sequence[str]) -> None:
    """Serves until SIGTERM; the only argument is the order of `argv` above, as JSON."""
    order = json.loads(argv[0])
    asyncio.run(_serve(order["addresses"], order["port"]))


server = Aiosmtpd()

if __name__ == "__main__":
    main(sys.argv[1:])
