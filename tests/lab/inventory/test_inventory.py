"""The message for every invalid `hosts.ini`, and the meaning of valid ones."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.inventory import HOST_KEYS as KEYS_OF_HOSTS
from pytest_ipperf.lab.inventory import LAB_KEYS, TESTBED_KEYS, read_inventory
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.inventory.ini_reader import read_sections
from pytest_ipperf.lab.inventory.model import DEFAULT_PORTS, Host, Links
from pytest_ipperf.lab.inventory.snmp_source import Source
from pytest_ipperf.servers import SERVERS
from tests.support.needs import needs

GOOD = """
# two machines in one room
[testbed office]
client = alpha
server = beta
domain = floor1

[testbed alone]
client = alpha
server = alpha

[host alpha]
way = local
ipv4 = 192.0.2.10
ipv6 = 2001:db8::10
ports = 21000-21999
cpus = 0, 2

[host beta]
way = ssh
ssh = admin@beta.example.org
python = /usr/bin/python3.11
ipv4 = 192.0.2.20
"""
NEITHER = "is neither [host NAME], [testbed NAME] nor [lab NAME], with a name of letters, digits, '_' and '.'"
ONE = "give an address of one network interface"
SNMP = "is not of the form COMMUNITY@ADDRESS, such as public@192.0.2.1, public@192.0.2.1:1161 or public@[2001:db8::1]"
BACKED = ", ".join(["auto", *BACKENDS])
HOST_KEYS = "cpus, ipv4, ipv6, isatap, max_connections, max_rate, ports, reboot, servers, snmp, sudo, tunnel, way"
SSH_KEYS = (
    "cpus, ipv4, ipv6, isatap, max_connections, max_rate, ports, python, reboot, servers, snmp, ssh, ssh_config, sudo, "
    "tunnel, way"
)
HOST = "[host alpha]\n"
SSH = "[host alpha]\nway = ssh\n"


@pytest.fixture
def read(tmp_path):
    """Read an inventory of that text."""
    path = tmp_path / "hosts.ini"

    def reading(text):
        path.write_text(text, encoding="utf-8")
        return read_inventory(path)

    return reading


@pytest.fixture
def refused(read, tmp_path):
    """Return the error for an inventory of that text, without the file's name."""

    def reading(text):
        with pytest.raises(UsageError) as caught:
            read(text)
        sentence = str(caught.value)
        assert sentence.startswith(str(tmp_path / "hosts.ini"))
        assert "\n" not in sentence
        return sentence.removeprefix(str(tmp_path / "hosts.ini"))

    return reading


def reported(text, section, sentence):
    """Format an error about a section of that text, with the line of the key that it names first, or of the header."""
    start = text.index(f"[{section}]")
    key = sentence.partition("key '")[2].partition("'")[0] if sentence.startswith("key") else sentence.split()[0]
    found = re.search(rf"^{re.escape(key)} *=", text[start:].partition("\n[")[0], re.MULTILINE)
    line = text[: start + (found.start() if found else 0)].count("\n") + 1
    return f", line {line}: [{section}]: {sentence}"


def test_a_good_file_adds_its_testbeds_to_the_built_in_ones(read):
    found = read(GOOD)
    assert set(found) == {"lab", "pair", "loopback", "office", "alone"}
    assert {name: found[name] for name in BUILTIN} == BUILTIN
    office = found["office"]
    assert office.client == Host(
        name="alpha", way="local", ipv4="192.0.2.10", ipv6="2001:db8::10", ports=(21000, 21999), cpus=(0, 2),
        settings={},
    )  # fmt: skip
    assert office.server.settings == {"ssh": "admin@beta.example.org", "python": "/usr/bin/python3.11"}
    assert (office.server.ports, office.server.cpus) == (DEFAULT_PORTS, ())
    assert office.hosts == (office.client, office.server)
    assert not office.exclusive


def test_an_empty_file_leaves_the_built_in_testbeds(read):
    assert read("# nothing yet\n; nor here\n") == BUILTIN


def test_a_testbed_tells_which_arms_it_lacks(read):
    office = read(GOOD)["office"]
    assert office.lacks(Arm(4, "native")) == ""
    assert office.lacks(Arm(6, "native")) == "testbed office has no IPv6: host beta has no ipv6 in hosts.ini"
    for transport in ("tunnel", "isatap"):
        remedy = f"give it a key {transport} in hosts.ini, or its hosts a device"
        assert office.lacks(Arm(6, transport)) == f"testbed office has no {transport}: {remedy}"
        for name in ("alone", "loopback"):
            plain = f"testbed {name} has no {transport}: its client and server are one host"
            assert read(GOOD)[name].lacks(Arm(6, transport)) == plain
        for name in ("lab", "pair"):
            assert BUILTIN[name].lacks(Arm(6, transport)) == ""
    for testbed in BUILTIN.values():
        assert testbed.lacks(Arm(4, "native")) == testbed.lacks(Arm(6, "native")) == ""


@needs("ssh")
def test_a_testbed_names_the_machines_and_links_that_it_needs_for_itself(read):
    found = read(GOOD)
    assert found["office"].guarded == {"this machine", "ssh beta.example.org port 22", "domain floor1"}
    assert found["alone"].guarded == {"this machine"}
    assert found["lab"].guarded == found["loopback"].guarded == {"this machine"}


