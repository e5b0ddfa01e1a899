"""Server recipe: how a server program is configured and started. It runs nothing itself; the agent on a host does.

Recipes travel to hosts (standard library only, Python 3.10), except for the packages of the embedded servers, which
they look for and report when they are missing.
"""

from __future__ import annotations

import contextlib
import grp
import itertools
import os
import pwd
import select
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

from pytest_ipperf.core.portable.content import FileContent
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import LARGE_FILE, ServerState

_RECEIVE_BUFFER_BYTES = 8 << 20
_SO_RCVBUFFORCE = 33
# Datagrams answered on one socket before the others get their turn.
_TURN = 64
# Connections that wait in the kernel, and those that asyncio accepts before it looks at others.
_QUEUE = 4096
ACCEPTED_AT_ONCE = 128
# Folders that are not on the PATH of an ordinary user of Debian.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SILENT = CannedReplies(b"", ())
_NOTHING = ServerState()


@dataclass(frozen=True)
class Site:
    """Place and contents of one disposable server instance.

    `folder` is private to the instance and absolute; it listens on all `addresses`, with one `port`. `connections` is
    the largest number of simultaneous clients. `state` is what it serves; `data` is the folder with its `provisions`,
    if it has any. `ports` is the range for further listeners (FTP's data connections). `zone` maps host names to their
    addresses, for name servers. `canned_replies` are the replies of the null server.
    """

    folder: str
    addresses: tuple[str, ...]
    port: int
    connections: int
    state: ServerState = _NOTHING
    zone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    canned_replies: CannedReplies = _SILENT
    data: str = ""
    ports: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Entry:
    """A folder (`content` is None) or a file that an instance needs, relative to its site's folder.

    A large file has `FileContent`, which is written block by block.

    `owner` and `group` are names of the host's users; None keeps the agent's own.
    """

    path: str
    content: bytes | FileContent | None = None
    mode: int = 0o755
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Message that a server has accepted and keeps in a file; `sender` is from its envelope (RFC 5321, MAIL FROM).

    `whole` is the file's content, if all of it was read for the sender.
    """

    path: str
    sender: str
    whole: bytes = b""


class Server(ABC):
    """Recipe for one server program."""

    name: str
    protocol: str
    embedded: bool
    """True if it is a Python server that comes with the project, not a program of the host."""
    apt: str
    """Debian package that contains it, named when the program is missing."""
    probe: tuple[bytes, bytes]
    """Readiness probe: bytes to send after connecting (may be empty), and how the answer must begin."""
    packages: tuple[str, ...] = ()
    """Distributions of an embedded server, which are sent to hosts that lack them; `missing` asks for nothing else."""
    needs: str = ""
    """Requirements beside its packages, for the documentation, in Markdown; empty: none, and any user."""
    reserve: bool = False
    """True if it is a fallback: unless named, it serves only where no other program for its protocol can run."""
    provisioned: bool = False
    """True if it has `provisions`."""
    cached_ttl_s: int = 0
    """Largest TTL of its answers in seconds, if it is a name server that has them from a cache."""
    keeps: bool = False
    """True if it keeps the messages that it accepts (see `kept`), as a protocol that hands them over requires."""

    @abstractmethod
    def missing(self) -> str:
        """Return why it cannot run on this host for this user, as the end of a sentence; empty if it can."""

    @abstractmethod
    def version(self) -> str:
        """Return the program's version as results name it: `3.7.11`."""

    @abstractmethod
    def entries(self, site: Site) -> Sequence[Entry]:
        """Return the folders and files of an instance, parents first."""

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        """Return entries that are written once, to a folder that outlives the instance, parents first: mailboxes.

        No run may change what a later run finds there.
        """
        del folder, state
        return ()

    @abstractmethod
    def argv(self, site: Site) -> Sequence[str]:
        """Return the command that runs it in the foreground.

        An embedded server is `("python", "-m", module, *arguments)`: the agent fills in the interpreter and the path to
        the code that travelled.
        """

    def kept(self, site: Site) -> Iterable[Kept]:
        """Yield the accepted messages that nobody has removed yet; only called between runs."""
        del site
        return ()

    def message(self, kept: Kept) -> bytes:
        """Return a kept message: the server's trace headers, then the message as sent; lines may end in LF alone."""
        return kept.whole or Path(kept.path).read_bytes()

    def busy(self, site: Site) -> str:
        """Describe in a few words the work still going on after a run (a queue that drains); empty when idle."""
        del site
        return ""


