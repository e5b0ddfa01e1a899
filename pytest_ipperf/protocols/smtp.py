"""SMTP (RFC 5321): one message sent, measured until `250 ... queued` is seen (paper 000, Table 2-1)."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.protocols.base import Conversation, Protocol

_HEADERS = b"From: <client@ipperf.test>\r\nTo: <server@ipperf.test>\r\nSubject: pytest-ipperf\r\n\r\n"
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\r\n"
# The greeting answers nothing, so the n-th reply is the answer to the n-th line of this table.
_COMMANDS = (
    ("the greeting", b"EHLO client.ipperf.test\r\n", b"2"),
    ("EHLO", b"MAIL FROM:<client@ipperf.test>\r\n", b"2"),
    ("MAIL", b"RCPT TO:<server@ipperf.test>\r\n", b"2"),
    ("RCPT", b"DATA\r\n", b"2"),
    ("DATA", b"", b"3"),
    ("the message", b"", b"2"),
)
_LAST = 5
_LONGEST_LINE = 4096  # eight times what RFC 5321, section 4.5.3.1.5 allows


class Send(Conversation):
    """One message handed over."""

    __slots__ = ("_buffer", "_message", "_step")

    goodbye = b"QUIT\r\n"

    def __init__(self, message: bytes) -> None:
        super().__init__()
        self._buffer = b""
        self._message = message
        self._step = 0

    def opening(self) -> bytes:
        return b""

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
            if line[3:4] == b"-":  # a reply of several lines ends with the line that has a space there
                continue
            said = self._reply(line)
            if said or self.finished or self.trouble:
                return said
        if len(self._buffer) > _LONGEST_LINE:
            self.trouble = f"a reply line of more than {_LONGEST_LINE} bytes"
        return b""

    def _reply(self, line: bytes) -> bytes:
        asked, following, expected = _COMMANDS[self._step]
        if line[:1] != expected or (self._step == _LAST and b"queued" not in line.lower()):
            self.trouble = f"reply {line.strip()[:80].decode('latin-1')!r} to {asked}"
            return b""
        if self._step == _LAST:
            self.finished = True
            return b""
        self._step += 1
        return self._message if self._step == _LAST else following


@dataclass(frozen=True)
class Smtp(Protocol):
    """The message, headers included, has the payload's size; the final dot comes on top."""

    name: str = "smtp"
    title: str = "SMTP"
    host: str = "mail.ipperf.test"
    source: str = "RFC 5321; paper 000, section 2.5"
    ends_with: str = "250 ... queued"
    typical_s: float = 0.0011

    def content(self, payload_bytes: int) -> bytes:
        room = payload_bytes - len(_HEADERS) - 2
        if room < 0:
            raise UsageError(
                f"payload {payload_bytes} is too small for smtp, whose message has at least {len(_HEADERS) + 2} bytes"
            )
        body = (_LINE * (room // len(_LINE) + 1))[:room]
        # A cut in the middle of CR LF would leave a bare CR, which servers refuse (RFC 5321, section 2.3.8).
        return _HEADERS + body.removesuffix(b"\r").ljust(room, b".") + b"\r\n"

    def conversation(self, content: bytes, index: int) -> Conversation:
        del index
        return Send(content + b".\r\n")


protocol = Smtp()
