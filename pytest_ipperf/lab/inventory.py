"""The inventory: testbeds and their hosts, as `hosts.ini` describes them beside the built-in ones."""

from __future__ import annotations

import configparser
import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.units import parse_percent, parse_seconds
from pytest_ipperf.lab.addresses import literal, unfit
from pytest_ipperf.lab.labs import BUILTIN, ends_in_rate, lab, link_rate
from pytest_ipperf.lab.paths import TUNNELLED, paths, read_device
from pytest_ipperf.lab.testbed import AUTO, DEFAULT_PORTS, Host, Links, Testbed
from pytest_ipperf.lab.ways import WAYS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

_HOST_KEYS = {"way", "ipv4", "ipv6", "ports", "cpus", *TUNNELLED}
_TESTBED_KEYS = {CLIENT, SERVER, ROUTER, "domain", "backend", *TUNNELLED}
_LAB_KEYS = {"nodes", "rate", "loss", "delay", "backend"}
_LONGEST_DELAY_S = 0.25  # what proves a path waits no longer for a packet
_COMMENTS = ("#", ";")
_NAME = re.compile(r"[A-Za-z0-9_.]+")


def read_inventory(path: Path) -> dict[str, Testbed]:
    """The built-in testbeds and those of the file; UsageError with section and key where a line makes no sense."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=_COMMENTS, inline_comment_prefixes=_COMMENTS, interpolation=None,
        default_section="", strict=True,
    )  # fmt: skip
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of other systems begin it with a mark
        parser.read_string(text, source=str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name an inventory with --ipperf-hosts") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except configparser.Error as error:
        raise UsageError(f"{path}, {_misread(error, text)}") from error
    sections = _of(path, {name: dict(parser[name]) for name in parser.sections()})
    hosts = {name: _host(f"{path}: [host {name}]", name, keys) for kind, name, keys in sections if kind == "host"}
    found = dict(BUILTIN)
    for kind, name, keys in sections:
        where = f"{path}: [{kind} {name}]"
        if kind == "testbed":
            found[name] = _testbed(where, name, keys, hosts)
        elif kind == "lab":
            found[name] = _lab(where, name, keys)
    return found


def _misread(error: configparser.Error, text: str) -> str:
    match error:
        case configparser.DuplicateSectionError():
            return f"line {error.lineno}: section [{error.section}] is there already; give it once"
        case configparser.DuplicateOptionError():
            return f"line {error.lineno}: key {error.option!r} is in [{error.section}] already; give it once"
        case configparser.MissingSectionHeaderError():
            return f"line {error.lineno}: {error.line.strip()!r} comes before the first section, such as [host NAME]"
        case configparser.ParsingError():
            number, _ = error.errors[0]
            line = text.split("\n")[number - 1].strip()
            return f"line {number}: {line!r} is neither [host NAME], [testbed NAME], [lab NAME] nor KEY = VALUE"
    return " ".join(str(error).split())


def _of(path: Path, sections: Mapping[str, dict[str, str]]) -> list[tuple[str, str, dict[str, str]]]:
    found: list[tuple[str, str, dict[str, str]]] = []
    for section, keys in sections.items():
        kind, _, name = section.partition(" ")
        if kind not in ("host", "testbed", "lab") or not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: section [{section}] is neither [host NAME], [testbed NAME] nor [lab NAME], "
                "with a name of letters, digits, '_' and '.'"
            )
        if kind != "host" and name in BUILTIN:
            raise UsageError(f"{path}: [{section}] takes the name of a built-in testbed; choose another")
        if kind != "host" and ends_in_rate(name):
            raise UsageError(f"{path}: [{section}] takes the name that a lab has with a rate; choose another")
        if kind != "host" and any(name == other and kind_of != "host" for kind_of, other, _ in found):
            raise UsageError(f"{path}: [{section}] takes the name of another testbed; choose another")
        found.append((kind, name, keys))
    return found


def _known(where: str, keys: Mapping[str, str], allowed: set[str]) -> None:
    for key in keys:
        if key not in allowed:
            raise UsageError(f"{where}: key {key!r} is unknown; there are {', '.join(sorted(allowed))}")


@contextlib.contextmanager
def _at(where: str) -> Iterator[None]:
    """Has every sentence about a value say where it stands."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _host(where: str, name: str, keys: dict[str, str]) -> Host:
    way_name = keys.get("way", "local")
    choices = [each for each in WAYS if WAYS[each].in_inventory]
    if way_name not in choices:
        raise UsageError(f"{where}: way {way_name!r} does not exist; there are {', '.join(choices)}")
    way = WAYS[way_name]
    _known(where, keys, _HOST_KEYS | set(way.keys))
    settings = {key: value for key, value in keys.items() if key in way.keys}
    if trouble := way.trouble(settings):
        raise UsageError(f"{where}: {trouble}")
    with _at(where):
        tunnels = {each: read_device(each, keys[each]) for each in TUNNELLED if each in keys}
    host = Host(
        name=name,
        way=way_name,
        ipv4=_address(where, keys, 4),
        ipv6=_address(where, keys, 6),
        ports=_ports(where, keys.get("ports")),
        cpus=_cpus(where, keys.get("cpus")),
        tunnels=tunnels,
        settings=settings,
    )
    _check_distinct(where, host)
    return host


