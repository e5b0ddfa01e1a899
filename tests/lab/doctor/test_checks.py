"""The findings of each check from made-up facts, as no machine has all of them wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.facts.addresses import AddressFacts, DeviceFacts, PeerRoute
from pytest_ipperf.agent.facts.clock import ClockFacts
from pytest_ipperf.agent.facts.control import ControlFacts
from pytest_ipperf.agent.facts.leftovers import LeftoverFacts, MarkLeft, NoteLeft
from pytest_ipperf.agent.facts.limits import LimitFacts
from pytest_ipperf.agent.facts.load import BusyProcess, LoadFacts
from pytest_ipperf.agent.facts.memory import MemoryFacts
from pytest_ipperf.agent.facts.ports import PortFacts
from pytest_ipperf.agent.facts.rights import RightsFacts
from pytest_ipperf.agent.facts.servers import ServerFacts
from pytest_ipperf.agent.facts.tunnels import TunnelFacts
from pytest_ipperf.agent.host_state.dirty_marks import all_marks
from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.paths.clock_sync import sample_clocks
from pytest_ipperf.agent.paths.routes import Route
from pytest_ipperf.agent.rpc.messages import CacheState, CollectedFacts
from pytest_ipperf.core.portable.errors import RestoreError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.doctor import Grade, examination, examine
from pytest_ipperf.lab.doctor.checks import CHECKS
from pytest_ipperf.lab.doctor.checks.reboot import programs
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed, Reachability
from pytest_ipperf.lab.inventory.builtin import BUILTIN, lab, with_rate
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports.base import NetworkPath, TunnelEndpoint

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def host(name, number, **keys):
    settings = {"ssh": name}
    return Host(name=name, way="ssh", ipv4=f"192.0.2.{number}", ipv6=f"2001:db8::{number}", settings=settings, **keys)


ROUTE = Route(device="eth0", mtu=1500, type=1)
DEVICE = DeviceFacts(speed="1000", duplex="full", driver="igb", queueing="mq", rate_bit_s=0.0,
                     offloads={"gro": True, "tso": False})  # fmt: skip


def route_to(address, route=ROUTE):
    return [PeerRoute(source="192.0.2.1", address=address, route=route)]


def facts(boot, other):
    ends = ("203.0.113.9", "203.0.113.1")
    return CollectedFacts(found={
        "rights": RightsFacts(user="root", root=True, raw=True, admin=True),
        "limits": LimitFacts(descriptors=0, ephemeral=(32768, 60999)),
        "ports": PortFacts(taken=[20001]),
        "addresses": AddressFacts(lacking=[], routes=route_to(other), devices={"eth0": DEVICE}),
        "clock": ClockFacts(synchronised=True, source="tsc"),
        "load": LoadFacts(idle=1.0, busiest=None, load=0.1, cpus=[0, 1], allowed=[0, 1], governors=[]),
        "memory": MemoryFacts(available=4 << 30, free={"/tmp": 5 << 30}, buffers={"net.core.rmem_max": 4 << 20}),
        "servers": ServerFacts(missing=dict.fromkeys(SERVERS, ""), setpriv=True, programs={}),
        "tunnels": TunnelFacts(cannot={}, existing={}),
        "leftovers": LeftoverFacts(holder="", marks=[], folders=[], undo_logs=[]),
        "control": ControlFacts(ends=ends, boot=boot, kernel="6.1", machine="x86_64", python="3.11.2"),
    })  # fmt: skip


def change(seen, name, **fields):
    """Change some facts of a host, or its cache."""
    if name == "cache":
        seen.cache = dataclasses.replace(seen.cache, **fields)
    else:
        seen.facts.found[name] = dataclasses.replace(seen.facts.found[name], **fields)


def untold(seen, name, why):
    """Make some facts of a host impossible to collect."""
    del seen.facts.found[name]
    seen.facts.troubles[name] = why


def office(**keys):
    return Testbed(name="office", client=host("alpha", 1, **keys), server=host("beta", 2, **keys))


@pytest.fixture
def made():
    """Make observations of a testbed in which all is well, for a test to change."""
    testbed = office()
    cache = CacheState(folder="/home/me/.cache/pytest-ipperf", note="", entries=1, bytes=3 << 20)
    seen = {
        each.name: HostObservation(host=each, roles=(role,), start_s=0.5, call_s=0.001, skew_s=(0.0, 0.001),
                        facts=facts(role, "192.0.2.9"), cache=cache)
        for role, each in testbed.roles.items()
    }  # fmt: skip
    fits = {1500: "yes", 1501: "too big"}
    ways = [("alpha", "beta"), ("beta", "alpha")]
    crossings = tuple(
        Reachability(here=here, there=there, ipver=4, mtu=1500, fits=fits) for here, there in ways
    )  # fmt: skip
    return ObservedTestbed(testbed=testbed, hosts=seen, reachability=crossings)


def found(made, grade=None):
    every = [finding for check in CHECKS for finding in CHECKS[check].findings(made)]
    return [each for each in every if grade is None or each.grade is grade]


def reported(made):
    """Return the findings that are not well."""
    return [f"{each.grade.value} {each.subject or 'all'} {each.topic}: {each.said}: {each.remedy}"
            for each in found(made) if each.grade is not Grade.WELL]  # fmt: skip


def test_where_all_is_well_nothing_else_is_said(made):
    assert reported(made) == []
    assert {each.topic for each in found(made)} == {
        CHECKS[name].topic for name in CHECKS if name not in ("tunnels", "reboot", "snmp")
    }


def test_every_finding_is_one_line_and_every_trouble_has_a_remedy(made):
    made.hosts["alpha"].trouble = "no"
    for each in found(made):
        assert "\n" not in each.said + each.remedy
        assert bool(each.remedy) == (each.grade is not Grade.WELL)


CHANGES = [
    ("rights", {"raw": False, "admin": False, "root": False, "user": "me"},
     "doubtful rights: user me: packets of tunnels are not counted, no captures, no tunnels can be made, Post"),
    ("limits", {"descriptors": 1024}, "doubtful descriptors: 1024 file descriptors are allowed, good for 960 conn"),
    ("limits", {"ephemeral": (25000, 60999)}, "doubtful ports: 20000-29999 overlaps the ephemeral ports 25000-60"),
    ("limits", {"ephemeral": (40000, 40999)}, "doubtful ports: 1000 ephemeral ports are too few for 5000 connect"),
    ("ports", {"taken": list(range(20000, 29998))}, "wrong ports: 2 of 20000-29999 are free, and a measu"),
    ("addresses", {"lacking": ["192.0.2.1"]}, "wrong addresses: ipv4 = 192.0.2.1 is not on this host: correct"),
    ("addresses", {"routes": route_to("192.0.2.2", Route(error="Network is unreachable"))},
     "wrong addresses: no route to 192.0.2.2: network is unreachable: give it one"),
    ("addresses", {"routes": route_to("192.0.2.2", dataclasses.replace(ROUTE, type=776, device="sit1"))},
     "wrong addresses: the route to 192.0.2.2 is device sit1 (6in4): native arms need a route by a plain link"),
    ("addresses", {"devices": {"eth0": dataclasses.replace(DEVICE, queueing="netem")}},
     "doubtful devices: eth0 is shaped by net"),
    ("addresses", {"devices": {"eth0": dataclasses.replace(DEVICE, duplex="half")}},
     "doubtful devices: eth0 is half duplex"),
    ("clock", {"synchronised": False}, "doubtful clock: +0.0 ms against this machine's (+- 1.0); not synchroni"),
    ("clock", {"source": "acpi_pm"}, "doubtful clock: the clock's source acpi_pm is slow to read"),
    ("load", {"idle": 0.5, "busiest": BusyProcess(pid=7, name="cc1", share=0.99)},
     "doubtful processors: 2, 50 % idle over half a second, load 0.1; cc1 (process 7) takes 99 % of one: end"),
    ("load", {"governors": ["powersave"]}, "doubtful processors: their frequency varies (governor pow"),
    ("memory", {"available": 1 << 20}, "doubtful resources: 1 MiB of memory are available: end something there"),
    ("memory", {"free": {"/tmp": 1 << 20}}, "wrong resources: 1 MiB are free in /tmp: free some space, or set TMPDIR"),
    ("memory", {"free": {"/tmp": 100 << 20}}, "doubtful resources: 100 MiB are free in /tmp"),
    ("memory", {"buffers": {"net.core.rmem_max": 212992}}, "doubtful resources: net.core.rmem_max is 212992 bytes"),
    ("leftovers", {"folders": ["/tmp/ipperf-x"]}, "doubtful left: /tmp/ipperf-x is left and cannot be removed"),
    ("leftovers", {"undo_logs": ["/run/pytest-ipperf/journal"]}, "doubtful left: the undo log /run/pytest-ipperf/jo"),
    ("leftovers", {"holder": "process 5 of user 0"}, "doubtful lease: held by process 5 of user 0: it is measured"),
    ("leftovers", {"marks": [MarkLeft(user=7, notes=[NoteLeft(said="a is left", holds=None)])]},
     ("wrong left: a is left (check by hand; marked by user 7, so nothing is measured there): put it in order, "
      "then clear the mark: pytest-ipperf doctor --testbed=office --clear")),
    ("cache", {"note": "it is another user's"}, "doubtful cache: none is used: it is another user's: correct that"),
    ("cache", {"folder": ""}, "doubtful cache: there can be none: give the user a writable home directory"),
    ("tunnels", {"existing": {"sit1": "there is no device sit1"}}, "wrong tunnels: there is no device sit1: make"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "sentence"), CHANGES, ids=[each[2][:45] for each in CHANGES])
def test_what_is_not_well_is_told_of_that_host_alone(made, name, changes, sentence):
    change(made.hosts["alpha"], name, **changes)
    said = reported(made)
    assert any(each.replace(" alpha ", " ", 1).startswith(sentence) for each in said), said
    assert not [each for each in said if " beta " in each]


def test_who_answers_by_snmp_is_told_and_why_nobody_does(made):
    made.hosts["alpha"].answer = "Linux alpha 6.1", ""
    made.hosts["beta"].answer = "", "nobody answers at ...@192.0.2.2:161"
    assert [each.said for each in found(made, Grade.WELL) if each.topic == "snmp"] == ["Linux alpha 6.1"]
    assert reported(made) == [
        "wrong beta snmp: nobody answers at ...@192.0.2.2:161: correct key snmp, or let this machine ask there"
    ]


def test_facts_that_could_not_be_had_are_told_and_nothing_is_made_of_them(made):
    made.hosts["alpha"].facts = CollectedFacts(troubles=dict.fromkeys(FACTS, "OSError: no"))
    made.hosts["alpha"].cache = None
    assert reported(made) == [
        f"doubtful alpha access: its {name} could not be examined: OSError: no: correct that, and run the doctor again"
        for name in FACTS
    ]
    assert {each.topic for each in found(made) if each.subject == "alpha"} == {"access"}


def test_of_a_node_they_are_told_too(made):
    made.hosts["alpha"].node = True
    untold(made.hosts["alpha"], "ports", "PermissionError: /proc/net/tcp")
    (said,) = reported(made)
    assert said.startswith("doubtful alpha access: its ports could not be examined: PermissionError: /proc/net/tcp: ")


def test_who_measures_is_told_where_the_lease_alone_knows_it(made):
    untold(made.hosts["alpha"], "leftovers", "OSError: no")
    made.hosts["alpha"].lease_holder = "process 5 of user 0"
    assert [each.partition(": ")[0] for each in reported(made)] == [
        "doubtful alpha access", "doubtful all reach", "doubtful alpha lease"
    ]  # fmt: skip
    assert [each.subject for each in found(made) if each.topic == "left"] == ["beta"]


def test_what_the_cache_keeps_is_counted_as_clean_counts_it(made):
    change(made.hosts["beta"], "cache", entries=2)
    assert [each.said for each in found(made) if each.topic == "cache"] == [
        f"{count} (3.1 MB), in /home/me/.cache/pytest-ipperf" for count in ("1 entry", "2 entries")
    ]


def test_servers_that_cannot_run_are_told_of_the_server(made):
    made.hosts["beta"].facts.found["servers"].missing["postfix"] = "postfix is not installed"
    assert reported(made) == [
        "doubtful beta servers: smtp by an embedded server only: postfix is not installed: install it"
    ]
    made.hosts["beta"].host = dataclasses.replace(made.hosts["beta"].host, servers=("postfix", "apache"))
    assert reported(made) == [
        "wrong beta servers: key servers names postfix: postfix is not installed: install it, or correct the key"
    ]


SUDO = "sudo = yes, or another user in key ssh"


@pytest.mark.parametrize(
    ("protocol", "whys", "remedy"),
    [
        ("smtp", {"postfix": "postfix needs root"}, SUDO),
        ("imap", {"courier": "courier is neither installed (Debian: apt-get install courier-imap) nor unpacked in /x",
                  "dovecot": "dovecot is not installed (Debian: apt-get install dovecot-imapd)"},
         "install one of them"),
        ("imap", {"courier": "courier needs root", "dovecot": "dovecot is not installed"}, SUDO),
        ("smtp", {"postfix": "postfix needs user postfix and group postdrop"}, "provide what it needs"),
    ],
)  # fmt: skip
def test_the_remedy_for_a_server_fits_what_it_lacks(made, protocol, whys, remedy):
    made.hosts["beta"].facts.found["servers"].missing.update(whys)
    said = f"{protocol} by an embedded server only: {'; '.join(whys.values())}"
    assert reported(made) == [f"doubtful beta servers: {said}: {remedy}"]
    named = next(name for name in whys if remedy != SUDO or whys[name].endswith("root"))
    made.hosts["beta"].host = dataclasses.replace(made.hosts["beta"].host, servers=(named,))
    one = "install it" if remedy.startswith("install") else remedy
    assert reported(made) == [
        f"wrong beta servers: key servers names {named}: {whys[named]}: {one}, or correct the key"
    ]


def test_on_this_machine_root_is_had_without_ssh(made):
    made.hosts["beta"].host = dataclasses.replace(made.hosts["beta"].host, way="local", settings={})
    made.hosts["beta"].facts.found["servers"].missing["postfix"] = "postfix needs root"
    (said,) = reported(made)
    assert said.endswith(": postfix needs root: run as root, or sudo = yes in hosts.ini")


@pytest.mark.parametrize(
    ("ephemeral", "ports", "most", "remedy"),
    [
        ((32768, 60999), (20000, 29999), 30000, "sysctl net.ipv4.ip_local_port_range='30000 65535'"),
        ((32768, 60999), (61000, 61999), 50000, "sysctl net.ipv4.ip_local_port_range='1024 60999'"),
        ((30000, 65535), (20000, 29999), 50000,
         "ports = 1024-2023 in hosts.ini, then sysctl net.ipv4.ip_local_port_range='2024 65535'"),
        ((30000, 65535), (20000, 29999), 100000,
         "one client has 63512 at most: name more of them in key client, or a smaller max_connections"),
    ],
)  # fmt: skip
def test_a_client_with_too_few_ports_is_told_a_wider_range_and_a_server_needs_none(
    made, ephemeral, ports, most, remedy
):
    for seen in made.hosts.values():
        change(seen, "limits", ephemeral=ephemeral)
        seen.host = dataclasses.replace(seen.host, ports=ports, most_connections=most)
    there = ephemeral[1] - ephemeral[0] + 1
    assert reported(made) == [
        f"doubtful alpha ports: {there} ephemeral ports are too few for {most} connections: {remedy}"
    ]


def test_a_range_that_leaves_nothing_below_is_moved_too(made):
    change(made.hosts["beta"], "limits", ephemeral=(1024, 65535))
    (said,) = reported(made)
    assert said.endswith(": ports = 1024-2023 in hosts.ini, then sysctl net.ipv4.ip_local_port_range='2024 65535'")


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("reboot", ["reboot"]),
        ("sudo -n systemctl reboot", ["sudo", "systemctl"]),
        ("/usr/bin/sudo -n -u root -- /sbin/reboot -f", ["/usr/bin/sudo", "/sbin/reboot"]),
        ("sudo -nu root --host=a --user root A=b reboot", ["sudo", "reboot"]),
        ("sudo -n", ["sudo"]),
    ],
)
def test_what_a_reboot_needs_is_looked_up_behind_sudo_and_its_options(made, command, asked):
    assert programs(command) == asked
    made.hosts["alpha"].host = dataclasses.replace(made.hosts["alpha"].host, reboot=command)
    there = {each: f"/bin/{each.rpartition('/')[2]}" for each in asked}
    change(made.hosts["alpha"], "servers", programs=there)
    said = " and ".join(there.values()) + (" are there" if asked[1:] else " is there")
    assert [each.said for each in found(made) if each.topic == "reboot"] == [said]
    there[asked[-1]] = ""
    assert reported(made) == [f"wrong alpha reboot: key reboot: there is no program {asked[-1]}: correct the key"]


def test_what_root_alone_may_see_is_not_told_as_wrong(made):
    seen = made.hosts["alpha"]
    seen.host = dataclasses.replace(seen.host, reboot="sudo -n /srv/off now")
    change(seen, "servers", programs={"sudo": "/usr/bin/sudo", "/srv/off": ""})
    change(seen, "rights", root=False)
    (said,) = [each for each in reported(made) if " reboot: " in each]
    assert said == (
        "doubtful alpha reboot: key reboot: this user can see no program /srv/off, but sudo may find one: "
        "try it there: sudo -n -l /srv/off"
    )


PLAIN = "ssh -F /etc/lab/config -p 22 me@alpha true"


@pytest.mark.parametrize(
    ("trouble", "remedy"),
    [
        ("bash: line 1: /srv/python: Permission denied (exit status 126)",
         "user me may not run it: correct key python, or its rights there"),
        ("me@alpha: Permission denied (publickey). (exit status 255)",
         "put your public key into authorized_keys there, or name the right user in key ssh"),
        ("bash: line 1: sudo: command not found (exit status 127)",
         "install sudo there, or remove sudo = yes"),
        ("sudo: /x/python: command not found (exit status 1)",
         "install Python 3.10 or later there, or correct key python"),
        ("bash: line 1: python4: command not found (exit status 127)",
         "install Python 3.10 or later there, or name it in key python"),
        ("ssh: connect to host alpha port 22: Network is unreachable (exit status 255)",
         f"give this machine a route to it, or correct key ssh or ssh_config: {PLAIN}"),
        ("Can't open user config file /etc/lab/config: No such file or directory (exit status 255)",
         "correct key ssh_config"),
        ("/etc/lab/config: terminating, 1 bad configuration options (exit status 255)",
         "correct your ssh configuration, or key ssh_config"),
        ("kex_exchange_identification: read: Connection reset by peer (exit status 255)",
         f"try it by hand: {PLAIN}"),
        ("/bin/ls: cannot access '...': No such file or directory (exit status 2)",
         f"correct key python, if that is no Python: {PLAIN.replace('true', '/x/python --version')}"),
        ("what was started there ended before it answered; it must be a Python",
         f"correct key python; see what it is: {PLAIN.replace('true', '/x/python --version')}"),
    ],
)  # fmt: skip
def test_why_there_is_no_agent_is_told_with_what_fits_it(made, trouble, remedy):
    settings = {"ssh": "ssh://me@alpha:22", "python": "/x/python", "ssh_config": "/etc/lab/config"}
    made.hosts["alpha"].host = dataclasses.replace(made.hosts["alpha"].host, settings=settings)
    made.hosts["alpha"].trouble = trouble
    assert reported(made) == [f"wrong alpha access: {trouble}: {remedy}"]


def test_of_a_user_without_a_name_and_of_a_lab_it_is_told_too(made):
    made.hosts["alpha"].trouble = "bash: x: Permission denied (exit status 126)"
    assert reported(made)[0].endswith(": its user may not run it: correct key python, or its rights there")
    made.hosts["alpha"].host = Host(name="alpha", way="local", settings={})
    made.hosts["alpha"].trouble = "cannot be built here: no rights"
    assert reported(made) == ["wrong alpha access: cannot be built here: no rights: try it by hand"]


def test_what_sudo_refuses_is_told_with_one_remedy(made):
    made.hosts["alpha"].trouble = (
        "sudo: a password is required (exit status 1); give the user there a rule with NOPASSWD (sudoers), or remove "
        "sudo = yes"
    )
    assert reported(made) == [f"wrong alpha access: {made.hosts['alpha'].trouble.replace('; ', ': ')}"]


def test_tunnels_that_agents_are_to_make_need_rights_and_a_backend(made):
    ends = {
        role: TunnelEndpoint("tunnel", "ipperf-6in4", "192.0.2.1", "192.0.2.2", ()) for role in ("client", "server")
    }
    paths = {"tunnel": NetworkPath("2001:db8:1::1", "2001:db8:1::2", ends=ends)}
    made = dataclasses.replace(made, testbed=dataclasses.replace(made.testbed, paths=paths))
    for seen in made.hosts.values():
        change(seen, "tunnels", cannot={"kernel": ""})
    assert reported(made) == []
    change(made.hosts["alpha"], "tunnels", cannot={"kernel": "no sit driver"})
    change(made.hosts["beta"], "rights", admin=False)
    said = reported(made)
    remedy = "load the module sit there, or remove keys tunnel and isatap"
    assert f"wrong alpha tunnels: backend kernel cannot: no sit driver: {remedy}" in said
    assert f"wrong beta tunnels: its agent may not make tunnels: {SUDO}" in said
    made.hosts["beta"].host = dataclasses.replace(made.hosts["beta"].host, way="local", settings={})
    for why, what in (("", "its agent may not make tunnels"), ("no rights", "backend kernel cannot: no rights")):
        change(made.hosts["beta"], "tunnels", cannot={"kernel": why})
        assert f"wrong beta tunnels: {what}: run as root, or sudo = yes in hosts.ini" in reported(made)


def test_a_clock_that_is_off_is_told_with_its_uncertainty(made):
    made.hosts["beta"].skew_s = (-3.5, 0.002)
    (said,) = reported(made)
    assert said.startswith("doubtful beta clock: -3500.0 ms against this machine's (+- 2.0): have NTP set it")


def test_hosts_of_one_machine_that_share_its_processors_are_told(made):
    for seen in made.hosts.values():
        change(seen, "control", boot="same")
    assert reported(made)[0].startswith(
        "doubtful all processors: alpha, beta are one machine, and share its processors"
    )
    for number, seen in enumerate(made.hosts.values()):
        seen.host = dataclasses.replace(seen.host, cpus=(number,))
    assert reported(made) == []


@pytest.mark.parametrize("third", [0, 1])
def test_two_of_three_that_share_processors_are_enough(made, third):
    seen = [*made.hosts.values(), dataclasses.replace(made.hosts["beta"])]
    for each, name, cpu in zip(seen, ("alpha", "beta", "gamma"), (0, 1, third), strict=True):
        each.host = dataclasses.replace(each.host, name=name, cpus=(cpu,))
        change(each, "control", boot="same")
    made = dataclasses.replace(made, hosts={each.host.name: each for each in seen})
    (said,) = reported(made)
    assert said.startswith("doubtful all processors: alpha, beta, gamma are one machine, and share its processors: ")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"tcp": "connection refused"},
            "IPv4: connection refused by TCP from a port of 20000-29999: open 20000-29999 of",
        ),
        (
            {"udp": "no answer", "fits": {}},
            "IPv4: no answer by UDP from a port of 20000-29999: open 20000-29999 of",
        ),
        ({"fits": {1500: "no answer", 1501: "too big"}}, "IPv4: packets of 1500 bytes are lost on the path"),
        ({"fits": {1500: "too big", 1501: "too big"}}, "IPv4: packets of 1500 bytes are refused here"),
        ({"fits": {1500: "yes", 1501: "yes"}}, "IPv4: 1501 bytes arrive unfragmented, more than the MTU"),
        ({"trouble": "no route to 192.0.2.2 (no)"}, "IPv4: no route to 192.0.2.2 (no): correct that before anything"),
    ],
)
def test_what_is_wrong_on_a_way_is_told_of_that_way(made, changes, sentence):
    one, other = made.reachability
    made = dataclasses.replace(made, reachability=(dataclasses.replace(one, **changes), other))
    (said, *_) = reported(made)
    assert re.sub(r"^wrong alpha -> beta \w+: ", "", said).startswith(sentence)


def test_calls_that_share_the_measured_link_are_told_and_no_trouble(made):
    change(made.hosts["alpha"], "control", ends=("192.0.2.200", "192.0.2.1"))
    (said,) = [each.said for each in found(made) if (each.subject, each.topic) == ("alpha", "control")]
    assert said == (
        "ssh comes from 192.0.2.200 to 192.0.2.1, a measured address: calls share the measured link, and are silent "
        "during runs"
    )
    assert reported(made) == []


def test_a_testbed_with_one_arm_and_a_neighbour_is_told(made):
    bare = [dataclasses.replace(each, ipv6="") for each in made.testbed.hosts]
    testbed = dataclasses.replace(made.testbed, client=bare[0], server=bare[1])
    made = dataclasses.replace(made, testbed=testbed, others={"home": "ssh beta port 22"})
    (said,) = reported(made)
    assert said.startswith("wrong all testbed: nothing to compare: testbed office has no IPv6: host alpha has no ipv6")
    assert any(each.said == "never measured while home is: both have ssh beta port 22" for each in found(made))


@pytest.mark.parametrize(
    ("name", "arms"), [("lab", "ipv4, ipv6"), ("lab.100mbit", "ipv4, ipv6, ipv6-tunnel, ipv6-isatap")]
)
def test_tunnels_that_no_backend_can_carry_are_no_arms_of_a_lab(name, arms):
    # Backend userspace runs everywhere, but needs links with a rate.
    testbed = dataclasses.replace(with_rate(name, BUILTIN) or BUILTIN[name], backend="userspace")
    said = [each.said for each in CHECKS["testbed"].findings(ObservedTestbed(testbed=testbed, hosts={}))]
    assert said == [f"arms {arms}"]


def test_the_page_has_a_row_for_every_check():
    rows = re.findall(r"^\| `([\w ]+)` \| [^|]+ \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(CHECKS[name].topic for name in CHECKS)


def test_this_machine_is_examined_as_loopback():
    findings = examine(BUILTIN["loopback"], BUILTIN)
    assert {each.subject for each in findings} >= {"this machine", "client", "server"}
    assert [each.said for each in findings if each.topic == "access" and each.grade is not Grade.WELL] == []
    assert [each for each in findings if each.topic == "access" and each.grade is Grade.WELL]


@pytest.fixture
def crossing(monkeypatch):
    """Record the holder of this machine while probes are sent."""
    free = Lease("tests")
    if holder := free.acquire(10.0):
        pytest.skip(f"this machine is held by {holder}")
    free.release()
    holders: list[str] = []

    def probe_reachability(*_):
        holders.append(Lease("a session").holder())
        return Reachability(here="client", there="server", ipver=4, mtu=1500)

    monkeypatch.setattr(examination, "probe_reachability", probe_reachability)
    return holders


def test_nobody_can_begin_to_measure_while_packets_are_sent(crossing):
    findings = examine(BUILTIN["loopback"], BUILTIN)
    assert crossing
    assert all(holder.endswith(": pytest-ipperf doctor --testbed=loopback)") for holder in crossing)
    assert {each.said for each in findings if each.topic == "lease"} == {"free"}
    assert Lease("").holder() == ""


def test_of_who_begins_before_that_it_is_told_and_no_packet_is_sent(crossing, monkeypatch):
    lease, facts_of, one_at_a_time = Lease("job\nme@desk: pytest"), examination._facts, threading.Lock()

    def begun_after(*given):
        facts_of(*given)
        with one_at_a_time:  # hosts are examined side by side
            assert lease.acquire(0) == ""

    monkeypatch.setattr(examination, "_facts", begun_after)
    try:
        findings = examine(BUILTIN["loopback"], BUILTIN)
    finally:
        lease.release()
    assert crossing == []
    (held,) = {each.said for each in findings if each.topic == "lease" and each.grade is Grade.DOUBTFUL}
    assert held.startswith("held by process ")
    assert held.endswith(" (me@desk: pytest)")
    assert [
        each.said for each in findings if each.said.startswith("the paths were not probed, as somebody is measuring on")
    ]


@pytest.fixture
def midst(monkeypatch):
    """Run a function on the agents, by host, when probes are about to be sent."""

    def does(what):
        monkeypatch.setattr(examination, "_probe_all", lambda _, agents, __: what(agents) or ())

    return does


def test_an_agent_that_dies_in_the_midst_is_told(midst, tmp):
    midst(lambda agents: os.kill(agents["this machine"]._process.pid, signal.SIGKILL))
    (reported,) = [each for each in examine(BUILTIN["loopback"], BUILTIN) if each.subject == "this machine"]
    assert (reported.grade, reported.topic) == (Grade.WRONG, "access")
    assert reported.said.startswith(
        "the agent died during call 'collect_facts'; its host went down, the link broke, or it was "
    )


root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def busy(tmp):
    """Make all private folders impossible to remove."""
    for folder in tmp.glob("ipperf-*"):
        (folder / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", folder / "mounted"], check=True)


@root
def test_what_an_examination_leaves_is_wrong_and_marked(midst, tmp):
    midst(lambda _: busy(tmp))
    wrong = [each for each in examine(BUILTIN["loopback"], BUILTIN) if each.grade is Grade.WRONG]
    start = "this examination could not remove everything: host "
    assert {each.said.removeprefix(start).partition(": private folder ")[0] for each in wrong} == {
        "this machine", "client", "server"
    }  # fmt: skip
    assert {(each.subject, each.topic, each.remedy) for each in wrong} == {
        ("", "left", "put it in order, then clear the mark: pytest-ipperf doctor --testbed=loopback --clear")
    }
    assert all_marks()


@root
@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (ValueError("odd"), RestoreError, "^ValueError: odd; and not everything could be removed: host .* --clear$"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_it_is_told_where_an_error_leaves_no_findings_and_a_ctrl_c_goes_on(midst, tmp, error, raised, words):
    def broken_off(_):
        busy(tmp)
        raise error

    midst(broken_off)
    with pytest.raises(raised, match=words):
        examine(BUILTIN["loopback"], BUILTIN)
    assert all_marks()


def test_of_another_clock_the_wall_clock_is_compared(monkeypatch):
    ours = sample_clocks()
    monkeypatch.setattr(
        examination, "sample_clocks", lambda: dataclasses.replace(ours, whose={}, real_s=ours.real_s - 2.5)
    )
    seen = HostObservation(host=Host(name="near", way="local", settings={}), roles=())
    with AgentClient(seen.host) as agent:
        examination._measure_clock(agent, seen)
    assert seen.skew_s
    ahead_s, error_s = seen.skew_s
    assert abs(ahead_s - 2.5) < error_s + 0.001


@pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")
def test_clients_that_no_way_joins_are_well():
    findings = examine(lab("crowd", 3, clients=2), BUILTIN)
    assert [each for each in findings if each.grade is Grade.WRONG and each.topic == "addresses"] == []
    well = {(each.subject, each.said) for each in findings if each.topic == "addresses"}
    assert ("client2", "198.18.2.1 and 2001:2:0:22::1 by eth0") in well
    assert "tunnels" not in {each.topic for each in findings}  # such a lab makes none


@pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")
def test_a_lab_is_built_and_examined():
    findings = examine(BUILTIN["pair"], BUILTIN)
    assert [
        each for each in findings if each.grade is Grade.WRONG and each.topic in ("reach", "MTU", "addresses")
    ] == []
    ways = {(each.subject, each.said) for each in findings if each.topic == "MTU"}
    assert ("client -> server", "IPv6: 1500 bytes arrive unfragmented, 1501 are refused") in ways