def test_only_addresses_for_benchmarks_are_in_the_lab():
    for name in ("lab", "pair"):
        testbed = BUILTIN[name]
        addresses = [host.address(version) for host in testbed.hosts for version in (4, 6)]
        addresses += [address for path in testbed.paths.values() for address in (path.client, path.server)]
        assert len(set(addresses)) == 2 * len(testbed.hosts) + 2 * len(testbed.paths)
        assert all(address.startswith(("198.18.", "198.19.", "2001:2:0:")) for address in addresses)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("client = alpha\n", ", line 1: 'client = alpha' comes before the first section, such as [host NAME]"),
        ("[host a]\n\nnonsense\n",
         ", line 3: 'nonsense' is neither [host NAME], [testbed NAME], [lab NAME] nor KEY = VALUE"),
        ("[host a]\n[host b]\n[host a]\n", ", line 3: section [host a] is there already, in line 1; give it once"),
        ("[host a]\nipv4 = 192.0.2.1\nipv4 = 192.0.2.2\n",
         ", line 3: key 'ipv4' is in [host a] already, in line 2; give it once"),
        ("[hosts alpha]\n", f", line 1: section [hosts alpha] {NEITHER}"),
        ("[DEFAULT]\n", f", line 1: section [DEFAULT] {NEITHER}"),
        ("[host]\n", f", line 1: section [host] {NEITHER}"),
        ("[host a-b]\n", f", line 1: section [host a-b] {NEITHER}"),
        ("[testbed lab]\n", ", line 1: [testbed lab] takes the name of a built-in testbed; choose another"),
        ("[testbed loopback]\n", ", line 1: [testbed loopback] takes the name of a built-in testbed; choose another"),
        ("[lab pair]\n", ", line 1: [lab pair] takes the name of a built-in testbed; choose another"),
        ("[lab one]\n[testbed one]\n",
         ", line 2: [testbed one] takes the name of another testbed, in line 1; choose another"),
        ("[lab lab.1.5mbit]\n",
         ", line 1: [lab lab.1.5mbit] takes the name that a lab has with a rate; choose another"),
        ("[lab a.100mbit]\n[lab a]\n",
         ", line 1: [lab a.100mbit] takes the name that a lab has with a rate; choose another"),
        ("[lab far.2mbit]\nrate = 1mbit\n",
         ", line 1: [lab far.2mbit] takes the name that a lab has with a rate; choose another"),
        ("[testbed a.1kbit]\n",
         ", line 1: [testbed a.1kbit] takes the name that a lab has with a rate; choose another"),
    ],
)  # fmt: skip
def test_a_section_that_makes_no_sense_is_told_with_its_line_or_name(refused, text, sentence):
    assert refused(text) == sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("way = telnet\n", "way 'telnet' does not exist; there are local, ssh"),
        ("way = namespace\n", "way 'namespace' does not exist; there are local, ssh"),
        ("colour = red\n", f"key 'colour' is unknown; there are {HOST_KEYS}"),
        ("ssh = beta\n", "key 'ssh' belongs to way = ssh; add that line"),
        ("ssh_config = /x\nssh = beta\n", "key 'ssh_config' belongs to way = ssh; add that line"),
        ("ipv4 = 2001:db8::1\n", "ipv4 = '2001:db8::1' is not a literal IPv4 address"),
        ("ipv6 = 192.0.2.1\n", "ipv6 = '192.0.2.1' is not a literal IPv6 address"),
        ("ipv4 = alpha.example.org\n", "ipv4 = 'alpha.example.org' is not a literal IPv4 address"),
        ("ipv4 = 192.0.2.1# office\n", "ipv4 = '192.0.2.1# office' is not a literal IPv4 address"),
        ("ipv4 = 192.0.2.010\n", "ipv4 = '192.0.2.010' is not a literal IPv4 address"),
        ("ipv6 = ::ffff:192.0.2.1\n",
         f"ipv6 = '::ffff:192.0.2.1' is an IPv4-mapped address, whose traffic is IPv4; {ONE}"),
        ("ipv6 = fe80::1%eth0\n",
         f"ipv6 = 'fe80::1' is a link-local address, which means nothing without an interface; {ONE}"),
        ("ipv4 = 0.0.0.0\n", f"ipv4 = '0.0.0.0' is not the address of a single host; {ONE}"),
        ("ipv6 = ff02::1\n", f"ipv6 = 'ff02::1' is not the address of a single host; {ONE}"),
        ("ports = 80-\n", "ports = '80-' is not a range of ports such as 20000-29999"),
        ("ports = 29999-20000\n", "ports = '29999-20000' is not a range of ports such as 20000-29999"),
        ("ports = 0-100\n", "ports = '0-100' is not a range of ports such as 20000-29999"),
        ("ports = 65535-65536\n", "ports = '65535-65536' is not a range of ports such as 20000-29999"),
        ("ports =\n", "ports = '' is not a range of ports such as 20000-29999"),
        ("cpus = 0-3\n", "cpus = '0-3' is not a list of processor numbers such as 0,1"),
        ("cpus = all\n", "cpus = 'all' is not a list of processor numbers such as 0,1"),
        ("cpus = -1\n", "cpus = '-1' is not a list of processor numbers such as 0,1"),
        ("sudo = true\n", "sudo = 'true' is neither yes nor no"),
        ("servers = apache, exim\n",
         f"servers = 'apache, exim': 'exim' does not exist; there are {', '.join(SERVERS)}"),
        ("servers =\n", f"servers = '': '' does not exist; there are {', '.join(SERVERS)}"),
        ("servers = apache,\n", f"servers = 'apache,': '' does not exist; there are {', '.join(SERVERS)}"),
        ("max_connections = 0\n", "max_connections = '0' is not a number of connections such as 1000"),
        ("max_connections = 1k\n", "max_connections = '1k' is not a number of connections such as 1000"),
        ("max_connections = -1\n", "max_connections = '-1' is not a number of connections such as 1000"),
        ("max_rate = 100M\n",
         "max_rate: rate '100M' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("max_rate = 100\n", "max_rate: rate '100' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("max_rate = 0mbit\n",
         "max_rate: rate '0mbit' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("reboot = reboot\n",
         "reboot = 'reboot' would end pytest, which runs on this machine; give it to another host"),
        ("snmp = public\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        ("snmp =\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        ("snmp = secret@\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        ("snmp = secret@switch.example.org\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        ("snmp = secret@2001:db8::1\n", f"snmp = '...@2001:db8::1' {SNMP}"),
        ("snmp = secret@[192.0.2.1]\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        *((f"snmp = {swapped}\n", f"snmp (its value is not shown, as it may be a community) {SNMP}")
          for swapped in ("192.0.2.1@s3cret", "[2001:db8::1]@s3cret", "192.0.2.1@4711", "192.0.2.1:161@s3@cret")),
        ("snmp = secret@192.0.2.1:0\n", f"snmp = '...@192.0.2.1:0' {SNMP}"),
        ("snmp = secret@192.0.2.1:65536\n", f"snmp = '...@192.0.2.1:65536' {SNMP}"),
        ("snmp = secret@192.0.2.1 -v\n", f"snmp (its value is not shown, as it may be a community) {SNMP}"),
        ("snmp = secret@[ff02::1]\n", f"snmp = '...@[ff02::1]' is not the address of a single host; {ONE}"),
        *((f"snmp = {community}@192.0.2.1\n",
           "snmp = '...@192.0.2.1' has a community with a space, a quote, a backslash or # in it, or none")
          for community in ("", "two words", 'a"b', "a'b", "a\\b", "a#b", "caf\xe9")),
    ],
)  # fmt: skip
def test_a_key_of_a_host_that_makes_no_sense_is_told_with_its_value(refused, keys, sentence):
    assert refused(HOST + keys) == f", line 2: [host alpha]: {sentence}"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("", "key 'ssh' is missing; it is what you would type after `ssh`, such as user@host"),
        ("ssh = -oProxyCommand=touch /tmp/x\n",
         "ssh = '-oProxyCommand=touch /tmp/x' is not of a form such as user@host"),
        ("ssh = -oProxyCommand=id\n", "ssh = '-oProxyCommand=id' is not of a form such as user@host"),
        ("ssh = a//b\n", "ssh = 'a//b' is not of a form such as user@host"),
        ("ssh = a//python=touch\n", "ssh = 'a//python=touch' is not of a form such as user@host"),
        ("ssh = beta -p 22\n", "ssh = 'beta -p 22' is not of a form such as user@host"),
        ("ssh = beta;id\n", "ssh = 'beta;id' is not of a form such as user@host"),
        ("ssh = beta\n  -v\n", "ssh = 'beta\\n-v' is not of a form such as user@host"),
        ("ssh = \n", "ssh = '' is not of a form such as user@host"),
        *((f"ssh = {written}\n", f"ssh = '{written}' has a port, which only a URI can have; write ssh://{written}")
          for written in ("root@client1:2222", "client1:22", "192.0.2.1:22", "root@[2001:db8::1]:2222")),
        *((f"ssh = beta\npython = {written}\n",
           f"python = '{written}' begins with ~, which is not expanded; give the full path")
          for written in ("~/venv/bin/python", "~me/python", "~")),
        ("ssh = beta\npython = python3 -x\n",
         "python = 'python3 -x' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = python3;id\n",
         "python = 'python3;id' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = $(id)\n", "python = '$(id)' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = -c\n", "python = '-c' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\nreboot =\n", "reboot = '' is not a command such as 'sudo -n systemctl reboot'"),
        ("ssh = beta\nreboot = ''\n", "reboot = \"''\" is not a command such as 'sudo -n systemctl reboot'"),
        ("ssh = beta\nreboot = echo 'x\n", "reboot = \"echo 'x\" cannot be split into words (no closing quotation)"),
        ("ssh = beta\nreboot = a\x07\n", "reboot = 'a\\x07' is not a command such as 'sudo -n systemctl reboot'"),
        ("ssh = beta\nssh_config = a b\n", "ssh_config = 'a b' is not of a form such as /etc/lab/ssh_config"),
        ("ssh = beta\nssh_config = -oProxyCommand=id\n",
         "ssh_config = '-oProxyCommand=id' is not of a form such as /etc/lab/ssh_config"),
        ("ssh = beta\nssh_config = -Gv\n", "ssh_config = '-Gv' is not of a form such as /etc/lab/ssh_config"),
        ("ssh = beta\nssh_config = ~no-such-user/config\n",
         "ssh_config = '~no-such-user/config' is in the home of a user who does not exist here"),
        ("ssh = beta\nnode = client\n", f"key 'node' is unknown; there are {SSH_KEYS}"),
    ],
)  # fmt: skip
def test_no_destination_can_be_taken_for_an_option_or_a_command(refused, keys, sentence):
    assert refused(SSH + keys) == reported(SSH + keys, "host alpha", sentence)


