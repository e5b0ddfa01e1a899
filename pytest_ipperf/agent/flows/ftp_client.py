"""Client of one FTP session (RFC 959, RFC 2428) that fetches a large file again and again, and compares every byte."""

from __future__ import annotations

import contextlib
import ftplib
import socket
import struct
import time
from collections.abc import Callable

from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.core.portable.content import FileContent
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import LARGE_FILE

_READ_BYTES = 2**18
_LINGER = struct.pack("ii", 1, 0)


class FtpClient(ftplib.FTP):
    """FTP session that has logged in as a stream's user; `moved` is called with the size of each piece of a file.

    Raises OSError, EOFError or ftplib.Error if a connection or a reply is wrong, LabError if content is.
    """

    def __init__(self, spec: FlowSpec, user: str, moved: Callable[[int], None]) -> None:
        super().__init__(timeout=spec.deadline_s, source_address=(spec.source, 0) if spec.source else None)
        self._content = FileContent(spec.payload_bytes)
        self._moved = moved
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._data: socket.socket | None = None
        self.connect(spec.address, spec.service.port)
        try:
            self.login(user, spec.service.password)
            self.voidcmd("TYPE I")
        except BaseException:
            self.close()
            raise

    def makepasv(self) -> tuple[str, int]:
        """Ask for a data connection by EPSV over both IP versions, at the address of the control connection."""
        assert self.sock  # noqa: S101 - it is connected
        return ftplib.parse229(self.sendcmd("EPSV"), self.sock.getpeername())  # noqa: S321 - FTP is what is measured

    def fetch(self) -> float:
        """Fetch the file once; return the seconds that it took, from RETR to 226."""
        began = time.perf_counter()
        self._data, _ = self.ntransfercmd(f"RETR {LARGE_FILE}")
        got_bytes = 0
        with self._data as data:
            while size := data.recv_into(self._buffer):
                self._moved(size)
                if wrong := self._content.difference(got_bytes, self._buffer[:size]):
                    raise LabError(f"the server at {self.host} port {self.port} sent other content: {wrong}")
                got_bytes += size
        self.voidresp()
        if got_bytes != self._content.size:
            raise EOFError(f"the file ended after {got_bytes} of {self._content.size} bytes")
        return time.perf_counter() - began

    def sockets(self) -> list[socket.socket]:
        """Return the open connections."""
        return [sock for sock in (self.sock, self._data) if sock is not None and sock.fileno() >= 0]

    def abandon(self) -> None:
        """End both connections at once, and discard what is under way; from any thread, whose own must `close`."""
        for sock in self.sockets():
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
