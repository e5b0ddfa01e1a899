"""Courier IMAP: a mailbox for each account, in a private folder; the study's own server (paper 000, section 2.6).

The places of its configuration and its socket are compiled in, so it gets them in a mount namespace of its own. It need
not be installed, which it cannot be beside Dovecot: the programs unpacked by `.ci/courier` are laid over /usr.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pwd
import re
import shlex
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers.base import Entry, Server, Site, maildirs, program, true_root, words

_UNPACKED = "/usr/local/lib/pytest-ipperf/courier"
_PROGRAM = "usr/sbin/couriertcpd"
# Single folders of /usr, as an overlay cannot cover a folder that contains it, and it may lie in /usr/local.
_LAID_OVER = "bin sbin lib libexec"
_USER = "nobody"
# A comma or a colon would end an overlay's option, others would be misread in the table of users. An instance sees a
# /run of its own, as the host's may have no place for its socket and must not get one.
_MOUNTABLE = re.compile(r"(?!/run(/|\Z))[A-Za-z0-9/._-]+")
# Room for sessions that have ended only at the client: those of an account check, one for each account.
_SPARE = 600

_AUTHDAEMON = """\
authmodulelist="authuserdb"
authmodulelistorig="authuserdb"
daemons=5
authdaemonvar=/run/courier/authdaemon
DEBUG_LOGIN=0
DEFAULTOPTIONS=""
LOGGEROPTS=""
"""
# Debian's /etc/courier/imapd without TLS. The instance's number keeps it from sharing another one's process that
# watches the mailboxes.
_ENVIRONMENT = {
    "IMAP_CAPABILITY": "IMAP4rev1 UIDPLUS CHILDREN NAMESPACE THREAD=ORDEREDSUBJECT THREAD=REFERENCES SORT QUOTA IDLE",
    "IMAP_KEYWORDS": "1",
    "IMAP_ACL": "1",
    "IMAP_PROXY": "0",
    "IMAP_IDLE_TIMEOUT": "60",
    "IMAP_MAILBOX_SANITY_CHECK": "1",
    "IMAP_CHECK_ALL_FOLDERS": "0",
    "IMAP_OBSOLETE_CLIENT": "0",
    "IMAP_USELOCKS": "1",
    "IMAP_ENHANCEDIDLE": "0",
    "IMAP_TRASHFOLDERNAME": "Trash",
    "IMAP_EMPTYTRASH": "Trash:7",
    "IMAP_MOVE_EXPUNGE_TO_TRASH": "0",
    "IMAP_UMASK": "022",
    "IMAP_TLS_REQUIRED": "0",
    "MAILDIRPATH": "Maildir",
    "PROTOCOL": "IMAP4",
    "DEBUG_LOGIN": "0",
}
# It is the first process of its pid namespace, whose end ends all others; by itself the watcher of mailboxes would end
# half a minute later.
_RUN = """\
set -e
mount --make-rprivate /
for folder in {laid_over}; do
    mount -t overlay overlay -o lowerdir={root}/usr/$folder:/usr/$folder /usr/$folder
done
/usr/sbin/makeuserdb -f {etc}/courier/userdb
mount -t overlay overlay -o lowerdir={etc}:/etc /etc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/courier/authdaemon
/usr/lib/courier/courier-authlib/authdaemond &
while [ ! -S /run/courier/authdaemon/socket ]; do sleep 0.01; done
export {environment}
/usr/sbin/couriertcpd -address=0 -maxprocs={limit} -maxperip={limit} -nodnslookup -noidentlookup \\
    {listeners} /usr/lib/courier/courier/imaplogin /usr/bin/imapd Maildir &
trap 'exit 0' TERM INT
wait $!
"""


class Courier(Server):
    """Courier IMAP with a process for each session, as `nobody`, who owns the mailboxes."""

    name = "courier"
    protocol = "imap"
    embedded = False
    apt = "courier-imap"
    needs = "root; the package installed or [unpacked](#courier-beside-dovecot)"
    # At one connection nearly all of its time is a delayed acknowledgement, and a run of 300 takes 14 s.
    reserve = True
    provisioned = True
    probe = (b"", b"* OK ")

    def missing(self) -> str:
        if _root() is None:
            return f"courier is neither installed (Debian: apt-get install {self.apt}) nor unpacked in {_unpacked()}"
        if not true_root():
            return "courier needs root"
        if not program("unshare"):
            return "courier needs unshare (Debian: apt-get install util-linux)"
        for folder in (_temporary(), os.path.realpath(_temporary())):
            if not _MOUNTABLE.fullmatch(folder):
                return (
                    f"courier needs TMPDIR to be a folder of letters, digits and -._/ that is not below /run: {folder}"
                )
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            return f"courier needs user {_USER}"
        return ""

    def version(self) -> str:
        # It has no option for its version, but contains it as text.
        found = words("grep", "--text", "--only-matching", "Courier-IMAP [0-9.]*", f"{_root()}/usr/bin/imapd")
        return found.partition(" ")[2].partition("\n")[0] or "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (
            Entry("etc"),
            Entry("etc/courier"),
            Entry("etc/courier/authdaemonrc", _AUTHDAEMON.encode(), 0o600),
            Entry("etc/courier/userdb", _accounts(site).encode(), 0o600),
            Entry("run", _run(site).encode(), 0o644),
        )

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        del folder
        return maildirs("mail", state, _USER)

    def argv(self, site: Site) -> Sequence[str]:
        return (program("unshare") or "unshare", "--mount", "sh", f"{site.folder}/run")


def _temporary() -> str:
    return os.environ.get("TMPDIR") or tempfile.gettempdir()


def _unpacked() -> str:
    return os.environ.get("IPPERF_COURIER", _UNPACKED)


def _root() -> str | None:
    """Return the folder above its programs: empty if installed, None if there are none."""
    return next((root for root in ("", _unpacked()) if Path(root or "/", _PROGRAM).exists()), None)


def _accounts(site: Site) -> str:
    """Return the user database as text; a plain digest is the cheapest check, and takes any password."""
    user = pwd.getpwnam(_USER)
    digest = base64.b64encode(hashlib.sha256(site.state.password.encode()).digest()).decode("ascii")
    return "".join(
        f"{name}\tuid={user.pw_uid}|gid={user.pw_gid}|home={site.data}/mail/{name}|mail={site.data}/mail/{name}"
        f"|systempw={{SHA256}}{digest}\n"
        for name in site.state.names
    )


def _run(site: Site) -> str:
    root = _root()
    environment = {**_ENVIRONMENT, "GAM_CLIENT_ID": f"ipperf-{site.port}"}
    return _RUN.format(
        root=shlex.quote(root or ""),
        laid_over=_LAID_OVER if root else "",
        etc=shlex.quote(f"{site.folder}/etc"),
        environment=" ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items()),
        limit=site.connections + _SPARE,
        listeners=",".join(f"{address}.{site.port}" for address in site.addresses),
    )


server = Courier()