@needs("ssh")
@pytest.mark.parametrize("destination", ["beta", "admin@beta.example.org", "admin@192.0.2.1", "2001:db8::1", "a_b-c"])
def test_what_ssh_takes_as_a_destination_may_stand_there(read, destination):
    found = read(f"{SSH}ssh = {destination}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.settings == {"ssh": destination}
    assert found["t"].guarded == {f"ssh {destination.removeprefix('admin@')} port 22"}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("server = alpha\n", "key 'client' is missing; it names a [host ...] section"),
        ("client = alpha\n", "key 'server' is missing; it names a [host ...] section"),
        ("client = alpha\nserver = beta\n", "server = 'beta' is not a [host ...] section; there are: alpha"),
        ("client = alpha\nserver = alpha\nswitch = alpha\n",
         "key 'switch' is unknown; there are backend, client, domain, isatap, router, server, tunnel"),
        ("client = alpha\nserver = alpha\nrouter = gamma\n",
         "router = 'gamma' is not a [host ...] section; there are: alpha"),
        ("client = alpha\nserver = alpha\nrouter = alpha\n",
         "router = 'alpha' is the client; it must be a separate host"),
        ("client = alpha\nserver = alpha\nbackend = tun\n", f"backend = 'tun' does not exist; there are {BACKED}"),
    ],
)  # fmt: skip
def test_a_testbed_without_its_hosts_is_told(refused, keys, sentence):
    text = f"{HOST}[testbed office]\n{keys}"
    assert refused(text) == reported(text, "testbed office", sentence)


