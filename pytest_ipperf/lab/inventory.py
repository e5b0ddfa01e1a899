"""The inventory: testbeds and their hosts, as `hosts.ini` describes them beside the built-in ones."""

from __future__ import annotations

import configparser
import ipaddress
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.lab.labs import BUILTIN
from pytest_ipperf.lab.testbed import DEFAULT_PORTS, Host, Testbed
from pytest_ipperf.lab.ways import WAYS

_HOST_KEYS = {"way", "ipv4", "ipv6", "ports", "cpus"}
_TESTBED_KEYS = {"client", "server", "domain"}
_NAME = re.compile(r"[A-Za-z0-9_.]+")


def read_inventory(path: Path) -> dict[str, Testbed]:
    """The built-in testbeds and those of the file; UsageError with section and key where a line makes no sense."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#", ";"), interpolation=None, default_section="", strict=True
    )
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name an inventory with --ipperf-hosts") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except configparser.Error as error:
        raise UsageError(f"{path}, {_misread(error)}") from error
    sections = {name: dict(parser[name]) for name in parser.sections()}
    hosts = {name: _host(path, name, keys) for kind, name, keys in _of(path, sections) if kind == "host"}
    found = dict(BUILTIN)
    for kind, name, keys in _of(path, sections):
        if kind == "testbed":
            found[name] = _testbed(path, name, keys, hosts)
    return found


def _misread(error: configparser.Error) -> str:
    match error:
        case configparser.DuplicateSectionError():
            return f"line {error.lineno}: section [{error.section}] is there already; give it once"
        case configparser.DuplicateOptionError():
            return f"line {error.lineno}: key {error.option!r} is in [{error.section}] already; give it once"
        case configparser.MissingSectionHeaderError():
            return f"line {error.lineno}: {error.line.strip()!r} comes before the first section, such as [host NAME]"
        case configparser.ParsingError():
            number, line = error.errors[0]
            return f"line {number}: {line} is neither [host NAME], [testbed NAME] nor KEY = VALUE"
    return " ".join(str(error).split())


def _of(path: Path, sections: Mapping[str, dict[str, str]]) -> list[tuple[str, str, dict[str, str]]]:
    found = []
    for section, keys in sections.items():
        kind, _, name = section.partition(" ")
        if kind not in ("host", "testbed") or not _NAME.fullmatch(name):
            raise UsageError(
                f"{path}: section [{section}] is neither [host NAME] nor [testbed NAME], "
                "with a name of letters, digits, '_' and '.'"
            )
        if kind == "testbed" and name in BUILTIN:
            raise UsageError(f"{path}: [{section}] takes the name of a built-in testbed; choose another")
        found.append((kind, name, keys))
    return found


def _known(where: str, keys: Mapping[str, str], allowed: set[str]) -> None:
    for key in keys:
        if key not in allowed:
            raise UsageError(f"{where}: key {key!r} is unknown; there are {', '.join(sorted(allowed))}")


def _host(path: Path, name: str, keys: dict[str, str]) -> Host:
    where = f"{path}: [host {name}]"
    way_name = keys.get("way", "local")
    choices = [each for each in WAYS if WAYS[each].in_inventory]
    if way_name not in choices:
        raise UsageError(f"{where}: way {way_name!r} does not exist; there are {', '.join(choices)}")
    way = WAYS[way_name]
    _known(where, keys, _HOST_KEYS | set(way.keys))
    settings = {key: value for key, value in keys.items() if key in way.keys}
    if trouble := way.trouble(settings):
        raise UsageError(f"{where}: {trouble}")
    return Host(
        name=name,
        way=way_name,
        ipv4=_address(where, keys, 4),
        ipv6=_address(where, keys, 6),
        ports=_ports(where, keys.get("ports")),
        cpus=_cpus(where, keys.get("cpus")),
        settings=settings,
    )


def _address(where: str, keys: Mapping[str, str], version: int) -> str:
    text = keys.get(f"ipv{version}", "")
    if text:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            address = None
        if address is None or address.version != version:
            raise UsageError(f"{where}: ipv{version} = {text!r} is not a literal IPv{version} address")
        # 2001:db8:0::1 and 2001:DB8::1 are one address; sockets tell it as the kernel writes it.
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        text = socket.inet_ntop(family, address.packed)
        if why := _unfit(address):
            raise UsageError(f"{where}: ipv{version} = {text!r} is {why}; give an address of one network interface")
    return text


def _unfit(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Why a host cannot be measured at that address, as the end of a sentence; empty where it can."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return "an IPv4 address in the clothes of IPv6, and what goes there is IPv4"
        if address.is_link_local:
            return "a link-local address, which means nothing without an interface"
    if address.is_multicast or address.is_unspecified:
        return "the address of no single host"
    return ""


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


def _testbed(path: Path, name: str, keys: dict[str, str], hosts: Mapping[str, Host]) -> Testbed:
    where = f"{path}: [testbed {name}]"
    _known(where, keys, _TESTBED_KEYS)
    for role in ("client", "server"):
        if role not in keys:
            raise UsageError(f"{where}: key {role!r} is missing; it names a [host ...] section")
        if keys[role] not in hosts:
            known = ", ".join(sorted(hosts)) or "none"
            raise UsageError(f"{where}: {role} = {keys[role]!r} is no [host ...] section; there are: {known}")
    return Testbed(name=name, client=hosts[keys["client"]], server=hosts[keys["server"]], domain=keys.get("domain", ""))
