"""Every sentence that a wrong `hosts.ini` gets, and what a right one means."""

from __future__ import annotations

import os

import pytest

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.labs import BUILTIN
from pytest_ipperf.lab.testbed import DEFAULT_PORTS, Host

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
NEITHER = "is neither [host NAME] nor [testbed NAME], with a name of letters, digits, '_' and '.'"
ONE = "give an address of one network interface"
HOST = "[host alpha]\n"
SSH = "[host alpha]\nway = ssh\n"


@pytest.fixture
def read(tmp_path):
    """Reads an inventory of that text."""
    path = tmp_path / "hosts.ini"

    def reading(text):
        path.write_text(text, encoding="utf-8")
        return read_inventory(path)

    return reading


@pytest.fixture
def refused(read, tmp_path):
    """The sentence that an inventory of that text gets, without the file's name."""

    def reading(text):
        with pytest.raises(UsageError) as caught:
            read(text)
        sentence = str(caught.value)
        assert sentence.startswith(str(tmp_path / "hosts.ini"))
        assert "\n" not in sentence
        return sentence.removeprefix(str(tmp_path / "hosts.ini"))

    return reading


def test_a_good_file_adds_its_testbeds_to_the_built_in_ones(read):
    found = read(GOOD)
    assert set(found) == {"lab", "loopback", "office", "alone"}
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
    assert office.lacks(Arm(6, "tunnel")) == "testbed office has no tunnel: its hosts are joined by a plain link"
    for testbed in BUILTIN.values():
        assert testbed.lacks(Arm(4, "native")) == testbed.lacks(Arm(6, "native")) == ""


def test_a_testbed_names_the_machines_and_links_that_it_needs_for_itself(read):
    found = read(GOOD)
    assert found["office"].guarded == {"this machine", "ssh admin@beta.example.org", "domain floor1"}
    assert found["alone"].guarded == {"this machine"}
    assert found["lab"].guarded == found["loopback"].guarded == {"this machine"}


def test_only_addresses_for_benchmarks_are_in_the_lab():
    addresses = [host.address(version) for host in BUILTIN["lab"].hosts for version in (4, 6)]
    assert len(set(addresses)) == 4
    assert all(address.startswith(("198.18.", "198.19.", "2001:2:0:")) for address in addresses)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("client = alpha\n", ", line 1: 'client = alpha' comes before the first section, such as [host NAME]"),
        ("[host a]\n\nnonsense\n",
         ", line 3: 'nonsense\\n' is neither [host NAME], [testbed NAME] nor KEY = VALUE"),
        ("[host a]\n[host b]\n[host a]\n", ", line 3: section [host a] is there already; give it once"),
        ("[host a]\nipv4 = 192.0.2.1\nipv4 = 192.0.2.2\n",
         ", line 3: key 'ipv4' is in [host a] already; give it once"),
        ("[hosts alpha]\n", f": section [hosts alpha] {NEITHER}"),
        ("[DEFAULT]\n", f": section [DEFAULT] {NEITHER}"),
        ("[host]\n", f": section [host] {NEITHER}"),
        ("[host a-b]\n", f": section [host a-b] {NEITHER}"),
        ("[testbed lab]\n", ": [testbed lab] takes the name of a built-in testbed; choose another"),
        ("[testbed loopback]\n", ": [testbed loopback] takes the name of a built-in testbed; choose another"),
    ],
)  # fmt: skip
def test_a_section_that_makes_no_sense_is_told_with_its_line_or_name(refused, text, sentence):
    assert refused(text) == sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("way = telnet\n", "way 'telnet' does not exist; there are local, ssh"),
        ("way = namespace\n", "way 'namespace' does not exist; there are local, ssh"),
        ("colour = red\n", "key 'colour' is unknown; there are cpus, ipv4, ipv6, ports, way"),
        ("ssh = beta\n", "key 'ssh' is unknown; there are cpus, ipv4, ipv6, ports, way"),
        ("ipv4 = 2001:db8::1\n", "ipv4 = '2001:db8::1' is not a literal IPv4 address"),
        ("ipv6 = 192.0.2.1\n", "ipv6 = '192.0.2.1' is not a literal IPv6 address"),
        ("ipv4 = alpha.example.org\n", "ipv4 = 'alpha.example.org' is not a literal IPv4 address"),
        ("ipv4 = 192.0.2.1 # office\n", "ipv4 = '192.0.2.1 # office' is not a literal IPv4 address"),
        ("ipv4 = 192.0.2.010\n", "ipv4 = '192.0.2.010' is not a literal IPv4 address"),
        ("ipv6 = ::ffff:192.0.2.1\n",
         f"ipv6 = '::ffff:192.0.2.1' is an IPv4 address in the clothes of IPv6, and what goes there is IPv4; {ONE}"),
        ("ipv6 = fe80::1%eth0\n",
         f"ipv6 = 'fe80::1' is a link-local address, which means nothing without an interface; {ONE}"),
        ("ipv4 = 0.0.0.0\n", f"ipv4 = '0.0.0.0' is the address of no single host; {ONE}"),
        ("ipv6 = ff02::1\n", f"ipv6 = 'ff02::1' is the address of no single host; {ONE}"),
        ("ports = 80-\n", "ports = '80-' is not a range of ports such as 20000-29999"),
        ("ports = 29999-20000\n", "ports = '29999-20000' is not a range of ports such as 20000-29999"),
        ("ports = 0-100\n", "ports = '0-100' is not a range of ports such as 20000-29999"),
        ("ports = 65535-65536\n", "ports = '65535-65536' is not a range of ports such as 20000-29999"),
        ("ports =\n", "ports = '' is not a range of ports such as 20000-29999"),
        ("cpus = 0-3\n", "cpus = '0-3' is not a list of processor numbers such as 0,1"),
        ("cpus = all\n", "cpus = 'all' is not a list of processor numbers such as 0,1"),
        ("cpus = -1\n", "cpus = '-1' is not a list of processor numbers such as 0,1"),
    ],
)  # fmt: skip
def test_a_key_of_a_host_that_makes_no_sense_is_told_with_its_value(refused, keys, sentence):
    assert refused(HOST + keys) == f": [host alpha]: {sentence}"


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
        ("ssh = beta\npython = python3 -x\n",
         "python = 'python3 -x' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = python3;id\n",
         "python = 'python3;id' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = $(id)\n", "python = '$(id)' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\npython = -c\n", "python = '-c' is not of a form such as /usr/bin/python3"),
        ("ssh = beta\nssh_config = a b\n", "ssh_config = 'a b' is not of a form such as /etc/lab/ssh_config"),
        ("ssh = beta\nnode = client\n", ("key 'node' is unknown; there are cpus, ipv4, ipv6, ports, python, ssh, "
         "ssh_config, way")),
    ],
)  # fmt: skip
def test_no_destination_can_be_taken_for_an_option_or_a_command(refused, keys, sentence):
    assert refused(SSH + keys) == f": [host alpha]: {sentence}"


