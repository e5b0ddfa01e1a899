"""Path verification: compare the expected path of a run and its routes with what was observed.

IPv6 that was IPv4, or native that was tunnelled, must never be reported. Each function returns the violations as
sentences of the form "expected ..., seen ..."; an empty list means proven as far as the facts go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s, goodput_excess
from pytest_ipperf.core.measurement.link_rate import TOLERANCE, TrainRates, above_rate, below_rate
from pytest_ipperf.core.portable.units import rate_text

# Hardware types of devices that carry IP in IP (linux/if_arp.h): IPIP, IP6-in-IP6, SIT, GRE, GRE over IPv6.
_TUNNEL_TYPES = {768: "ipip", 769: "ip6tnl", 776: "sit", 778: "gre", 823: "ip6gre"}
_DONE = {"in": "received", "out": "sent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPath:
    """The sockets and packets that an arm must have.

    `exclusive` says that the client's network namespace holds nothing but the measurement, so that packets of the other
    IP version must be absent. An empty `client` address leaves the choice to the client's host. Each completed
    connection sends at least `least_packets` (there, back); some of these may be merged or segmented.

    The `carriers` are the hosts between which all packets travel as protocol 41, from the client to the other; empty
    for a native arm. `devices` holds, by host, the tunnel devices that its routes use, by transport. `transport` is the
    arm's own, and `mtu` the MTU of its tunnel, 0 if unknown. `rate_bit_s` is the rate of a lab's ports. `outer_counted`
    says whether the client's counter of IPv4 packets includes those that its tunnel makes.
    """

    ipver: int
    client: str
    server: str
    exclusive: bool
    least_packets: tuple[int, int] = (3, 2)
    carriers: tuple[str, ...] = ()
    transport: str = "native"
    devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mtu: int = 0
    rate_bit_s: float = 0.0
    outer_counted: bool = False


def proof_violations(expected: ExpectedPath, observed: Mapping[str, Any]) -> list[str]:
    """Return the violations of one run.

    `observed` holds `families` (of the sockets that completed), `peers` (address -> connections), `sources`,
    `completed`, `packets` (sent by the client during the run, by IP version), `bare_ipv6` (counts at the client's port)
    and `protocol41` (by host, packets received, `in`, and sent, `out`; None if they cannot be counted).
    """
    violations = []
    family = "AF_INET6" if expected.ipver == 6 else "AF_INET"
    if set(observed["families"]) - {family}:
        violations.append(f"expected sockets of {family}, seen {', '.join(observed['families'])}")
    strangers = sorted(set(observed["peers"]) - {expected.server})
    if strangers:
        violations.append(f"expected connections to {expected.server}, seen to {', '.join(strangers)}")
    strange = sorted(set(observed["sources"]) - {expected.client}) if expected.client else []
    if strange:
        violations.append(f"expected connections from {expected.client}, seen from {', '.join(strange)}")
    return violations + _packet_violations(expected, observed)


def _packet_violations(expected: ExpectedPath, observed: Mapping[str, Any]) -> list[str]:
    violations = []
    own, other = (f"ipv{version}" for version in (expected.ipver, 10 - expected.ipver))
    least = expected.least_packets[0] * observed["completed"]
    if observed["packets"][own] < least:
        violations.append(f"expected at least {least} packets sent by {own}, seen {observed['packets'][own]}")
    if expected.exclusive and (strange := observed["packets"][other] - _outer(expected, observed)) > 0:
        beside = " beside the tunnel's" if expected.carriers else ""
        violations.append(f"expected no packet sent by {other}{beside}, seen {strange}")
    bare = observed["bare_ipv6"]
    if expected.exclusive and expected.carriers and bare and any(bare.values()):
        counts = f"{bare['out']} sent and {bare['in']} received"
        violations.append(f"expected no IPv6 packet outside the tunnel at the client, seen {counts}")
    return violations + encapsulation_violations(expected, observed["protocol41"], observed["completed"])


def encapsulation_violations(
    expected: ExpectedPath, protocol41: Mapping[str, Mapping[str, int] | None], completed: int
) -> list[str]:
    """Return the violations of a run with `completed` connections, by its packets of protocol 41 alone."""
    violations, least = [], expected.least_packets[0] * completed
    for host, counts in protocol41.items():
        if counts is None:
            continue
        if host in expected.carriers:
            violations += _missed(expected, host, counts, completed)
        # Outside the lab a host may have tunnels of its own, whose few packets cannot have carried this run, and a
        # router may forward the packets of a tunnel that ends elsewhere.
        elif (count := counts["in"] + counts["out"]) and (
            expected.exclusive or (0 < least <= count and not expected.carriers)
        ):
            violations.append(f"expected no packet of protocol 41 at the {host}, seen {count}")
    return violations


def merged_violations(
    wanted: bool | None,  # noqa: FBT001 - three answers
    merged: Mapping[str, Mapping[str, int] | None],
    streamed: int,
) -> list[str]:
    """Return the violations of a run by its packets larger than the MTU, of each host received, `in`, and sent, `out`.

    They must be sent by an end if `wanted` and TCP has `streamed` at least a mebibyte, must be seen nowhere if not
    wanted, and may be seen with None. A router that forwards merged packets says nothing about the ends. A count of
    None says that the host cannot count them.
    """
    if wanted is None:
        return []
    if unknown := [host for host, counts in merged.items() if counts is None]:
        return [f"expected a count of packets larger than the MTU at the {unknown[0]}, which may not count there"]
    seen = {host: counts for host, counts in merged.items() if counts}
    if wanted:
        sent = sum(counts["out"] for host, counts in seen.items() if host != "router")
        without = streamed and not sent
        return ["expected packets larger than the MTU sent by an end with offloads, seen none"] if without else []
    return [
        f"expected no packet larger than the MTU at the {host} without offloads, seen {counts['out']} sent and "
        f"{counts['in']} received"
        for host, counts in seen.items()
        if any(counts.values())
    ]


def _outer(expected: ExpectedPath, observed: Mapping[str, Any]) -> float:
    """Return how many packets of the other IP version the client's tunnel may have sent; infinite if unknown."""
    if not expected.carriers or not expected.outer_counted:
        return 0
    counts = observed["protocol41"][expected.carriers[0]]
    # The client also sent the packets that its port dropped when the queue was full.
    return math.inf if counts is None else max(counts["out"], observed["packets"][f"ipv{expected.ipver}"])


def _missed(expected: ExpectedPath, host: str, counts: Mapping[str, int], completed: int) -> list[str]:
    """Return the violations at an encapsulation point; a tunnel endpoint sees the packets of both directions."""
    there, back = expected.least_packets
    ends = {
        expected.carriers[0]: {"out": there, "in": back},
        expected.carriers[-1]: {"in": there, "out": back},
    }
    return [
        f"expected at least {least * completed} packets of protocol 41 {_DONE[way]} by the {host}, seen {counts[way]}"
        for way, least in ends.get(host, {"in": there}).items()
        if counts[way] < least * completed
    ]


def path_violations(expected: ExpectedPath, observed: Mapping[str, Any]) -> list[str]:
    """Return the violations of an arm's path in an epoch.

    `observed` holds `routes` (by host: device, gateway, source, mtu, type, path_mtu, mss, or error), of which a
    router's leads to the client, and `onward`, the router's route to the server. `fits` (packet size in bytes -> `yes`,
    `too big`, `no answer`, `silence`) covers the MTU of the client's device and one byte more, and `back` the same from
    the server to the client. `rates` are those of a lab's ports, by host and device, in bit/s.
    """
    routes = [(host, host, route) for host, route in observed["routes"].items()]
    routes += [(f"{host} towards the server", host, route) for host, route in observed.get("onward", {}).items()]
    # Sizes on a wrong path say nothing about the right one, and probes say nothing while route sizes are wrong.
    return (
        [each for route in routes for each in _route_violations(expected, *route)]
        or [each for place, _, route in routes for each in _size_violations(expected, observed, place, route)]
        or [*_fit_violations(expected, observed), *_port_violations(expected, observed.get("rates", {}))]
    )


def _fit_violations(expected: ExpectedPath, observed: Mapping[str, Any]) -> list[str]:
    violations = []
    for (size, answer), wanted in zip(sorted(observed["fits"].items()), ("yes", "too big"), strict=False):
        if answer == "silence":
            violations.append(f"expected an answer from the name server at {expected.server}, seen none")
        elif answer != wanted:
            violations.append(f"expected {wanted!r} for a packet of {size} bytes with don't-fragment, seen {answer!r}")
    for (size, answer), wanted in zip(sorted(observed.get("back", {}).items()), ("yes", "too big"), strict=False):
        # A packet that is too big for a router on the way back is lost there without an answer.
        if (answer == "yes") != (wanted == "yes"):
            packet = f"{size} bytes with don't-fragment from the server"
            violations.append(f"expected {wanted!r} for a packet of {packet}, seen {answer!r}")
    return violations


def _route_violations(expected: ExpectedPath, place: str, host: str, route: Mapping[str, Any]) -> list[str]:
    if "error" in route:
        return [f"expected a route at the {place}, seen: {route['error']}"]
    devices, observed = expected.devices.get(host, {}), route["device"]
    if expected.transport in devices and place == host:
        wanted = devices[expected.transport]
        if observed != wanted:
            return [f"expected a route by the tunnel device {wanted} at the {place}, seen device {observed}"]
        if expected.mtu and route["mtu"] != expected.mtu:
            return [f"expected an MTU of {expected.mtu} on {wanted} at the {place}, seen {route['mtu']}"]
        return []
    kind = _TUNNEL_TYPES.get(route["type"], "tunnel" if observed in devices.values() else "")
    return [f"expected a native route at the {place}, seen device {observed} of type {kind}"] if kind else []


def _size_violations(
    expected: ExpectedPath, observed: Mapping[str, Any], place: str, route: Mapping[str, Any]
) -> list[str]:
    """Return the violations by a route whose packets are smaller than the client's device allows.

    A router may have reported the path's MTU, which then equals that of the client's device.
    """
    mtu, path_mtu, mss = observed["routes"]["client"]["mtu"], route["path_mtu"], route["mss"]
    if route["mtu"] < mtu or (path_mtu and path_mtu not in {mtu, route["mtu"]}):
        return [f"expected an MTU of {mtu} for the route at the {place}, seen {path_mtu or route['mtu']}"]
    headers = (40 if expected.ipver == 6 else 20) + 20
    if mss and mss + headers not in {mtu, route["mtu"]}:
        return [f"expected a segment size of {mtu - headers} for the route at the {place}, seen {mss}"]
    return []


def _port_violations(expected: ExpectedPath, rates: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the violations by the rates of a lab's ports; packet trains see only the slowest port on their way."""
    wanted = expected.rate_bit_s
    return [
        f"expected {rate_text(wanted)} at the {host}'s {device}, seen {rate_text(rate) if rate else 'no limit'}"
        for host, ports in rates.items()
        for device, rate in ports.items()
        if abs(rate - wanted) > TOLERANCE * wanted
    ]


def rate_violations(rate_bit_s: float, trains: TrainRates) -> list[str]:
    """Return the violations of a path with that rate, which no train can exceed."""
    return [
        f"expected at most {rate_text(rate_bit_s)} from the {host}, seen {rate_text(rate)}"
        for host, rate in trains.items()
        if rate is not None and above_rate(rate_bit_s, rate)
    ]


def rate_shortfalls(rate_bit_s: float, trains: TrainRates) -> list[str]:
    """Describe where a path is below its rate; this is no violation, as the arm is the right one, only slower."""
    return [
        f"from the {host} {'nothing came through' if rate is None else f'it has {rate_text(rate)}'}"
        for host, rate in trains.items()
        if rate is None or below_rate(rate_bit_s, rate)
    ]


def goodput_violations(
    rate_bit_s: float,
    overhead: HeaderOverhead,
    *,
    moved_bytes: float,
    time_s: float,
    bucket_bytes: int,
    payload_bytes: int = 0,
) -> list[str]:
    """Return the violations of a run that moved more payload in `time_s` than the rate of its links allows.

    `payload_bytes` is the payload of a packet; 0 for full packets.
    """
    excess = goodput_excess(
        moved_bytes,
        time_s,
        rate_bit_s=rate_bit_s,
        overhead=overhead,
        bucket_bytes=bucket_bytes,
        payload_bytes=payload_bytes,
    )
    if excess <= TOLERANCE:
        return []
    ceiling, observed = ceiling_bit_s(rate_bit_s, overhead, payload_bytes), 8 * moved_bytes / time_s
    return [f"expected at most {rate_text(ceiling)} of payload, seen {rate_text(observed)}"]
