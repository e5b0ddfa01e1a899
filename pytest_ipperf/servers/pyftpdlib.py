"""pyftpdlib: an embedded FTP server, whose accounts may read the same files and nothing else."""

from __future__ import annotations

import errno
import json
import logging
import random
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers.base import Entry, Server, Site, files_of, tree

_FILE = "/file.bin"
_BACKLOG = 4096
_TIMEOUT_S = 600
# Ports of the range that are tried for a data connection.
_TRIES = 32
# Seconds to wait when no descriptor is left.
_FULL_S = 0.1


class Pyftpdlib(Server):
    """Embedded FTP server of one process and one thread."""

    name = "pyftpdlib"
    protocol = "ftp"
    embedded = True
    apt = "python3-pyftpdlib"
    packages = ("pyftpdlib",)
    probe = (b"", b"220 ")
    provisioned = True

    def missing(self) -> str:
        return "" if find_spec("pyftpdlib") else "pyftpdlib is not installed for this Python (pip install pyftpdlib)"

    def version(self) -> str:
        return version("pyftpdlib")

    def entries(self, site: Site) -> Sequence[Entry]:
        del site
        return ()

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        del folder
        # Everyone may read the command line, so the password is in a file.
        accounts = json.dumps({"users": state.names, "password": state.password})
        yield Entry("accounts", accounts.encode(), 0o600)
        yield from tree("files", files_of(state, _FILE))

    def argv(self, site: Site) -> Sequence[str]:
        config = {"addresses": site.addresses, "port": site.port, "data_ports": site.ports, "data": site.data}
        return ("python", "-m", __name__, json.dumps(config))


class _Ports:
    """A few random ports of a range; pyftpdlib would copy the whole range for every data connection."""

    def __init__(self, low: int, high: int) -> None:
        self._all = range(low, high + 1)

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(self._all, min(_TRIES, len(self._all))))


def _handler(config: dict[str, Any]) -> Any:
    from pyftpdlib.authorizers import DummyAuthorizer  # noqa: PLC0415 - a host without it can still read the recipe
    from pyftpdlib.handlers import FTPHandler  # noqa: PLC0415

    data = Path(config["data"]).resolve()
    accounts = json.loads((data / "accounts").read_text(encoding="utf-8"))
    authorizer = DummyAuthorizer()
    for user in accounts["users"]:
        authorizer.add_user(user, accounts["password"], str(data / "files"), perm="elr")  # read only

    settings = {
        "authorizer": authorizer,
        "banner": "ftp.ipperf.test",
        "passive_ports": _Ports(*config["data_ports"]),
        "timeout": _TIMEOUT_S,
        "auth_failed_timeout": 0,
    }
    return type("Handler", (FTPHandler,), settings)


def _listener() -> Any:
    from pyftpdlib.servers import FTPServer  # noqa: PLC0415

    class Listener(FTPServer):  # type: ignore[misc] # it brings no types
        def handle_accept(self) -> None:
            try:
                super().handle_accept()
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
                # It would never listen again. New connections wait in the kernel meanwhile.
                self.del_channel()
                self.call_later(_FULL_S, self.add_channel)

    return Listener


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Pyftpdlib.argv`, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from pyftpdlib.ioloop import IOLoop  # noqa: PLC0415

    logger = logging.getLogger("pyftpdlib")
    logger.addHandler(logging.StreamHandler())  # otherwise pyftpdlib adds a handler that logs every session
    logger.setLevel(logging.ERROR)
    config = json.loads(argv[0])
    loop, handler, listener = IOLoop(), _handler(config), _listener()
    servers = [
        listener((address, config["port"]), handler, ioloop=loop, backlog=_BACKLOG) for address in config["addresses"]
    ]
    for server in servers:
        server.max_cons = 0  # the descriptors are the limit
    loop.loop()


server = Pyftpdlib()

if __name__ == "__main__":
    main(sys.argv[1:])