def zone_at(zone: Mapping[str, Sequence[str]], address: str) -> dict[str, tuple[str, ...]]:
    """Return the zone as a name server answers at one of its own addresses.

    A name that has this address has no other of its family there: all arms look up the same name, and each is led to
    the address of the server at which it has asked. Other names keep all of their addresses.
    """
    return {
        name: tuple(
            each for each in found if each == address or address not in found or (":" in each) != (":" in address)
        )
        for name, found in zone.items()
    }


def files_of(state: ServerState, name: str) -> dict[str, bytes | FileContent]:
    """Return the files of a state by their paths: its content as `name`, its pages, and its large file."""
    large = {f"/{LARGE_FILE}": FileContent(state.file_bytes)} if state.file_bytes else {}
    return {name: state.content, **state.pages, **large}


def tree(folder: str, files: Mapping[str, bytes | FileContent]) -> Iterator[Entry]:
    """Yield entries of a folder, of files by their paths below it (`/a/index.html`), and of the folders between."""
    yield Entry(folder)
    created = set()
    for path, content in files.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            between = "/".join((folder, *parts[:depth]))
            if between not in created:
                created.add(between)
                yield Entry(between)
        yield Entry("/".join((folder, *parts)), content, 0o644)


def maildirs(folder: str, state: ServerState, owner: str | None) -> Iterator[Entry]:
    """Yield entries of a folder with a mailbox (Maildir) for each account, by its name.

    The messages are marked as read, since a server would move new ones at its first look. Lines end in LF alone, as
    Unix keeps text; servers put the CR back. All belongs to `owner` and its group; None: to the agent's own user.
    """
    group = grp.getgrgid(pwd.getpwnam(owner).pw_gid).gr_name if owner else None
    messages = [message.replace(b"\r\n", b"\n") for message in (state.content, *state.messages)]
    yield Entry(folder)
    for name in state.names:
        mailbox = f"{folder}/{name}"
        for path in (mailbox, *(f"{mailbox}/{each}" for each in ("cur", "new", "tmp"))):
            yield Entry(path, None, 0o700, owner, group)
        for number, message in enumerate(messages):
            # Servers number messages by the time with which their names begin.
            path = f"{mailbox}/cur/{1_000_000_000 + number}.M0P1.ipperf:2,S"
            yield Entry(path, message, 0o600, owner, group)


class Listener(socket.socket):
    """TCP listener for asyncio with a long queue in the kernel, whatever backlog asyncio asks for.

    asyncio attempts to accept as many connections in a row as its backlog says. If no descriptors are left, each
    attempt fails and is logged, so a backlog of thousands would hold up the connections that it has for seconds.
    """

    def __init__(self, address: str, port: int) -> None:
        super().__init__(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:
            self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.bind((address, port))

    def listen(self, backlog: int = 0, /) -> None:
        """Listen with the long queue."""
        super().listen(max(backlog, _QUEUE))


def answer_datagrams(port: int, answers: Mapping[str, Callable[[bytes], bytes]], read_bytes: int) -> NoReturn:
    """Answer datagrams for ever, by the function of the address at which each arrives; b"" is not sent.

    The first `read_bytes` of each datagram are read.
    """
    waiting, by_number = select.epoll(), {}
    for address, answer in answers.items():
        sock = datagram_socket(address, port)
        by_number[sock.fileno()] = sock, answer
        waiting.register(sock.fileno(), select.EPOLLIN)
    while True:
        for number, _ in waiting.poll():
            sock, answer = by_number[number]
            # Nothing to read, or no route back to the client: neither ends the service.
            with contextlib.suppress(OSError):
                for _ in itertools.repeat(None, _TURN):
                    question, peer = sock.recvfrom(read_bytes, socket.MSG_DONTWAIT)
                    response = answer(question)
                    if response:
                        sock.sendto(response, peer)


def datagram_socket(address: str, port: int) -> socket.socket:
    """Return a socket that receives datagrams there, with a large buffer."""
    # Without SO_REUSEADDR, which on UDP would let two servers share the port.
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    sock.bind((address, port))
    return sock


def program(*names: str) -> str:
    """Return the path of the first of these programs that this host has; empty if it has none."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    return next((found for name in names if (found := shutil.which(name, path=path))), "")


@cache
def words(*argv: str) -> str:
    """Return the output of a short command; empty if it cannot be started or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def true_root() -> bool:
    """Return whether this process is root of the machine; root of a user namespace cannot switch to other users."""
    if os.geteuid() != 0:
        return False
    try:
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    except FileNotFoundError:  # a kernel without user namespaces
        return True
