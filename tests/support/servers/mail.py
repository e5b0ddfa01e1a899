"""An SMTP server for one connection (RFC 5321), for scripted servers."""

from __future__ import annotations

import socket
from collections.abc import Callable


def serve_mail(
    conn: socket.socket,
    queued: bytes = b"250 2.0.0 Ok: queued as 1\r\n",
    note: Callable[[bytes], object] = lambda _: None,
    bye: bytes = b"221 Bye\r\n",
) -> None:
    """Serve one session until QUIT; `queued` is the reply to each message.

    `note` is called with each line, of commands and messages, before the reply to it. Without `bye` the server leaves
    QUIT unanswered and waits until the client closes.
    """
    conn.sendall(b"220 mail.ipperf.test ESMTP\r\n")
    in_message = False
    with conn.makefile("rb") as lines:
        while line := lines.readline():
            note(line)
            if in_message:
                if line == b".\r\n":
                    in_message = False
                    conn.sendall(queued)
            elif line == b"DATA\r\n":
                in_message = True
                conn.sendall(b"354 go on\r\n")
            elif line != b"QUIT\r\n":
                conn.sendall(b"250 Ok\r\n")
            elif bye:
                conn.sendall(bye)
                return