def test_a_testbed_in_a_file_without_hosts_is_told(refused):
    sentence = ", line 2: [testbed office]: client = 'alpha' is not a [host ...] section; there are: none"
    assert refused("[testbed office]\nclient = alpha\nserver = alpha\n") == sentence


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2001:DB8:0:0::1", "2001:db8::1"), ("2001:db8:0000::0001", "2001:db8::1"), ("::1", "::1")],
)
def test_an_address_is_kept_as_sockets_tell_it(read, written, meant):
    """Otherwise the path verification would not recognise it."""
    found = read(f"{HOST}ipv6 = {written}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.ipv6 == meant


@pytest.mark.parametrize(("written", "meant"), [("5000", (5000, 5000)), ("1-65535", (1, 65535))])
def test_ports_may_be_one_or_a_range(read, written, meant):
    found = read(f"{HOST}ports = {written}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.ports == meant


def test_a_host_says_what_may_be_asked_of_it(read):
    keys = "sudo = yes\nservers = postfix, apache, postfix\nmax_connections = 1000\nmax_rate = 1.5mbit\n"
    more = "reboot = sudo -n systemctl reboot\nsnmp = se@cret@[2001:db8::20]:1161\n"
    office = read(f"{SSH}ssh = beta\n{keys}{more}[testbed office]\nclient = alpha\nserver = alpha\n")["office"]
    host = office.client
    assert (host.sudo, host.servers) == (True, ("postfix", "apache"))
    assert (host.most_connections, host.most_rate_bit_s) == (1000, 1.5e6)
    assert (host.reboot, host.snmp) == ("sudo -n systemctl reboot", "...@[2001:db8::20]:1161")
    assert isinstance(host.snmp, Source)
    assert (host.snmp.community, host.snmp.place) == ("se@cret", "udp6:[2001:db8::20]:1161")
    plain = read(f"{HOST}sudo = no\n[testbed t]\nclient = alpha\nserver = alpha\n")["t"].client
    assert plain == Host(name="alpha", way="local", settings={})


@pytest.mark.parametrize(("key", "address"), [("ipv4", "192.0.2.10"), ("ipv6", "2001:DB8::10")])
def test_an_address_that_two_hosts_of_a_testbed_have_is_told_at_the_second(read, refused, key, address):
    hosts = f"{HOST}{key} = {address}\n[host beta]\nway = ssh\nssh = beta\n{key} = {address.lower()}\n"
    for roles in ("client = alpha\nserver = beta\n", "client = alpha\nserver = alpha\nrouter = beta\n"):
        sentence = f"{key} = '{address.lower()}' is the address of host alpha too, and testbed office has both; "
        assert refused(f"{hosts}[testbed office]\n{roles}") == f", line 6: [host beta]: {sentence}give each its own"
    assert set(read(f"{hosts}[testbed one]\nclient = beta\nserver = beta\n")) > {"one"}


@needs("ssh")
@pytest.mark.parametrize(("way", "address"), [("way = ssh\nssh = me@beta", "192.0.2.10"), ("way = local", "127.0.0.1")])
def test_two_ways_into_one_machine_may_have_one_address(read, way, address):
    text = f"[host alpha]\n{way}\nipv4 = {address}\n[host beta]\nway = ssh\nssh = you@beta\nipv4 = {address}\n"
    office = read(f"{text}[testbed office]\nclient = alpha\nserver = beta\n")["office"]
    assert office.client.ipv4 == office.server.ipv4 == address


def test_a_key_of_another_way_in_than_the_one_that_is_named_is_told(refused):
    sentence = "key 'python' belongs to way = ssh; this host has way = local; correct one of the two"
    text = f"{HOST}way = local\npython = python3\n"
    assert refused(text) == reported(text, "host alpha", sentence)


# --- several clients --------------------------------------------------------------------------------------------------

CLIENTS = """
[host alpha]
ipv4 = 192.0.2.10
ipv6 = 2001:db8::10
[host beta]
way = ssh
ssh = beta
ipv4 = 192.0.2.20
ipv6 = 2001:db8::20
[host gamma]
way = ssh
ssh = gamma
ipv4 = 192.0.2.30
"""


@needs("ssh")
def test_several_clients_drive_one_server(read):
    office = read(f"{CLIENTS}[testbed office]\nclient = alpha, gamma\nserver = beta\n")["office"]
    assert office.clients == ("client", "client2")
    assert {role: host.name for role, host in office.roles.items()} == {
        "client": "alpha", "server": "beta", "client2": "gamma",
    }  # fmt: skip
    assert office.guarded == {"this machine", "ssh beta port 22", "ssh gamma port 22"}
    assert office.lacks(Arm(4, "native")) == ""
    assert office.lacks(Arm(6, "native")) == "testbed office has no IPv6: host gamma has no ipv6 in hosts.ini"
    assert office.seen_by("client2").client.name == "gamma"
    assert office.seen_by("client2").more_clients == office.seen_by("client").more_clients == ()


def test_each_of_several_clients_has_a_tunnel_that_stands(read):
    text = CLIENTS
    for host, address in (("alpha", 1), ("beta", 2), ("gamma", 3)):
        text = named(text, host, f"tunnel = sit{address} 2001:db8:41::{address}")
    office = read(f"{text}[testbed office]\nclient = alpha, gamma\nserver = beta\n")["office"]
    near, far = (office.seen_by(role).paths["tunnel"] for role in office.clients)
    assert near == office.paths["tunnel"]
    assert (near.client, near.server, near.devices) == (
        "2001:db8:41::1", "2001:db8:41::2", {"client": "sit1", "server": "sit2"},
    )  # fmt: skip
    assert (far.client, far.server, far.devices) == (
        "2001:db8:41::3", "2001:db8:41::2", {"client": "sit3", "server": "sit2"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("client = alpha, delta\n", "client = 'delta' is not a [host ...] section; there are: alpha, beta, gamma"),
        ("client = alpha,\n", "client = '' is not a [host ...] section; there are: alpha, beta, gamma"),
        ("client = alpha gamma\n",
         ("client = 'alpha gamma' is not a [host ...] section; separate several by commas; there are: alpha, beta, "
          "gamma")),
        ("client = alpha, gamma, alpha\n", "client = 'alpha, gamma, alpha' names host alpha twice; give it once"),
        ("client = alpha, beta\n",
         "client = 'alpha, beta': beta is the server too; with several clients it must be a separate host"),
        ("client = alpha, gamma\nrouter = gamma\n", "router = 'gamma' is the client; it must be a separate host"),
        ("client = alpha, gamma\ntunnel = 2001:db8:41::/64\n",
         ("tunnel = '2001:db8:41::/64' makes tunnels for one client, and this testbed has 2; remove the key, or "
          "give the hosts existing devices")),
    ],
)  # fmt: skip
def test_several_clients_that_cannot_be_are_told(refused, keys, sentence):
    text = f"{CLIENTS}[testbed office]\nserver = beta\n{keys}"
    assert refused(text) == reported(text, "testbed office", sentence)


def test_several_clients_that_cannot_be_told_apart_are_told(refused):
    office = "[testbed office]\nclient = alpha, gamma\nserver = beta\n"
    text = CLIENTS.replace("192.0.2.30", "192.0.2.10") + office
    sentence = "ipv4 = '192.0.2.10' is the address of host alpha too, and testbed office has both; give each its own"
    assert refused(text) == reported(text, "host gamma", sentence)
    text = named(named(CLIENTS, "alpha", "tunnel = sit1 2001:db8:41::1"), "gamma", "tunnel = sit1 2001:db8:41::1")
    sentence = "client = 'alpha, gamma': hosts alpha and gamma have the same address 2001:db8:41::1; give each its own"
    assert refused(f"{named(text, 'beta', 'tunnel = sit1 2001:db8:41::2')}{office}") == reported(
        text + office, "testbed office", sentence
    ).replace("line 17", "line 18")
    text = named(named(CLIENTS, "alpha", "tunnel = sit1 2001:db8:41::1"), "beta", "tunnel = sit1 2001:db8:41::2")
    sentence = (
        "client = 'alpha, gamma': host alpha names a device for tunnel and host gamma none; "
        "give both a key tunnel, or none"
    )
    assert refused(text + office) == reported(text + office, "testbed office", sentence)


# --- labs -------------------------------------------------------------------------------------------------------------


def test_a_lab_is_described_in_a_section(read):
    found = read("[lab slow]\nnodes = 2\nrate = 1.5mbit\nloss = 0.1%\ndelay = 5ms\nbackend = userspace\n[lab plain]\n")
    slow, plain = found["slow"], found["plain"]
    assert slow.links == Links(rate_bit_s=1.5e6, loss=0.001, delay_s=0.005)
    assert str(slow.links) == "1.5 Mbit/s, loss 0.1 %, delay 5 ms"
    assert slow.backend == "userspace"
    assert (slow.hosts, slow.paths) == (BUILTIN["pair"].hosts, BUILTIN["pair"].paths)
    assert slow.is_lab
    assert slow.exclusive
    assert (plain.hosts, plain.paths) == (BUILTIN["lab"].hosts, BUILTIN["lab"].paths)
    assert (plain.links, plain.backend) == (Links(), "auto")


def test_a_lab_of_several_clients_gives_each_a_host_and_addresses_and_makes_no_tunnels(read):
    crowd = read("[lab crowd]\nclients = 3\n")["crowd"]
    assert crowd.clients == ("client", "client2", "client3")
    assert (crowd.is_lab, crowd.exclusive, crowd.paths) == (True, True, {})
    addresses = [address for host in crowd.hosts for address in (host.ipv4, host.ipv6)]
    assert len(set(addresses)) == 2 * 5
    lacks = crowd.lacks(Arm(6, "tunnel"))
    assert lacks == "testbed crowd has no tunnel: a lab with several clients makes no tunnels"


def test_a_lab_has_a_name_for_every_rate(read):
    found = read("[lab far.off]\ndelay = 5ms\nrate = 1gbit\n")
    quick = with_rate("far.off.1.5mbit", found)
    assert quick is not None
    assert quick.name == "far.off.1.5mbit"
    assert quick.links == Links(rate_bit_s=1.5e6, delay_s=0.005)
    assert quick.hosts == found["far.off"].hosts
    for name in ("far.off", "far.1mbit", "loopback.1mbit", "1mbit"):
        assert with_rate(name, found) is None
    for rate in ("", "fast", "0mbit"):
        with pytest.raises(UsageError, match=f"rate '{rate}' is not a number of bits a second such as 512kbit"):
            with_rate(f"far.off.{rate}", found)
    for rate in ("255kbit", "100.1gbit"):
        with pytest.raises(UsageError, match=f"rate '{rate}' is not between 256kbit and 100gbit"):
            with_rate(f"far.off.{rate}", found)
    for rate in ("256kbit", "100gbit"):
        assert with_rate(f"far.off.{rate}", found)


def test_a_lab_may_have_the_name_of_another_as_its_beginning(read):
    found = read("[lab far]\n[lab far.off]\ndelay = 5ms\n")
    quick = with_rate("far.off.1mbit", found)
    assert quick is not None
    assert quick.links == Links(rate_bit_s=1e6, delay_s=0.005)


def test_a_lab_may_have_its_bottleneck_at_the_router(read):
    found = read("[lab home]\nrate = 2mbit\nbottleneck = router\n")["home"]
    assert found.links == Links(rate_bit_s=2e6, at_router=True)
    assert str(found.links) == "2 Mbit/s at the router"
    assert not read("[lab home]\nrate = 2mbit\nbottleneck = every_link\n")["home"].links.at_router


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            "client = alpha\n",
            "key 'client' is unknown; there are backend, bottleneck, clients, delay, loss, nodes, rate",
        ),
        ("bottleneck = server\n", "bottleneck = 'server' does not exist; there are every_link, router"),
        ("bottleneck = router\nnodes = 2\n", "bottleneck = router needs a router; use nodes = 3"),
        ("clients = 0\n", "clients = '0' is not a number from 1 to 8"),
        ("clients = 9\n", "clients = '9' is not a number from 1 to 8"),
        ("clients = two\n", "clients = 'two' is not a number from 1 to 8"),
        ("clients = 2\nnodes = 2\n", "clients = '2' need a router; use nodes = 3"),
        ("nodes = 4\n", "nodes = '4' is neither 2 nor 3; the third one is a router"),
        ("rate = 100\n", "rate '100' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("rate = 0mbit\n", "rate '0mbit' is not a number of bits a second such as 512kbit, 100mbit or 1gbit"),
        ("rate = 255kbit\n", "rate '255kbit' is not between 256kbit and 100gbit"),
        ("rate = 101gbit\n", "rate '101gbit' is not between 256kbit and 100gbit"),
        ("loss = 0.01\n", "loss: share '0.01' is not a percentage such as 10%"),
        ("loss = 100%\n", "loss = '100%' lets nothing through; it must be below 100%"),
        ("loss = 250%\n", "loss = '250%' lets nothing through; it must be below 100%"),
        ("delay = 5\n", "delay: time '5' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        ("delay = -5ms\n", "delay: time '-5ms' is not a number with a unit, such as 0.5ms, 10s or 5min"),
        ("delay = 251ms\n", "delay = '251ms' is too long; it may be up to 250ms"),
        ("backend = sit\n", f"backend = 'sit' does not exist; there are {BACKED}"),
    ],
)
def test_a_key_of_a_lab_that_makes_no_sense_is_told_with_its_value(refused, keys, sentence):
    assert refused(f"[lab slow]\n{keys}") == f", line 2: [lab slow]: {sentence}"


# --- tunnels between hosts --------------------------------------------------------------------------------------------

THREE = """
[host alpha]
ipv4 = 192.0.2.10
ipv6 = 2001:db8:1::10
[host beta]
way = ssh
ssh = beta
ipv4 = 192.0.2.20
ipv6 = 2001:db8:1::20
[host gamma]
way = ssh
ssh = gamma
ipv4 = 192.0.2.30
"""
OFFICE = "[testbed office]\nclient = alpha\nserver = beta\n"


def test_a_testbed_sets_networks_apart_for_its_tunnels(read):
    keys = "tunnel = 2001:db8:41::/64\nisatap = 2001:DB8:5e::/64\nbackend = ebpf\n"
    office = read(f"{THREE}{OFFICE}{keys}")["office"]
    assert office.backend == "ebpf"
    assert not office.is_lab
    assert office.lacks(Arm(6, "tunnel")) == office.lacks(Arm(6, "isatap")) == ""
    tunnel, isatap = office.paths["tunnel"], office.paths["isatap"]
    assert (tunnel.client, tunnel.server) == ("2001:db8:41::1", "2001:db8:41::2")
    assert {role: (end.local, end.remote) for role, end in tunnel.ends.items()} == {
        "client": ("192.0.2.10", "192.0.2.20"),
        "server": ("192.0.2.20", "192.0.2.10"),
    }
    assert (isatap.client, isatap.server) == ("2001:db8:5e::5efe:c000:20a", "2001:db8:5e::5efe:c000:214")
    assert tunnel.carriers == isatap.carriers == ("client", "server")
    assert office.addresses(frozenset({"tunnel"})) == ["192.0.2.20", "2001:db8:1::20", "2001:db8:41::2"]


@needs("ssh")
def test_a_router_takes_part_in_isatap_alone(read):
    keys = "router = gamma\ntunnel = 2001:db8:41::/64\nisatap = 2001:db8:5e::/64 2001:db8:12::/64\n"
    office = read(f"{THREE}{OFFICE}{keys}")["office"]
    assert office.roles["router"].name == "gamma"
    assert office.guarded == {"this machine", "ssh beta port 22", "ssh gamma port 22"}
    assert office.paths["tunnel"].carriers == ("client", "server")
    assert set(office.paths["tunnel"].ends) == {"client", "server"}
    isatap = office.paths["isatap"]
    assert (isatap.server, isatap.carriers) == ("2001:db8:12::1", ("client", "router"))
    assert {role: leg.towards for role, leg in isatap.legs.items()} == {
        "router": "192.0.2.20", "server": "192.0.2.10",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("tunnel =\n", "tunnel = '' is not an IPv6 network of 64 bits such as 2001:db8:41::/64"),
        ("tunnel = 2001:db8:41::\n",
         "tunnel = '2001:db8:41::' is not an IPv6 network of 64 bits such as 2001:db8:41::/64"),
        ("tunnel = 2001:db8:41::/48\n",
         "tunnel = '2001:db8:41::/48' is not an IPv6 network of 64 bits such as 2001:db8:41::/64"),
        ("tunnel = 2001:db8:41::1/64\n",
         "tunnel = '2001:db8:41::1/64' is not an IPv6 network of 64 bits such as 2001:db8:41::/64"),
        ("tunnel = 10.0.0.0/8\n", "tunnel = '10.0.0.0/8' is not an IPv6 network of 64 bits such as 2001:db8:41::/64"),
        ("isatap = fe80::/64\n",
         "isatap = 'fe80::/64' is a network of link-local addresses, which mean nothing without an interface"),
        ("tunnel = ff02::/64\n", "tunnel = 'ff02::/64' contains no address of a single host"),
        ("tunnel = ::/64\n", "tunnel = '::/64' contains no address of a single host"),
        ("tunnel = 2001:db8:41::/64 2001:db8:42::/64\n",
         "tunnel = '2001:db8:41::/64 2001:db8:42::/64' names 2 networks; it takes one"),
        ("isatap = 2001:db8:41::/64 2001:db8:42::/64\n",
         "isatap = '2001:db8:41::/64 2001:db8:42::/64' names 2 networks; it takes one, and two only through a router"),
        ("router = gamma\nisatap = 2001:db8:41::/64\n",
         ("isatap = '2001:db8:41::/64' names 1 network; through a router it takes two, the site's and one for the "
          "server's link behind it")),
        ("router = gamma\nisatap = 2001:db8:41::/64 2001:db8:41::/64\n",
         "isatap = '2001:db8:41::/64' is set apart for isatap already; take another network"),
        ("tunnel = 2001:db8:41::/64\nisatap = 2001:db8:41:0::/64\n",
         "isatap = '2001:db8:41:0::/64' is set apart for tunnel already; take another network"),
        ("tunnel = 2001:db8:1::/64\n",
         "tunnel = '2001:db8:1::/64' holds 2001:db8:1::10 of host alpha; take a network that nothing uses"),
    ],
)  # fmt: skip
def test_a_network_that_tunnels_cannot_have_is_told_with_what_is_right(refused, keys, sentence):
    assert refused(f"{THREE}{OFFICE}{keys}") == reported(f"{THREE}{OFFICE}{keys}", "testbed office", sentence)