@pytest.mark.parametrize("destination", ["beta", "admin@beta.example.org", "admin@192.0.2.1", "2001:db8::1", "a_b-c"])
def test_what_ssh_takes_as_a_destination_may_stand_there(read, destination):
    found = read(f"{SSH}ssh = {destination}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.settings == {"ssh": destination}
    assert found["t"].guarded == {f"ssh {destination}"}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("server = alpha\n", "key 'client' is missing; it names a [host ...] section"),
        ("client = alpha\n", "key 'server' is missing; it names a [host ...] section"),
        ("client = alpha\nserver = beta\n", "server = 'beta' is no [host ...] section; there are: alpha"),
        ("client = alpha\nserver = alpha\nrouter = alpha\n",
         "key 'router' is unknown; there are client, domain, server"),
    ],
)  # fmt: skip
def test_a_testbed_without_its_hosts_is_told(refused, keys, sentence):
    assert refused(f"{HOST}[testbed office]\n{keys}") == f": [testbed office]: {sentence}"


def test_a_testbed_in_a_file_without_hosts_is_told(refused):
    sentence = ": [testbed office]: client = 'alpha' is no [host ...] section; there are: none"
    assert refused("[testbed office]\nclient = alpha\nserver = alpha\n") == sentence


@pytest.mark.parametrize(
    ("written", "meant"),
    [("2001:DB8:0:0::1", "2001:db8::1"), ("2001:db8:0000::0001", "2001:db8::1"), ("::1", "::1")],
)
def test_an_address_is_kept_as_sockets_tell_it(read, written, meant):
    """Or the proof would not know it again."""
    found = read(f"{HOST}ipv6 = {written}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.ipv6 == meant


@pytest.mark.parametrize(("written", "meant"), [("5000", (5000, 5000)), ("1-65535", (1, 65535))])
def test_ports_may_be_one_or_a_range(read, written, meant):
    found = read(f"{HOST}ports = {written}\n[testbed t]\nclient = alpha\nserver = alpha\n")
    assert found["t"].client.ports == meant


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
