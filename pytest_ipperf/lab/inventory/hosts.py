"""Sections `[host NAME]` of the inventory."""

from __future__ import annotations

import re
import shlex

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_rate
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.inventory.addresses import literal, unfit
from pytest_ipperf.lab.inventory.ini_reader import Section, listed
from pytest_ipperf.lab.inventory.model import DEFAULT_PORTS, Host
from pytest_ipperf.lab.inventory.snmp_source import read_source
from pytest_ipperf.lab.inventory.tunnel_paths import TUNNELLED, read_device
from pytest_ipperf.servers import SERVERS

_LONGEST_COMMAND = 4096

HOST_KEYS = frozenset(
    {
        *("way", "ipv4", "ipv6", "ports", "cpus", "sudo", "servers", "max_connections", "max_rate", "reboot", "snmp"),
        *TUNNELLED,
    }
)
"""Keys of every host, in addition to those of its access method."""


def read_host(section: Section) -> Host:
    """Return the host of a section; UsageError if a key is invalid."""
    keys = section.keys
    way_name = keys.get("way", "local")
    choices = [each for each in ACCESS_METHODS if ACCESS_METHODS[each].in_inventory]
    if way_name not in choices:
        raise section.wrong(f"way {way_name!r} does not exist; there are {', '.join(choices)}")
    way = ACCESS_METHODS[way_name]
    _check_way(section, way_name, choices)
    section.known(HOST_KEYS | way.keys)
    settings = {key: value for key, value in keys.items() if key in way.keys}
    if trouble := way.trouble(settings):
        raise section.wrong(trouble)
    with section.at():
        tunnels = {each: read_device(each, keys[each]) for each in TUNNELLED if each in keys}
    host = Host(
        name=section.name,
        way=way_name,
        ipv4=_address(section, 4),
        ipv6=_address(section, 6),
        ports=_ports(section),
        cpus=_cpus(section),
        tunnels=tunnels,
        sudo=_sudo(section),
        servers=_servers(section),
        most_connections=_most_connections(section),
        most_rate_bit_s=_most_rate_bit_s(section),
        reboot=_reboot(section, way_name),
        snmp=_snmp(section),
        settings=settings,
    )
    _check_distinct(section, host)
    return host


def _check_way(section: Section, way_name: str, choices: list[str]) -> None:
    """Raise UsageError for a key of another access method, naming the method that was meant."""
    for key in section.keys:
        meant = [each for each in choices if key in ACCESS_METHODS[each].keys]
        if key in HOST_KEYS or not meant or way_name in meant:
            continue
        remedy = f"this host has way = {way_name}; correct one of the two" if "way" in section.keys else "add that line"
        raise section.wrong(f"key {key!r} belongs to way = {meant[0]}; {remedy}", key)


def _check_distinct(section: Section, host: Host) -> None:
    """Raise UsageError if two arms share a device or an address; their routes could not be told apart."""
    owners, devices = {host.ipv6: "ipv6"}, dict[str, str]()
    for transport, (device, address) in host.tunnels.items():
        if device in devices:
            raise section.wrong(f"{transport} has the device {device} of {devices[device]}; give each its own")
        devices[device] = transport
        if address in owners:
            raise section.wrong(f"{transport} has the address {address} of {owners[address]}; give each its own")
        owners[address] = transport


def _address(section: Section, version: int) -> str:
    key = f"ipv{version}"
    written = section.keys.get(key, "")
    if not written:
        return ""
    text = literal(written, version)
    if not text:
        raise section.wrong(f"{key} = {written!r} is not a literal IPv{version} address")
    if why := unfit(text):
        raise section.wrong(f"{key} = {text!r} is {why}; give an address of one network interface")
    return text


def _ports(section: Section) -> tuple[int, int]:
    text = section.keys.get("ports")
    if text is None:
        return DEFAULT_PORTS
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < low <= high < 65536:
        raise section.wrong(f"ports = {text!r} is not a range of ports such as 20000-29999")
    return low, high


def _cpus(section: Section) -> tuple[int, ...]:
    text = section.keys.get("cpus")
    if text is None:
        return ()
    if not re.fullmatch(r"\d{1,6}(,\s*\d{1,6})*", text, re.ASCII):
        raise section.wrong(f"cpus = {text!r} is not a list of processor numbers such as 0,1")
    return tuple(map(int, text.split(",")))


def _sudo(section: Section) -> bool:
    text = section.keys.get("sudo", "no")
    if text not in ("yes", "no"):
        raise section.wrong(f"sudo = {text!r} is neither yes nor no")
    return text == "yes"


def _servers(section: Section) -> tuple[str, ...] | None:
    text = section.keys.get("servers")
    if text is None:
        return None
    names = listed(text)
    for name in names:
        if name not in SERVERS:
            raise section.wrong(f"servers = {text!r}: {name!r} does not exist; there are {', '.join(SERVERS)}")
    return tuple(dict.fromkeys(names))


def _most_connections(section: Section) -> int:
    text = section.keys.get("max_connections")
    if text is None:
        return 0
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise section.wrong(f"max_connections = {text!r} is not a number of connections such as 1000")
    return int(text)


def _most_rate_bit_s(section: Section) -> float:
    text = section.keys.get("max_rate")
    if text is None:
        return 0.0
    with section.at("max_rate"):
        return parse_rate(text)


def _reboot(section: Section, way: str) -> str:
    text = section.keys.get("reboot")
    if text is None:
        return ""
    if not ACCESS_METHODS[way].far:
        raise section.wrong(f"reboot = {text!r} would end pytest, which runs on this machine; give it to another host")
    if len(text) > _LONGEST_COMMAND:  # splitting takes quadratic time
        raise section.wrong(f"reboot = {text!r} is longer than {_LONGEST_COMMAND} characters")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise section.wrong(f"reboot = {text!r} cannot be split into words ({str(error).lower()})") from None
    if not words or not words[0] or not "".join(words).isprintable():
        raise section.wrong(f"reboot = {text!r} is not a command such as 'sudo -n systemctl reboot'")
    return text


def _snmp(section: Section) -> str:
    text = section.keys.get("snmp")
    if text is None:
        return ""
    try:
        return read_source(text)
    except UsageError as error:
        raise section.wrong(f"snmp {error}") from None