def test_hosts_that_no_tunnel_can_join_are_told(refused):
    key = "tunnel = 2001:db8:41::/64\n"
    alone = "[testbed office]\nclient = alpha\nserver = alpha\n"
    sentence = "tunnel = '2001:db8:41::/64' needs machines of their own for hosts alpha and alpha; "
    sentence += "network namespaces of this one are such by access method ssh, each with an sshd of its own"
    assert refused(f"{THREE}{alone}{key}") == reported(f"{THREE}{alone}{key}", "testbed office", sentence)
    without = "[host delta]\nway = ssh\nssh = delta\n[testbed office]\nclient = alpha\nserver = delta\n"
    sentence = "tunnel = '2001:db8:41::/64' goes through IPv4, which host delta lacks; give it a key ipv4"
    assert refused(f"{THREE}{without}{key}") == reported(f"{THREE}{without}{key}", "testbed office", sentence)
    by_router = f"[host delta]\nway = ssh\nssh = delta\n{OFFICE}router = delta\n"
    key = "isatap = 2001:db8:41::/64 2001:db8:42::/64\n"
    sentence = (
        "isatap = '2001:db8:41::/64 2001:db8:42::/64' goes through IPv4, which host delta lacks; give it a key ipv4"
    )
    assert refused(f"{THREE}{by_router}{key}") == reported(f"{THREE}{by_router}{key}", "testbed office", sentence)


