"""aiohttp.web: an embedded HTTP server of the page; each connection is closed after its answer."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pytest_ipperf.servers.base import ACCEPTED_AT_ONCE, Entry, Listener, Server, Site, tree


class Aiohttp(Server):
    """Embedded HTTP server of one process and one thread."""

    name = "aiohttp"
    protocol = "http"
    embedded = True
    apt = "python3-aiohttp"
    packages = ("aiohttp",)
    probe = (b"GET /index.html HTTP/1.1\r\nHost: www.ipperf.test\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200 ")

    def missing(self) -> str:
        return "" if find_spec("aiohttp") else "aiohttp is not installed for this Python (pip install aiohttp)"

    def version(self) -> str:
        return version("aiohttp")

    def entries(self, site: Site) -> Sequence[Entry]:
        return tuple(tree("pages", {"/index.html": site.state.content, **site.state.pages}))

    def argv(self, site: Site) -> Sequence[str]:
        config = {"addresses": site.addresses, "port": site.port, "pages": ["/index.html", *site.state.pages]}
        return ("python", "-m", __name__, json.dumps(config))


async def _serve(addresses: Sequence[str], port: int, pages: Mapping[str, bytes]) -> None:
    from aiohttp import web  # noqa: PLC0415 - a host without it must still be able to read the recipe

    async def answer(request: web.Request) -> web.Response:
        response = web.Response(body=pages[request.path], content_type="text/html")
        response.force_close()
        return response

    application = web.Application()
    for path in pages:
        application.router.add_get(path, answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    for address in addresses:
        await web.SockSite(runner, Listener(address, port), backlog=ACCEPTED_AT_ONCE).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Aiohttp.argv`, as JSON."""
    config = json.loads(argv[0])
    pages = {path: Path(f"pages{path}").read_bytes() for path in config["pages"]}
    asyncio.run(_serve(config["addresses"], config["port"], pages))


server = Aiohttp()

if __name__ == "__main__":
    main(sys.argv[1:])
