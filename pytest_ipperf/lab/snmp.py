"""SNMP: what a host, or a router, tells of its interfaces to whoever knows its community."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.lab.addresses import literal, unfit

_PORT = 161
# Printable, and nothing that a configuration file of Net-SNMP reads as more than a letter.
_COMMUNITY = re.compile(r"[!-~]+")
_SPECIAL = set("\"'\\#`")
_PLACE = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<ipv4>[0-9.]+))(?::(?P<port>\d{1,5}))?")
_FORM = "COMMUNITY@ADDRESS, such as public@192.0.2.1, public@192.0.2.1:1161 or public@[2001:db8::1]"


@dataclass(frozen=True, slots=True)
class Source:
    """Where to ask, and the word that opens it, which is never shown."""

    address: str
    port: int
    community: str = field(repr=False)


def read_source(text: str) -> Source:
    """A host's key `snmp`; UsageError with the end of a sentence that does not tell the community."""
    community, at, place = text.rpartition("@")
    match = _PLACE.fullmatch(place) if at else None
    version = 6 if match and match["ipv6"] else 4
    address = literal(match[f"ipv{version}"], version) if match else ""
    port = int(match["port"] or _PORT) if match else 0
    if not address or not 0 < port < 65536:
        shown = f"= '...@{place}'" if at else "(its value is not shown, as it may be a community)"
        raise UsageError(f"{shown} is not of the form {_FORM}")
    if why := unfit(address):
        raise UsageError(f"= '...@{place}' is {why}; give an address of one network interface")
    if not _COMMUNITY.fullmatch(community) or _SPECIAL & set(community):
        raise UsageError(f"= '...@{place}' has a community with a space, a quote, a backslash or # in it, or none")
    return Source(address, port, community)
