"""Postfix: accepts every message with `250 2.0.0 Ok: queued as`, and holds it in its queue on disk.

Held messages are counted and compared after a run, and removed. Nothing is delivered while others are still measured.
Never an open relay: it listens on the site's addresses alone, and the only way out of its queue is `discard`.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from pytest_ipperf.servers.base import Entry, Kept, Server, Site, program, true_root, words

_USER, _GROUP = "postfix", "postdrop"
_BUSY_QUEUES = ("maildrop", "incoming", "active", "deferred")
_QUEUES = ("incoming", "active", "deferred", "defer", "bounce", "corrupt", "flush", "hold", "saved", "trace", "private")
_HOLD = "queue/hold"
# The envelope, which comes first in a queue file, has about 600 bytes; a sender's address may have 256 (RFC 5321). A
# small message follows within this length.
_BEGIN_BYTES = 4096
# Room for connections that have ended only at the client.
_SPARE = 50

# The compatibility level is the highest that all versions from 3.4 on can read. Processes are kept once they run: new
# ones start one after the other, 10 ms and more each, and would delay a random connection in a hundred. Headers are
# left as they were sent, so that a message can be compared.
_MAIN = """\
compatibility_level = 2
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.ipperf.test
mydomain = ipperf.test
mydestination =
inet_interfaces = {addresses}
inet_protocols = {families}
mynetworks = 0.0.0.0/0 [::]/0
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_relay_before_recipient_restrictions = yes
smtpd_recipient_restrictions = check_recipient_access static:HOLD
local_header_rewrite_clients =
message_drop_headers =
smtpd_peername_lookup = no
smtpd_tls_security_level = none
default_process_limit = {limit}
max_idle = 1h
max_use = 1000000
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
smtpd_client_message_rate_limit = 0
smtpd_client_recipient_rate_limit = 0
smtpd_client_event_limit_exceptions = static:all
smtpd_timeout = 300s
in_flow_delay = 0
message_size_limit = 0
alias_maps =
alias_database =
local_recipient_maps =
relay_domains =
default_transport = discard:
relay_transport = discard:
local_transport = discard:
virtual_transport = discard:
smtp_dns_support_level = disabled
notify_classes =
bounce_queue_lifetime = 0
"""
_SMTPD = "{listen}:{port} inet n - n - {limit} smtpd"
_MASTER = """\
pickup    unix  n - n 60    1 pickup
cleanup   unix  n - n -     0 cleanup
qmgr      unix  n - n 300   1 qmgr
rewrite   unix  - - n -     - trivial-rewrite
bounce    unix  - - n -     0 bounce
defer     unix  - - n -     0 bounce
trace     unix  - - n -     0 bounce
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n -     - proxymap
error     unix  - - n -     - error
retry     unix  - - n -     - error
discard   unix  - - n -     - discard
postlog   unix-dgram n - n - 1 postlogd
"""


class Postfix(Server):
    """Postfix with prepared configuration and queue folders, which saves two seconds of checks at the start."""

    name = "postfix"
    protocol = "smtp"
    embedded = False
    apt = "postfix"
    needs = "root"
    probe = (b"", b"220 ")
    keeps = True

    def missing(self) -> str:
        if not program("postfix"):
            return f"postfix is not installed (Debian: apt-get install {self.apt})"
        if not true_root():
            return "postfix needs root"
        try:
            pwd.getpwnam(_USER)
            grp.getgrnam(_GROUP)
        except KeyError:
            return f"postfix needs user {_USER} and group {_GROUP} (Debian: apt-get install {self.apt})"
        return ""

    def version(self) -> str:
        return words(program("postconf"), "-d", "-h", "mail_version") or "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (
            Entry("etc"),
            Entry("etc/main.cf", _main(site).encode(), 0o644),
            Entry("etc/master.cf", _master(site).encode(), 0o644),
            Entry("data", mode=0o700, owner=_USER),
            Entry("queue"),
            Entry("queue/pid"),
            *(Entry(f"queue/{queue}", mode=0o700, owner=_USER) for queue in _QUEUES),
            Entry("queue/maildrop", mode=0o730, owner=_USER, group=_GROUP),
            Entry("queue/public", mode=0o710, owner=_USER, group=_GROUP),
            # Tells the start script that the folders above need no check.
            Entry("queue/quick-start", b"", 0o644),
        )

    def argv(self, site: Site) -> Sequence[str]:
        return (program("postfix") or "postfix", "-c", f"{site.folder}/etc", "start-fg")

    def kept(self, site: Site) -> Iterator[Kept]:
        folder = f"{site.folder}/{_HOLD}"
        for name in os.listdir(folder):  # noqa: PTH208 - hundreds are read between two runs
            path = f"{folder}/{name}"
            begin = _begin_of(path)
            yield Kept(path, _sender(begin), begin if len(begin) < _BEGIN_BYTES else b"")

    def message(self, kept: Kept) -> bytes:
        data = super().message(kept)
        begins = _message_begins(data)
        ends = _trace_ends(data, begins)
        return _text(data[begins:ends]) + _same_text(data[ends:])

    def busy(self, site: Site) -> str:
        count = sum(
            len(files)
            for queue in _BUSY_QUEUES
            for _, _, files in os.walk(os.path.join(site.folder, "queue", queue))  # noqa: PTH118 - asked often
        )
        return f"{count} message{'s' * (count != 1)} in the queue" if count else ""


_LINES = (b"N", b"L")
_TRACE = (b"Received:", b" ", b"\t")
# The first record: the size of the message, and where it begins (REC_TYPE_SIZE_FORMAT in `src/global/rec_type.h`).
_SIZES = re.compile(rb"C.[ ]*\d+[ ]+(\d+)[ ]", re.DOTALL)
_CONTINUED = 0x80
_LENGTH_BITS = 28  # a length is a signed integer of 32 bits


def _begin_of(path: str) -> bytes:
    """Return the beginning of a file; hundreds are read between two runs, and a file object takes longer."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _BEGIN_BYTES)
    finally:
        os.close(file)