def named(text, host, line):
    """Return the inventory with one more line for a host."""
    return text.replace(f"[host {host}]\n", f"[host {host}]\n{line}\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (each, f"{each} is not a device and the IPv6 address on it, such as sit1 2001:db8:41::1")
        for each in ("tunnel = ''", "tunnel = 'sit1'", "tunnel = 'sit1 192.0.2.1'", "isatap = 'is0 2001:db8::1 x'",
                     "tunnel = 'a/b 2001:db8::1'", "tunnel = 'sixteen-letters- 2001:db8::1'",
                     "tunnel = 'sit1 2001:db8::1/64'", "isatap = '2001:db8::1 is0'")
    ] + [
        ("tunnel = 'sit1 fe80::1'",
         ("tunnel = 'sit1 fe80::1': 'fe80::1' is a link-local address, which means nothing without an interface; "
          "give another address of the device")),
        ("tunnel = 'sit1 2001:db8:1::10'",
         "tunnel has the address 2001:db8:1::10 of ipv6; give each its own"),
    ],
)  # fmt: skip
def test_a_device_that_is_none_is_told(refused, line, sentence):
    text = named(THREE, "alpha", line.replace("'", ""))
    assert refused(text) == reported(text, "host alpha", sentence)


def test_two_arms_with_one_address_are_told(refused):
    text = named(THREE, "alpha", "tunnel = sit1 2001:db8:41::1\nisatap = is0 2001:DB8:41::1")
    assert refused(text) == ", line 4: [host alpha]: isatap has the address 2001:db8:41::1 of tunnel; give each its own"


