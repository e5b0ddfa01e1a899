"""Read a host's key `snmp`: the community and the address of its SNMP agent."""

from __future__ import annotations

import re
from typing import Any

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory.addresses import literal, unfit

_PORT = 161
# Printable, without characters that are special in a configuration file of Net-SNMP.
_COMMUNITY = re.compile(r"[!-~]+")
_SPECIAL = set("\"'\\#`")
_PLACE = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<ipv4>[0-9.]+))(?::(?P<port>\d{1,5}))?", re.ASCII)
_FORM = "COMMUNITY@ADDRESS, such as public@192.0.2.1, public@192.0.2.1:1161 or public@[2001:db8::1]"


class Source(str):
    """SNMP agent in a form that may be shown: `...@192.0.2.1:161`; copies into records lose the `community`."""

    __slots__ = ("community", "place")
    community: str
    place: str

    def __deepcopy__(self, memo: object) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def read_source(text: str) -> Source:
    """Parse a host's key `snmp`; UsageError with the end of a sentence that does not reveal the community."""
    community, at, where = text.rpartition("@")
    match = _PLACE.fullmatch(where) if at else None
    version = 6 if match and match["ipv6"] else 4
    address = literal(match[f"ipv{version}"], version) if match else ""
    port = int(match["port"] or _PORT) if match else 0
    if not address or not 0 < port < 65536:
        # If the two are swapped, the community stands in the place of the address.
        surely = at and (address or literal(where, 6))
        shown = f"= '...@{where}'" if surely else "(its value is not shown, as it may be a community)"
        raise UsageError(f"{shown} is not of the form {_FORM}")
    if why := unfit(address):
        raise UsageError(f"= '...@{where}' is {why}; give an address of one network interface")
    if not _COMMUNITY.fullmatch(community) or _SPECIAL & set(community):
        raise UsageError(f"= '...@{where}' has a community with a space, a quote, a backslash or # in it, or none")
    place = f"[{address}]:{port}" if version == 6 else f"{address}:{port}"
    source = Source(f"...@{place}")
    source.community, source.place = community, f"udp6:{place}" if version == 6 else f"udp:{place}"
    return source
