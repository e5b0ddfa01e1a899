"""Server recipe: how a server program is configured and started. It runs nothing itself; the agent on a host does.

Recipes travel to hosts (standard library only, Python 3.10), except for the packages of the embedded servers,
which they look for and name when they are missing.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState

# Not on the PATH of an ordinary user of Debian.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SILENT = CannedReplies(b"", ())
_NOTHING = ServerState()


@dataclass(frozen=True)
class Site:
    """Where one disposable instance lives and what it is to hold.

    `folder` is private to the instance and absolute; `addresses` are what it listens on, with one `port` for all.
    `connections` is the largest number of clients at once. `state` is what it holds; `data` is the folder with its
    `provisions`, if it has any. `ports` is the range from which further listeners draw (FTP's data connections).
    `zone` maps host names to their addresses, for name servers. `canned_replies` is what the null server says.
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

    `owner` and `group` are names of the host's users; None keeps the agent's own.
    """

    path: str
    content: bytes | None = None
    mode: int = 0o755
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that a server has accepted and keeps in a file, by the sender in its envelope (RFC 5321, MAIL FROM)."""

    path: Path
    sender: str


class Server(ABC):
    """A recipe for one server program."""

    name: str
    protocol: str
    embedded: bool
    """Whether it is a Python server that comes with the project instead of the host's own program."""
    apt: str
    """The Debian package that brings it, for the sentence about a missing program."""
    probe: tuple[bytes, bytes]
    """What readiness means: bytes to send after connecting (may be empty) and how the answer must begin."""
    packages: tuple[str, ...] = ()
    """The distributions of an embedded server. A host that lacks them is sent them: `missing` asks for nothing else."""
    datagram: bool = False
    """Whether it is asked by UDP; others are asked by TCP."""
    reserve: bool = False
    """Whether, unless it is named, it serves only where no other program for its protocol can run."""
    provisioned: bool = False
    """Whether it has `provisions`."""
    keeps: bool = False
    """Whether it keeps the messages that it accepts (see `kept`), without which its protocol cannot be measured."""

    @abstractmethod
    def missing(self) -> str:
        """Why it cannot run on this host for this user, as the end of a sentence; empty where it can."""

    @abstractmethod
    def version(self) -> str:
        """The program's version, as its results name it: `3.7.11`."""

    @abstractmethod
    def entries(self, site: Site) -> Sequence[Entry]:
        """Folders and files, parents first."""

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        """What is laid out only once, in a folder of its own that outlives the instance, parents first: mailboxes.

        No run may change what a later one finds there.
        """
        del folder, state
        return ()

    @abstractmethod
    def argv(self, site: Site) -> Sequence[str]:
        """The foreground command.

        An embedded server is `("python", "-m", module, *arguments)`: the agent fills in the interpreter and the path to
        the code that travelled.
        """

    def kept(self, site: Site) -> Iterable[Kept]:
        """List the messages that it has accepted and that nobody has removed; only read between runs."""
        del site
        return ()

    def message(self, path: Path) -> bytes:
        """Return a kept message: trace headers of its own first, then what was sent; lines may end in LF alone."""
        return path.read_bytes()

    def busy(self, site: Site) -> str:
        """What still goes on after a run (a queue that drains), as a few words; empty when quiet."""
        del site
        return ""


def zone_at(zone: Mapping[str, Sequence[str]], address: str) -> dict[str, tuple[str, ...]]:
    """The zone as a name server tells it at one of its own addresses.

    A name that has the address has no other of its family there: a server with several leads each arm, which all look
    up one name, to the address at which that arm has asked. Other names have all of theirs.
    """
    return {
        name: tuple(
            each for each in found if each == address or address not in found or (":" in each) != (":" in address)
        )
        for name, found in zone.items()
    }


def tree(folder: str, files: Mapping[str, bytes]) -> Iterator[Entry]:
    """Entries of a folder with files by their paths below it, such as `/a/index.html`, and the folders between."""
    yield Entry(folder)
    made = set()
    for path, content in files.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            between = "/".join((folder, *parts[:depth]))
            if between not in made:
                made.add(between)
                yield Entry(between)
        yield Entry("/".join((folder, *parts)), content, 0o644)


def maildirs(folder: str, state: ServerState, owner: str | None) -> Iterator[Entry]:
    """Entries of a folder with a mailbox (Maildir) for each account, by its name.

    The messages are read ones: what is new, a server would move at the first look at it. They are kept as Unix keeps
    text, with LF alone, and servers put the CR back. All belongs to `owner` and its group; None: to the agent's own.
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


def program(*names: str) -> str:
    """The path of the first of these programs that this host has; empty when it has none."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    return next((found for name in names if (found := shutil.which(name, path=path))), "")


@cache
def words(*argv: str) -> str:
    """What a short command prints; empty when it cannot be started or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def true_root() -> bool:
    """Whether this process is root of the machine and not of a user namespace, which has no other users to become."""
    if os.geteuid() != 0:
        return False
    try:
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    except FileNotFoundError:  # a kernel without user namespaces
        return True
