"""ProFTPD: a process for each connection; virtual users may read the same files and nothing else."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers.base import Entry, Server, Site, files_of, program, tree, true_root, words

_FILE = "/file.bin"
_SALT = "ipperf"
_USERS = ("nobody", "ftp", "www-data")
_NOBODY = 65534
# When a session ends while the first process waits for connections, that process sleeps twice for 0.2 s and accepts
# none. Only the first sleep is visible, and on a busy machine both last longer.
_PAUSE_S = 0.4
_DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Sessions that have ended at the client, or wait for the end of a run, are instances too.
_SPARE = 600
# No scoreboard and no controls: sessions would wait for each other's locks, and a timer would wake the master, for a
# stall each time. Without a Directory of "/" an ordinary user's instance would show all that this user can read.
_CONFIGURATION = """\
ServerName ipperf
ServerType standalone
ServerIdent on "ftp.ipperf.test"
UseIPv6 on
DefaultAddress {addresses}
SocketBindTight on
Port {port}
TCPBacklog 255
{passive}
User {user}
Group {group}
{reach}
MaxInstances {instances}
UseReverseDNS off
AuthOrder mod_auth_file.c
AuthUserFile {data}/passwd
AuthGroupFile {data}/group
RequireValidShell off
PersistentPasswd off
TimeoutLogin 300
TimeoutIdle 600
TimeoutNoTransfer 600
TimeoutStalled 300
DeferWelcome off
UseFtpUsers off
WtmpLog off
TransferLog none
SystemLog none
PidFile {folder}/pid
ScoreboardFile /dev/null
ScoreboardScrub off
<IfModule mod_auth_pam.c>
AuthPAM off
</IfModule>
<IfModule mod_ctrls.c>
ControlsEngine off
</IfModule>
<IfModule mod_ident.c>
IdentLookups off
</IfModule>
<IfModule mod_delay.c>
DelayEngine off
</IfModule>
<Limit WRITE SITE_CHMOD SITE_CHGRP>
DenyAll
</Limit>
"""
_AS_ROOT = "DefaultRoot ~"
_AS_ANYONE = """\
<Directory />
<Limit ALL>
DenyAll
</Limit>
</Directory>
<Directory {data}/home>
<Limit READ DIRS>
AllowAll
</Limit>
</Directory>
"""


class Proftpd(Server):
    """ProFTPD, as root with sessions of `nobody` in a chroot of the home, or as any other user."""

    name = "proftpd"
    protocol = "ftp"
    embedded = False
    apt = "proftpd-core"
    probe = (b"", b"220 ")
    provisioned = True

    def __init__(self) -> None:
        self._first_pids: dict[str, str] = {}
        self._last_s: dict[str, float] = {}

    def missing(self) -> str:
        if not program("proftpd"):
            return f"proftpd is not installed (Debian: apt-get install {self.apt})"
        user, group = _identity()
        try:
            pwd.getpwuid(user)
            grp.getgrgid(group)
        except KeyError:
            return f"proftpd needs names for user {user} and group {group} in /etc/passwd and /etc/group"
        return ""

    def version(self) -> str:
        found = re.search(r"\d[\w.]*", words(program("proftpd"), "-v"))
        return found[0] if found else "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("proftpd.conf", _configuration(site).encode(), 0o644),)

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        user, group = _identity()
        line = f"{{}}:{md5_crypt(state.password, _SALT)}:{user}:{group}::{folder}/home:/bin/false\n"
        yield Entry("passwd", "".join(map(line.format, state.names)).encode(), 0o600)
        yield Entry("group", f"ftp:x:{group}:\n".encode(), 0o600)
        yield from tree("home", files_of(state, _FILE))

    def argv(self, site: Site) -> Sequence[str]:
        return (program("proftpd") or "proftpd", "-n", "-c", f"{site.folder}/proftpd.conf")

    def busy(self, site: Site) -> str:
        now_s = time.monotonic()
        first = self._first_pids.get(site.folder, "")
        if not _is_first(first, site.folder):
            first = self._first_pids[site.folder] = _first(site.folder)
        if activity := _activity(first):
            self._last_s[site.folder] = now_s
        elif now_s < self._last_s.get(site.folder, -_PAUSE_S) + _PAUSE_S:
            return "its pause after a session"
        return activity


def _configuration(site: Site) -> str:
    low, high = site.ports
    user, group = _identity()
    return _CONFIGURATION.format(
        folder=site.folder,
        data=site.data,
        addresses=" ".join(site.addresses),
        port=site.port,
        passive=f"PassivePorts {low} {high}" if high else "",
        user=pwd.getpwuid(user).pw_name,
        group=grp.getgrgid(group).gr_name,
        reach=_AS_ROOT if true_root() else _AS_ANYONE.format(data=site.data),
        instances=site.connections + _SPARE,
    )


def _identity() -> tuple[int, int]:
    """Return user and group of the sessions: those of the agent, unless it is root."""
    if not true_root():
        return os.geteuid() or _NOBODY, os.getegid() or _NOBODY
    for name in _USERS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    return _NOBODY, _NOBODY


def _first(folder: str) -> str:
    """Return the process id of the instance's first process; empty if there is none."""
    return next((each for each in os.listdir("/proc") if each.isdecimal() and _is_first(each, folder)), "")  # noqa: PTH208


def _is_first(number: str, folder: str) -> bool:
    """Return whether this is the instance's first process; sessions soon leave the folder and are younger."""
    with suppress(OSError):  # it has ended, or belongs to another user
        process = Path("/proc", number)
        at_home = str((process / "cwd").readlink()) == folder
        return at_home and (process / "comm").read_text(encoding="ascii") == "proftpd\n"
    return False


def _activity(first: str) -> str:
    """Describe what still goes on: sessions not ended or not yet reaped, or the first half of the pause."""
    try:
        sessions = len(Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split())
    except OSError:  # nothing runs
        sessions = 0
    if sessions:
        return f"{sessions} session{'s' * (sessions != 1)} not ended"
    return "its pause after a session" if _is_pausing(first) else ""


def _is_pausing(number: str) -> bool:
    """Return whether the process is in its pause: only then does it block SIGCHLD (proc(5), `SigBlk`)."""
    try:
        status = Path(f"/proc/{number}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return bool(int(status.partition("\nSigBlk:")[2].split(maxsplit=1)[0], 16) & 1 << signal.SIGCHLD - 1)


def md5_crypt(password: str, salt: str) -> str:
    """Return the password hashed by `crypt` with MD5: the cheapest hash that all C libraries can check.

    A stronger one would protect nothing: the password is random, and only the file's owner may read it. Python has no
    `crypt` from 3.13 on.
    """
    key, salted = password.encode(), salt.encode()
    text = key + b"$1$" + salted + (_md5(key + salted + key) * (len(key) // 16 + 1))[: len(key)]
    length = len(key)
    while length:
        text += b"\0" if length & 1 else key[:1]
        length >>= 1
    digest = _md5(text)
    for turn in range(1000):
        odd = turn & 1
        text = (key if odd else digest) + salted * (turn % 3 > 0) + key * (turn % 7 > 0) + (digest if odd else key)
        digest = _md5(text)
    order = ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5), (11,))
    groups = (int.from_bytes(bytes(digest[at] for at in triple), "big") for triple in order)
    letters = "".join(_DIGITS[group >> shift & 63] for group in groups for shift in (0, 6, 12, 18))
    return f"$1${salt}${letters[:22]}"


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


server = Proftpd()
