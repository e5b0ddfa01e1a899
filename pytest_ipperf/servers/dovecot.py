"""Dovecot 2.3: a mailbox for each account, in a private folder; as root and as any user."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterable, Sequence

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers.base import Entry, Server, Site, maildirs, program, true_root, words

_OWNER = "nobody"
_NOBODY = 65534
# Room for sessions that have ended only at the client: those of an account check, one for each account.
_SPARE = 600
_LOGINS = 2

# Log-in processes are kept and take many clients each, as a new one for each log-in would add a fork to every figure; a
# session has a process of its own, as in Debian. Without root there is no other user to become and no chroot.
_CONFIGURATION = """\
base_dir = {folder}/run
state_dir = {folder}/state
instance_name = ipperf
log_path = /dev/stderr
protocols = imap
listen = {addresses}
ssl = no
disable_plaintext_auth = no
default_internal_user = {internal}
default_internal_group = {internal_group}
default_login_user = {login}
default_process_limit = {limit}
default_client_limit = {clients}
mail_location = maildir:~
mailbox_list_index = no
mail_uid = {owner}
mail_gid = {group}
first_valid_uid = 1
first_valid_gid = 1
mail_max_userip_connections = 0
auth_mechanisms = plain
auth_failure_delay = 0
shutdown_clients = yes
passdb {{
  driver = passwd-file
  args = username_format=%u {folder}/accounts
}}
userdb {{
  driver = static
  args = uid={owner} gid={group} home={data}/mail/%u
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
  service_count = 0
  process_min_avail = {logins}
  process_limit = {logins}
  client_limit = {clients}
  chroot = {chroot}
}}
service imap {{
  process_limit = {limit}
}}
service anvil {{
  chroot = {empty}
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
"""


class Dovecot(Server):
    """Dovecot; as root it becomes `dovecot` and `dovenull`, and `nobody` owns the mailboxes."""

    name = "dovecot"
    protocol = "imap"
    embedded = False
    apt = "dovecot-imapd"
    needs = "version 2.3, any user"
    provisioned = True
    probe = (b"", b"* OK ")

    def missing(self) -> str:
        if not (found := program("dovecot")) or not os.path.exists("/usr/lib/dovecot/imap"):  # noqa: PTH110 - one look
            return f"dovecot is not installed (Debian: apt-get install {self.apt})"
        if not (version := words(found, "--version")).startswith("2.3."):
            return f"dovecot {version.partition(' ')[0] or '(of unknown version)'} is not supported, only 2.3 is"
        try:
            for user in _users():
                pwd.getpwnam(user)
        except KeyError as error:
            return f"dovecot needs a name for its user: {error.args[0]} (Debian: apt-get install {self.apt})"
        return ""

    def version(self) -> str:
        return words(program("dovecot"), "--version").partition(" ")[0] or "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        internal, _, _ = _users()
        return (
            Entry("dovecot.conf", _configuration(site).encode(), 0o644),
            Entry("accounts", _accounts(site.state).encode(), 0o600, internal if true_root() else None),
            Entry("run"),
            Entry("state"),
        )

    def provisions(self, folder: str, state: ServerState) -> Iterable[Entry]:
        del folder
        return maildirs("mail", state, _OWNER if true_root() else None)

    def argv(self, site: Site) -> Sequence[str]:
        return (program("dovecot") or "dovecot", "-F", "-c", f"{site.folder}/dovecot.conf")


def _users() -> tuple[str, str, str]:
    """Return the users that it becomes: for itself, for log-ins, for the mailboxes."""
    if true_root():
        return "dovecot", "dovenull", _OWNER
    this_user = pwd.getpwuid(os.geteuid() or _NOBODY).pw_name  # inside a user namespace, root is nobody
    return this_user, this_user, this_user


def _accounts(state: ServerState) -> str:
    """Return the users' passwords, in hexadecimal as a password may contain a colon."""
    password = state.password.encode().hex()
    return "".join(f"{name}:{{PLAIN.HEX}}{password}\n" for name in state.names)


def _configuration(site: Site) -> str:
    internal, login, owner = (pwd.getpwnam(user) for user in _users())
    root, limit = true_root(), site.connections + _SPARE
    return _CONFIGURATION.format(
        folder=site.folder,
        data=site.data,
        addresses=", ".join(site.addresses),
        port=site.port,
        internal=internal.pw_name,
        internal_group=grp.getgrgid(internal.pw_gid).gr_name,
        login=login.pw_name,
        owner=owner.pw_uid,
        group=owner.pw_gid,
        limit=limit,
        clients=4 * limit,
        logins=_LOGINS,
        chroot="login" if root else "",
        empty="empty" if root else "",
    )


server = Dovecot()