def _check_distinct(where: str, host: Host) -> None:
    """The kernel finds a route by the address, so two arms with one address would be one arm."""
    owners = {host.ipv6: "ipv6"}
    for transport, (_, address) in host.tunnels.items():
        if address in owners:
            raise UsageError(f"{where}: {transport} has the address {address} of {owners[address]}; give each its own")
        owners[address] = transport


def _address(where: str, keys: Mapping[str, str], version: int) -> str:
    written = keys.get(f"ipv{version}", "")
    if not written:
        return ""
    text = literal(written, version)
    if not text:
        raise UsageError(f"{where}: ipv{version} = {written!r} is not a literal IPv{version} address")
    if why := unfit(text):
        raise UsageError(f"{where}: ipv{version} = {text!r} is {why}; give an address of one network interface")
    return text


def _ports(where: str, text: str | None) -> tuple[int, int]:
    if text is None:
        return DEFAULT_PORTS
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < low <= high < 65536:
        raise UsageError(f"{where}: ports = {text!r} is not a range of ports such as 20000-29999")
    return low, high


def _cpus(where: str, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    if not re.fullmatch(r"\d+(,\s*\d+)*", text):
        raise UsageError(f"{where}: cpus = {text!r} is not a list of processor numbers such as 0,1")
    return tuple(map(int, text.split(",")))


def _testbed(where: str, name: str, keys: dict[str, str], hosts: Mapping[str, Host]) -> Testbed:
    _known(where, keys, _TESTBED_KEYS)
    for role in (CLIENT, SERVER):
        if role not in keys:
            raise UsageError(f"{where}: key {role!r} is missing; it names a [host ...] section")
    named = {role: keys[role] for role in (CLIENT, SERVER, ROUTER) if role in keys}
    for role, host in named.items():
        if host not in hosts:
            known = ", ".join(sorted(hosts)) or "none"
            raise UsageError(f"{where}: {role} = {host!r} is no [host ...] section; there are: {known}")
        if role == ROUTER and host in (named[CLIENT], named[SERVER]):
            other = CLIENT if host == named[CLIENT] else SERVER
            raise UsageError(f"{where}: router = {host!r} is the {other}; it has to be a host of its own")
    roles = {role: hosts[host] for role, host in named.items()}
    with _at(where):
        found = paths(roles, {each: keys[each] for each in TUNNELLED if each in keys})
    return Testbed(
        name=name,
        client=roles[CLIENT],
        server=roles[SERVER],
        router=roles.get(ROUTER),
        domain=keys.get("domain", ""),
        paths=found,
        backend=_backend(where, keys),
    )


def _lab(where: str, name: str, keys: dict[str, str]) -> Testbed:
    _known(where, keys, _LAB_KEYS)
    nodes = keys.get("nodes", "3")
    if nodes not in {"2", "3"}:
        raise UsageError(f"{where}: nodes = {nodes!r} is neither 2 nor 3; the third one is a router")
    with _at(where):
        rate_bit_s = link_rate(keys["rate"]) if "rate" in keys else 0.0
        loss = parse_percent(keys["loss"]) if "loss" in keys else 0.0
        delay_s = parse_seconds(keys["delay"]) if "delay" in keys else 0.0
    if loss >= 1:
        raise UsageError(f"{where}: loss = {keys['loss']!r} lets nothing through; it has to be below 100%")
    if delay_s > _LONGEST_DELAY_S:
        raise UsageError(
            f"{where}: delay = {keys['delay']!r} is too long; it may be up to {1000 * _LONGEST_DELAY_S:g}ms"
        )
    links = Links(rate_bit_s=rate_bit_s, loss=loss, delay_s=delay_s)
    return lab(name, int(nodes), links, _backend(where, keys))


def _backend(where: str, keys: Mapping[str, str]) -> str:
    choices = (AUTO, *BACKENDS)
    wanted = keys.get("backend", AUTO)
    if wanted not in choices:
        raise UsageError(f"{where}: backend = {wanted!r} does not exist; there are {', '.join(choices)}")
    return wanted
