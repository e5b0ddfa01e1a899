"""BIND 9: A, AAAA and TXT of one zone, over UDP and TCP, authoritative and nothing else.

The zone is the root, so that any name may be measured, and no query is ever forwarded to another server. Each address
that it listens on has a zone of its own, in which a name with that address has no other of its family.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import struct
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.servers.base import Entry, Server, Site, program, true_root, words, zone_at

_USERS = ("bind", "named")
_MOST_THREADS = 8
_SPARE = 50
_BACKLOG = 4096
_BUFFER_BYTES = 8 << 20
# BIND's own limit is 1232; clients say how much they can receive (RFC 6891, section 6.2.3).
_MOST_UDP_BYTES = 4096
_STRING_BYTES = 255
# Versions before this one do not know the option and refuse the configuration.
_BUFFERS_SINCE = (9, 18)
_APPARMOR_ON = Path("/sys/module/apparmor/parameters/enabled")
_OWN_PROFILE = Path("/proc/self/attr/current")
_PROFILES, _PROFILE = Path("/etc/apparmor.d"), "usr.sbin.named"

_CONFIGURATION = """\
options {{
  directory "{folder}/run";
  pid-file none;
  session-keyfile none;
  bindkeys-file "{folder}/run/none";
  listen-on port {port} {{ {four} }};
  listen-on-v6 port {port} {{ {six} }};
{buffers}
  tcp-clients {tcp_clients};
  tcp-listen-queue {queue};
  max-udp-size {udp_bytes};
  recursion {recursion};
  allow-query {{ any; }};
  allow-transfer {{ none; }};
  notify no;
  dnssec-validation no;
  empty-zones-enable no;
  minimal-responses yes;
  querylog no;
}};
controls {{ }};
{views}
"""
_VIEW = (
    'view "{address}" {{ match-destinations {{ {address}; }}; zone "." {{ type primary; file "{file}"; }};{more} }};'
)
_ZONE = """\
$TTL 0
. IN SOA ns.ipperf.test. hostmaster.ipperf.test. 1 3600 600 86400 0
. IN NS ns.ipperf.test.
"""


class Bind(Server):
    """BIND with a thread for each usable processor; as root it becomes the name server's user."""

    name = "bind"
    protocol = "dns"
    embedded = False
    apt = "bind9"
    # A query for the root's address: the answer has no records and the AA flag, as soon as the zone is loaded.
    probe = (struct.pack("!HHHHHHBHH", 0x4950, 0, 1, 0, 0, 0, 0, 1, 1), b"IP\x84\x00")

    def missing(self) -> str:
        if not program("named"):
            return f"named is not installed (Debian: apt-get install {self.apt})"
        if _confined():
            return f"AppArmor keeps named to folders of its own (as root: aa-disable {_PROFILES / _PROFILE})"
        return ""

    def version(self) -> str:
        found = re.search(r"BIND ([\d.]+)", words(program("named"), "-v"))
        return found[1] if found else "unknown"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (
            Entry("run", owner=_user() or None),
            Entry("zones"),
            *(Entry(f"zones/{name}", text.encode("ascii"), 0o644) for name, text in self.zones(site).items()),
            Entry("named.conf", self.configuration(site, self.version()).encode(), 0o644),
        )

    def zones(self, site: Site) -> dict[str, str]:
        """Return the zone files by their names: one for each address."""
        return {each: zone_text(site, each) + texts(site) for each in site.addresses}

    def configuration(self, site: Site, version: str) -> str:
        """Return the text of `named.conf` for that version of BIND."""
        views = (view(site, each) for each in site.addresses)
        return configuration(site, version, site.addresses, "\n".join(views))

    def argv(self, site: Site) -> Sequence[str]:
        user = _user()
        threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        identity = ("-u", user) if user else ()
        return (program("named") or "named", "-g", "-c", f"{site.folder}/named.conf", "-n", str(threads), *identity)


def view(site: Site, address: str, more: str = "") -> str:
    """Return the view of one address, with its zone of the same name and `more` statements."""
    return _VIEW.format(address=address, file=f"{site.folder}/zones/{address}", more=more)


def configuration(site: Site, version: str, listen_on: Sequence[str], views: str, recursion: str = "no") -> str:
    """Return the text of `named.conf` with these views; `recursion` is its statement, or several."""
    addresses = {four: [a for a in listen_on if (":" not in a) == four] for four in (True, False)}
    lists = {four: " ".join(f"{a};" for a in found or ["none"]) for four, found in addresses.items()}
    known = tuple(map(int, re.findall(r"\d+", version)[:2])) >= _BUFFERS_SINCE
    buffers = (f"  udp-{way}-buffer {_BUFFER_BYTES};" for way in ("receive", "send")) if known else ()
    return _CONFIGURATION.format(
        folder=site.folder,
        port=site.port,
        four=lists[True],
        six=lists[False],
        buffers="\n".join(buffers),
        tcp_clients=site.connections + _SPARE,
        queue=_BACKLOG,
        udp_bytes=_MOST_UDP_BYTES,
        recursion=recursion,
        views=views,
    )


def zone_text(site: Site, asked: str) -> str:
    """Return the zone of one address as a file, without texts."""
    zone = zone_at({"ns.ipperf.test": site.addresses, **site.zone}, asked)
    records = (
        f"{name.rstrip('.')}. IN {'AAAA' if ':' in address else 'A'} {address}\n"
        for name, addresses in zone.items()
        for address in dict.fromkeys(addresses)
    )
    return _ZONE + "".join(records)


def texts(site: Site) -> str:
    """Return the TXT records of a zone file."""
    return "".join(_text(name, text) for name, text in site.state.texts.items())


def _text(name: str, text: bytes) -> str:
    """Return a TXT record, of printable ASCII, with a line for each of its strings."""
    parts = (text[at : at + _STRING_BYTES].decode("ascii") for at in range(0, len(text), _STRING_BYTES))
    quoted = (part.replace("\\", "\\\\").replace('"', '\\"') for part in parts)
    return f"{name.rstrip('.')}. IN TXT (\n" + "".join(f'  "{each}"\n' for each in quoted) + ")\n"


def _user() -> str:
    """Return the user that it becomes if root starts it; empty if there is none, or no right to become it."""
    for name in _USERS if true_root() else ():
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return ""


def _confined() -> bool:
    """Return whether AppArmor confines named to the folders of the system's own name server."""
    try:
        on = _APPARMOR_ON.read_text(encoding="ascii").strip() == "Y"
        # If this process is confined already, as in a container, its children are too, and not by that profile.
        on = on and _OWN_PROFILE.read_text(encoding="ascii").strip("\0\n ") == "unconfined"
    except (OSError, UnicodeDecodeError):
        return False
    return on and (_PROFILES / _PROFILE).exists() and not (_PROFILES / "disable" / _PROFILE).exists()


server = Bind()