def test_two_arms_with_one_device_are_told(refused):
    text = named(THREE, "alpha", "tunnel = sit1 2001:db8:41::1\nisatap = sit1 2001:db8:5e::1")
    assert refused(text) == ", line 4: [host alpha]: isatap has the device sit1 of tunnel; give each its own"


def test_devices_that_are_there_already_are_used_as_they_are(read):
    text = named(THREE, "alpha", "tunnel = sit1 2001:db8:41::1")
    text = named(text, "beta", "tunnel = he-ipv6 2001:db8:41::2")
    path = read(f"{text}{OFFICE}")["office"].paths["tunnel"]
    assert (path.client, path.server) == ("2001:db8:41::1", "2001:db8:41::2")
    assert path.devices == {"client": "sit1", "server": "he-ipv6"}
    assert (path.ends, path.legs) == ({}, {})
    assert path.carriers == ("client", "server")


@pytest.mark.parametrize(
    ("server", "router", "devices", "carriers"),
    [
        ("is0 2001:db8:5e::5efe:192.0.2.20", "", {"client": "is0", "server": "is0"}, ("client", "server")),
        ("is0 2001:db8:5e::200:5efe:192.0.2.20", "", {"client": "is0", "server": "is0"}, ("client", "server")),
        ("is0 2001:db8:5e::5efe:192.0.2.20", "router = gamma\n", {"client": "is0", "server": "is0"},
         ("client", "server")),
        ("eth0 2001:db8:12::1", "router = gamma\n", {"client": "is0"}, ("client", "router")),
        ("eth0 2001:db8:12::1", "", {"client": "is0"}, ("client",)),
        # Looks like one at a glance.
        ("eth0 2001:db8:12::5eff:192.0.2.20", "", {"client": "is0"}, ("client",)),
    ],
)  # fmt: skip
def test_who_carries_isatap_is_seen_by_the_servers_address(read, server, router, devices, carriers):
    text = named(THREE, "alpha", "isatap = is0 2001:db8:5e::5efe:192.0.2.10")
    text = named(text, "beta", f"isatap = {server}")
    path = read(f"{text}{OFFICE}{router}")["office"].paths["isatap"]
    assert (path.devices, path.carriers) == (devices, carriers)


def test_a_routers_own_device_is_known_too(read):
    text = named(THREE, "alpha", "isatap = is0 2001:db8:5e::5efe:192.0.2.10")
    text = named(text, "beta", "isatap = eth0 2001:db8:12::1")
    text = named(text, "gamma", "isatap = is1 2001:db8:5e::5efe:192.0.2.30")
    path = read(f"{text}{OFFICE}router = gamma\n")["office"].paths["isatap"]
    assert path.devices == {"client": "is0", "router": "is1"}


def test_a_device_at_one_end_only_is_told(refused):
    sentence = (
        ", line 15: [testbed office]: host beta names a device for tunnel and host alpha none; give both a key tunnel, "
        "or none"
    )
    assert refused(f"{named(THREE, 'beta', 'tunnel = sit1 2001:db8:41::2')}{OFFICE}") == sentence


def test_a_device_beside_a_network_is_told(refused):
    text = named(THREE, "beta", "tunnel = sit1 2001:db8:41::2")
    sentence = "tunnel = '2001:db8:42::/64' makes what host beta has, its device 'sit1'; keep one of the two"
    text = f"{text}{OFFICE}tunnel = 2001:db8:42::/64\n"
    assert refused(text) == reported(text, "testbed office", sentence)


def test_a_network_that_holds_a_devices_address_is_told(refused):
    text = named(THREE, "beta", "isatap = is0 2001:db8:42::1")
    sentence = "tunnel = '2001:db8:42::/64' holds 2001:db8:42::1 of host beta; take a network that nothing uses"
    text = f"{text}{OFFICE}tunnel = 2001:db8:42::/64\n"
    assert refused(text) == reported(text, "testbed office", sentence)