def _sender(envelope: bytes) -> str:
    """Return the sender of the message, empty if it has none."""
    return next((value.decode("latin-1") for kind, value in _records(envelope) if kind == b"S"), "")


def _message_begins(queue_file: bytes) -> int:
    """Return where the records of the message begin, as the first record tells; 0 if it does not."""
    sizes = _SIZES.match(queue_file)
    begins = int(sizes[1]) if sizes else 0
    return begins if queue_file[begins - 2 : begins] == b"M\0" else 0


def _trace_ends(queue_file: bytes, at: int) -> int:
    """Return where a record follows that is no line of a trace header, the first of which begins `at` that place."""
    while queue_file[at : at + 1] == b"N" and queue_file.startswith(_TRACE, at + 2) and queue_file[at + 1] < _CONTINUED:
        at += 2 + queue_file[at + 1]
    return at


def _text(records: bytes) -> bytes:
    """Return the text of the records of a message: each is a complete line, or the first part of a long one."""
    return b"".join(value + b"\n" if kind == b"N" else value for kind, value in _records(records) if kind in _LINES)


_same_text = lru_cache(maxsize=1)(_text)
"""Text of the records after the trace headers, which all messages of a run have in common."""


def _records(queue_file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a queue file: a one-byte type, a length in groups of seven bits, lowest first, and a value.

    The last one may be cut off. Source: Postfix, `src/global/rec_type.h` and `record.c`.
    """
    at, end = 0, len(queue_file)
    while at < end:
        kind, start = queue_file[at : at + 1], at + 2
        length = queue_file[at + 1] if start <= end else 0
        if length >= _CONTINUED:
            length, start = _length(queue_file, at + 1)
        at = start + length
        yield kind, queue_file[start:at]


def _length(queue_file: bytes, at: int) -> tuple[int, int]:
    """Return a length of more than one byte, which begins at `at`, and where it ends."""
    length = shift = 0
    while at < len(queue_file):
        byte = queue_file[at]
        at += 1
        length |= (byte & ~_CONTINUED) << shift
        if byte < _CONTINUED or shift >= _LENGTH_BITS:
            break
        shift += 7
    return length, at


def _main(site: Site) -> str:
    versions = {"ipv6" if ":" in address else "ipv4" for address in site.addresses}
    return _MAIN.format(
        folder=site.folder,
        addresses=", ".join(site.addresses),
        families=", ".join(sorted(versions)),
        limit=site.connections + _SPARE,
    )


def _master(site: Site) -> str:
    lines = (
        _SMTPD.format(
            listen=f"[{address}]" if ":" in address else address, port=site.port, limit=site.connections + _SPARE
        )
        for address in site.addresses
    )
    return "\n".join((*lines, _MASTER))


server = Postfix()
