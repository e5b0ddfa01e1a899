"""Parse addresses and networks of an inventory, without I/O."""

from __future__ import annotations

import ipaddress
import socket

from pytest_ipperf.core.portable.errors import UsageError

_NOWHERE = ipaddress.IPv6Network("::/64")


def literal(text: str, version: int) -> str:
    """Return an IP address of that version in the kernel's form; empty if `text` is none.

    2001:db8:0::1 and 2001:DB8::1 are the same address, and the kernel writes it in one form.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if address.version != version:
        return ""
    return socket.inet_ntop(socket.AF_INET6 if version == 6 else socket.AF_INET, address.packed)


def unfit(text: str) -> str:
    """Return why a host cannot be measured at a literal address, as the end of a sentence; empty if it can."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return "an IPv4-mapped address, whose traffic is IPv4"
        if address.is_link_local:
            return "a link-local address, which means nothing without an interface"
    if address.is_multicast or address.is_unspecified:
        return "not the address of a single host"
    return ""


def network(text: str) -> str:
    """Return an IPv6 /64 network that tunnels may use, in canonical form; UsageError with the end of a sentence."""
    try:
        prefix = ipaddress.IPv6Network(text)
    except ValueError:
        prefix = None
    if prefix is None or prefix.prefixlen != 64:
        raise UsageError("is not an IPv6 network of 64 bits such as 2001:db8:41::/64")
    if prefix.is_link_local:
        raise UsageError("is a network of link-local addresses, which mean nothing without an interface")
    if prefix.is_multicast or prefix == _NOWHERE:
        raise UsageError("contains no address of a single host")
    return str(prefix)