def test_devices_do_not_join_a_host_with_itself(read):
    text = named(THREE, "alpha", "tunnel = sit1 2001:db8:41::1")
    alone = read(f"{text}[testbed alone]\nclient = alpha\nserver = alpha\n")["alone"]
    assert alone.lacks(Arm(6, "tunnel")) == "testbed alone has no tunnel: its client and server are one host"


def test_comments_may_follow_a_value_and_a_mark_of_unicode_begin_the_file(read, tmp_path):
    text = "[lab far] # by wire\nrate = 20mbit # as measured\nloss = 1% ; twice\n[host alpha]\nipv4 = 192.0.2.1\t;x\n"
    assert read(text)["far"].links == Links(rate_bit_s=2e7, loss=0.01)
    (tmp_path / "marked.ini").write_text(text, encoding="utf-8-sig")
    assert read_inventory(tmp_path / "marked.ini") == read(text)


# --- lines ------------------------------------------------------------------------------------------------------------

WRONG = "ipv4 = '192.0.2.300' is not a literal IPv4 address"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[host alpha]\nipv4 = 192.0.2.300\n", 2),
        ("# first\n\n[host alpha] ; here\n\n; more\nipv4 = 192.0.2.300 # there\n", 6),
        ("[host alpha]\nway = ssh\nssh =\n  beta\n\n  # a comment between\nIPV4=192.0.2.300", 7),
        ("\ufeff[host alpha]\r\n\r\nipv4 =\r\n\t192.0.2.300\r\nports = 0\r\n", 3),
        ("[host alpha]\n  ipv4 = 192.0.2.300\n  cpus = 0\n", 2),  # as deep as the one before: a key of its own
        ("[host alpha]\rcpus = 0\ripv4 = 192.0.2.300\r", 3),
        ("[host alpha]\ncpus = 0\n[host beta]\nipv4 = 192.0.2.3\n  [host beta]\n", 0),
    ],
)
def test_a_sentence_has_the_line_of_its_key_however_the_file_is_written(refused, text, line):
    if line:
        assert refused(text) == f", line {line}: [host alpha]: {WRONG}"
    else:  # what is deeper than a key is more of its value
        assert refused(text) == (
            ", line 4: [host beta]: ipv4 = '192.0.2.3\\n[host beta]' is not a literal IPv4 address"
        )


@given(st.lists(st.sampled_from(["", "# x", "  ; y", "cpus{} = 0", "ports{} = 1\n  -2"]), max_size=8))
def test_any_lines_before_a_key_are_counted(lines):
    body = "\n".join(["[host alpha]", *(line.format(number) for number, line in enumerate(lines)), "ipv4 = x"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hosts.ini"
        path.write_text(body)
        (section,) = read_sections(path)
    assert section.lines["ipv4"] == body.count("\n") + 1
    assert section.keys["ipv4"] == "x"
    written = body.split("\n")
    assert all(written[line - 1].startswith(key) for key, line in section.lines.items())


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_inventory(tmp_path / "nowhere.ini")
    sentence = f"{tmp_path / 'nowhere.ini'}: cannot be read (No such file or directory); "
    assert str(caught.value) == f"{sentence}name an inventory with --ipperf-hosts"
    with pytest.raises(UsageError, match=r"cannot be read \(Is a directory\)"):
        read_inventory(tmp_path)


def test_a_file_that_may_not_be_read_is_told(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    path = tmp_path / "hosts.ini"
    path.touch(mode=0)
    with pytest.raises(UsageError, match=r"cannot be read \(Permission denied\)"):
        read_inventory(path)


def test_a_file_of_another_encoding_is_told(tmp_path):
    path = tmp_path / "hosts.ini"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(UsageError) as caught:
        read_inventory(path)
    assert str(caught.value) == f"{path}: byte 5 is not UTF-8; save the file as UTF-8"


LONG = 300_000
# Numbers of so many digits Python refuses to read; words and lines are split and joined, of which lines take longest.
LARGE = ["x" * LONG, "9" * LONG, "1-" + "9" * LONG, "1," * (LONG // 2), "a b " * (LONG // 4), "'\"" * (LONG // 2),
         "1\n  " * (LONG // 40), "ssh://" + "a" * LONG]  # fmt: skip
WAY_KEYS = frozenset().union(
    *(ACCESS_METHODS[name].keys for name in ACCESS_METHODS if ACCESS_METHODS[name].in_inventory)
)


KEYS = {"host beta": KEYS_OF_HOSTS | WAY_KEYS, "testbed bed": TESTBED_KEYS, "lab mine": LAB_KEYS, "none": {"key"}}


def check_bounded(path, text):
    path.write_text(text)
    try:
        read_inventory(path)
    except UsageError as error:
        assert len(str(error)) <= 1000  # noqa: PT017 - some texts are right


@pytest.mark.parametrize("value", LARGE, ids=range(len(LARGE)))
@pytest.mark.parametrize("title", KEYS)
def test_no_message_quotes_more_than_a_sentence(tmp_path, title, value):
    path = tmp_path / "hosts.ini"
    for key in sorted(KEYS[title]):
        sections = {"host alpha": {}, "host beta": {"way": "ssh", "ssh": "beta"}, "lab mine": {}}
        sections["testbed bed"] = {"client": "alpha", "server": "beta"}
        sections.setdefault(title, {})[key] = value
        lines = (
            f"[{name}]\n" + "".join(f"{each} = {said}\n" for each, said in sections[name].items()) for name in sections
        )
        check_bounded(path, "".join(lines))
    for text in (value, f"[{value}]", f"[host {value}]", f"[lab x]\n{value}", f"[lab x]\n{value} = 1"):
        check_bounded(path, text)


def test_a_value_of_many_lines_is_read_in_one_go(tmp_path):
    path = tmp_path / "hosts.ini"
    path.write_text("[host alpha]\nservers = apache,\n" + "  bind,\n" * 2 + "  bind\n")
    (section,) = read_sections(path)
    assert section.keys == {"servers": "apache,\nbind,\nbind,\nbind"}
