"""Snapshot of a host's network devices, addresses, routes, rules and forwarding, for comparison with a later one.

Each fact has a subject, which begins a sentence, and a state. Counters, lifetimes and the carrier are left out. All is
plain data, as it is logged and sent.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.kernel.ethtool import features
from pytest_ipperf.core.portable.errors import LabError

SETTINGS = Path("/proc/sys")
_TIMEOUT_S = 10.0
_FLAGS = {"UP", "NOARP", "ALLMULTI", "PROMISC", "MULTICAST"}
_FOREVER = 0xFFFFFFFF
# Attributes of a route beside its destination, in the order in which `ip` shows them.
_OF_ROUTES = {
    "gateway": "via", "via": "via", "nexthops": "nexthops", "dev": "dev", "table": "table", "protocol": "proto",
    "scope": "scope", "prefsrc": "src", "metric": "metric", "metrics": "with",
}  # fmt: skip

Fact = dict[str, Any]
Snapshot = dict[str, Fact]
"""Facts by subject: `kind`, `state`, `device`, and `name` as commands use it, and whether it is `fleeting`."""


def snapshot(files: Iterable[str] = (), devices: Iterable[str] = ()) -> Snapshot:
    """Take a snapshot, in about 20 ms, with these files below /proc/sys, and the features of these devices.

    Raise LabError if there is no `ip`.
    """
    facts: Snapshot = {}
    links = _query("ip", "-d", "addr", "show")
    parts = (_devices(links), _addresses(links), _paths(4), _paths(6), _forwarding())
    for found in (*parts, *map(setting, files), *map(device_features, devices)):
        facts.update(found)
    return facts


def differences(
    before: Snapshot, after: Snapshot, commands: Iterable[Sequence[str]], made: Collection[int]
) -> list[str]:
    """Describe the differences that these commands may have caused; `made` has the numbers of their devices.

    Other differences are someone else's: a container that came up meanwhile, an address that expired.
    """
    scope = _Scope(before, after, [list(command) for command in commands], frozenset(made))
    sentences = []
    for subject in sorted({*before, *after}):
        was, found = before.get(subject), after.get(subject)
        if was == found or not scope.holds(was, found):
            continue
        if found is None:
            sentences.append(f"{subject} is missing")
        elif was is None:
            sentences.append(f"{subject} is still there")
        else:
            sentences += _changed(subject, was["state"], found["state"])
    return sentences


def _changed(subject: str, was: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    names = sorted({*was, *found})
    return [
        f"{subject}: {name} is {found.get(name, 'not set')} and was {was.get(name, 'not set')}"
        for name in names
        if was.get(name) != found.get(name)
    ]


class _Scope:
    """Scope of commands: the facts that they may have changed."""

    def __init__(self, before: Snapshot, after: Snapshot, commands: list[list[str]], made: frozenset[int]) -> None:
        words = [word for command in commands for word in command]
        self._names = set(words)
        self._networks = set(_networks(words))
        self._made = made
        self._rules = any("rule" in command[:4] for command in commands)
        self._forwarding = any(re.search(r"/net/ipv[46]/.*forward", word) for word in words)
        self._files = {word for word in words if word.startswith(str(SETTINGS))}
        devices = [{fact["device"] for fact in facts.values() if fact["kind"] == "device"} for facts in (before, after)]
        self._remaining = devices[0] & devices[1]
        # Setting a device down removes its addresses and routes, whoever had added them.
        touched = [command for command in commands if {"link", "qdisc"} & set(command[:3])]
        self._touched = {word for command in touched for word in command} & self._remaining

    def holds(self, was: Fact | None, found: Fact | None) -> bool:
        """Return whether the commands may have caused this difference."""
        fact = was or found
        assert fact is not None  # noqa: S101 - at least one of them exists
        lost = found is None and not fact["fleeting"] and fact["device"] in self._touched
        return lost or bool(getattr(self, f"_{fact['kind']}")(fact, found))

    def _device(self, fact: Fact, found: Fact | None) -> bool:
        return fact["device"] in self._names or (found is not None and found["index"] in self._made)

    def _address(self, fact: Fact, _: Fact | None) -> bool:
        return fact["device"] in self._remaining and fact["name"] in self._networks

    def _route(self, fact: Fact, found: Fact | None) -> bool:
        if fact["device"] and fact["device"] not in self._remaining:
            return False  # reported with the device
        if self._forwarding and fact["family"] == 6 and (found is None or not fact["fleeting"]):
            return True
        return fact["name"] in self._networks

    def _rule(self, _: Fact, __: Fact | None) -> bool:
        return self._rules

    def _setting(self, fact: Fact, _: Fact | None) -> bool:
        forwards = self._forwarding and fact["name"].endswith("/forwarding")
        return (forwards or fact["name"] in self._files) and fact["device"] in {*self._remaining, ""}

    def _features(self, fact: Fact, _: Fact | None) -> bool:
        return fact["device"] in self._remaining & self._names


def _networks(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word == "default":
            yield word
        with contextlib.suppress(ValueError):
            interface = ipaddress.ip_interface(word)
            yield from (str(interface.ip), str(interface.network), f"{interface.ip}/{interface.max_prefixlen}")


def _fact(kind: str, device: str, name: str, state: Mapping[str, str] | None = None, **more: Any) -> Fact:
    return {"kind": kind, "device": device, "name": name, "state": dict(state or {}), "fleeting": False, **more}


def _devices(links: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Fact]]:
    queues: dict[str, list[str]] = {}
    for queue in _query("tc", "qdisc", "show", optional=True):
        where = "root" if queue.get("root") else queue.get("parent", "")
        queues.setdefault(queue["dev"], []).append(f"{queue['kind']} at {where}" if where != "root" else queue["kind"])
    for link in links:
        name = link["ifname"]
        state = {
            "kind": link.get("linkinfo", {}).get("info_kind", link.get("link_type", "")),
            "MTU": str(link["mtu"]),
            "flags": " ".join(sorted(_FLAGS & set(link["flags"]))) or "none",
            "queueing": ", ".join(sorted(queues.get(name, [link.get("qdisc", "none")]))),
            "master": link.get("master", "none"),
            "hardware address": link.get("address", "none"),
        }
        yield f"device {name}", _fact("device", name, name, state, index=link["ifindex"])


def _addresses(links: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Fact]]:
    for link in links:
        for found in link.get("addr_info", ()):
            if "local" not in found:
                continue
            peer = f" peer {found['address']}" if "address" in found else ""
            subject = f"address {found['local']}{peer}/{found['prefixlen']} of device {link['ifname']}"
            fleeting = found.get("dynamic", False) or found.get("valid_life_time", _FOREVER) != _FOREVER
            state = {"scope": found["scope"]}
            yield subject, _fact("address", link["ifname"], found["local"], state, fleeting=fleeting)


def _paths(family: int) -> Iterator[tuple[str, Fact]]:
    """Yield the facts of routes and rules; rules are the entries with a priority."""
    for found in _query("ip", f"-{family}", "-force", "-batch", "-", requests="route show table all\nrule show\n"):
        if "priority" in found:
            text = " ".join(f"{key} {_text(value)}" for key, value in found.items())
            yield f"IPv{family} rule {text}", _fact("rule", "", text)
        elif (found.get("table"), found.get("protocol")) != ("local", "kernel"):  # those follow addresses
            yield _route(family, found)


def _route(family: int, route: Mapping[str, Any]) -> tuple[str, Fact]:
    kind = "" if route.get("type", "unicast") == "unicast" else f"{route['type']} "
    words = [f"{word} {_text(route[key])}" for key, word in _OF_ROUTES.items() if key in route]
    onlink = ["onlink"] if "onlink" in route.get("flags", ()) else []
    fleeting = "expires" in route or route.get("protocol") == "ra"
    fact = _fact("route", route.get("dev", ""), route["dst"], family=family, fleeting=fleeting)
    return " ".join(["route", f"{kind}{route['dst']}", *words, *onlink]), fact


def _forwarding() -> Iterator[tuple[str, Fact]]:
    for family in (4, 6):
        for path in SETTINGS.glob(f"net/ipv{family}/conf/*/forwarding"):
            yield from setting(str(path))


def setting(path: str) -> Iterator[tuple[str, Fact]]:
    """Yield the fact of a file below /proc/sys; nothing if there is no such file."""
    of_device = re.search(r"/net/ipv[46]/(?:conf|neigh)/(?!all/|default/)([^/]+)/", path)
    with contextlib.suppress(OSError):
        value = Path(path).read_text(encoding="ascii").strip()
        name = Path(path).relative_to(SETTINGS)
        yield f"setting {name}", _fact("setting", of_device[1] if of_device else "", path, {"value": value})


def device_features(device: str) -> Iterator[tuple[str, Fact]]:
    """Yield the fact of a device's features, see `features`; nothing if there is no such device."""
    with contextlib.suppress(OSError):
        yield f"features of device {device}", _fact("features", device, device, features(device).texts())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_text(each)}" for key, each in value.items() if each != [])
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


def _query(program: str, *words: str, requests: str = "", optional: bool = False) -> list[dict[str, Any]]:
    """Return the output of `ip` or `tc` for all `requests`; nothing if an optional program is missing."""
    argv = [program, "-j", *words]
    try:
        done = subprocess.run(argv, input=requests, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        if optional:
            return []
        raise LabError(f"program {program!r} is not installed (Debian: apt-get install iproute2)") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"{' '.join(argv)}: {error}") from None
    # A kernel without IPv6, or without rules, refuses the request and has none of them.
    found: list[dict[str, Any]] = []
    rest = done.stdout.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        found += [each for each in value if each]
        rest = rest[end:].strip()
    return found
