"""The proof that the path was the path: what a run and its route must look like, held against what was seen.

Never report IPv6 that was IPv4, or native that was tunnelled. Each function returns the contradictions as sentences
of the form "expected ..., seen ..."; no sentence means proven as far as the facts go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Hardware types of devices that carry IP in IP (linux/if_arp.h): IPIP, IP6-in-IP6, SIT, GRE, GRE over IPv6.
_TUNNEL_TYPES = {768: "ipip", 769: "ip6tnl", 776: "sit", 778: "gre", 823: "ip6gre"}
# SYN, ACK, and one segment of data: no TCP transaction sends fewer.
_LEAST_PACKETS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an arm's sockets and packets must be.

    `exclusive` says that nothing but the measurement lives in the client's network namespace, so that packets of the
    other IP version must be absent altogether. An empty `client` address leaves the choice to the client's host.
    With `datagram` a connection is one datagram there and one back.
    """

    ipver: int
    encapsulated: bool
    client: str
    server: str
    exclusive: bool
    datagram: bool = False


def run_contradictions(expected: Expected, seen: Mapping[str, Any]) -> list[str]:
    """What speaks against one run.

    `seen` holds `families` (of the sockets that completed), `peers` (address -> connections), `sources`, `completed`,
    `packets` (sent by the client during the run, by IP version) and `protocol41` (received by client and server; None
    where it cannot be counted).
    """
    found = []
    family = "AF_INET6" if expected.ipver == 6 else "AF_INET"
    if set(seen["families"]) - {family}:
        found.append(f"expected sockets of {family}, seen {', '.join(seen['families'])}")
    strangers = sorted(set(seen["peers"]) - {expected.server})
    if strangers:
        found.append(f"expected connections to {expected.server}, seen to {', '.join(strangers)}")
    strange = sorted(set(seen["sources"]) - {expected.client}) if expected.client else []
    if strange:
        found.append(f"expected connections from {expected.client}, seen from {', '.join(strange)}")
    return found + _packet_contradictions(expected, seen)


def _packet_contradictions(expected: Expected, seen: Mapping[str, Any]) -> list[str]:
    found = []
    own, other = (f"ipv{version}" for version in (expected.ipver, 10 - expected.ipver))
    least = (1 if expected.datagram else _LEAST_PACKETS) * seen["completed"]
    if seen["packets"][own] < least:
        found.append(f"expected at least {least} packets sent by {own}, seen {seen['packets'][own]}")
    if expected.exclusive and not expected.encapsulated and seen["packets"][other]:
        found.append(f"expected no packet sent by {other}, seen {seen['packets'][other]}")
    for host, count in seen["protocol41"].items():
        if count is None:
            continue
        # Elsewhere than in the lab a host may have tunnels of its own; so few packets did not carry this run.
        if not expected.encapsulated and (count if expected.exclusive else least and count >= least):
            found.append(f"expected no packet of protocol 41 at the {host}, seen {count}")
        if expected.encapsulated and count < least:
            found.append(f"expected at least {least} packets of protocol 41 at the {host}, seen {count}")
    return found


def path_contradictions(expected: Expected, seen: Mapping[str, Any]) -> list[str]:
    """What speaks against an arm's path in an epoch.

    `seen` holds `routes` (by host: device, gateway, source, mtu, type, or error) and `fits` (packet size in bytes ->
    `yes`, `too big`, `no answer`, `silence`), for the MTU of the client's device and one byte more.
    """
    found = []
    for host, route in seen["routes"].items():
        if "error" in route:
            found.append(f"expected a route at the {host}, seen: {route['error']}")
        elif not expected.encapsulated and route["type"] in _TUNNEL_TYPES:
            kind = _TUNNEL_TYPES[route["type"]]
            found.append(f"expected a native route at the {host}, seen device {route['device']} of type {kind}")
    for (size, answer), wanted in zip(sorted(seen["fits"].items()), ("yes", "too big"), strict=False):
        if answer == "silence":
            found.append(f"expected an answer from the name server at {expected.server}, seen none")
        elif answer != wanted:
            found.append(f"expected {wanted!r} for a packet of {size} bytes with don't-fragment, seen {answer!r}")
    return found
