"""Ways to a host, as people have them: their own configuration, keys, ports, jump hosts, IPv6, and sudo."""

from __future__ import annotations

import re
import shutil
import time

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.hosts import machines
from tests.support.hosts.ssh_hosts import CONTROL6, SUITE

needs_sudo = pytest.mark.skipif(shutil.which("sudo") is None, reason="no sudo here (Debian: apt-get install sudo)")
ONE = SUITE.replace("[1, 10]", "[1]")
REACHED = """
from pathlib import Path
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.agents.client import AgentClient
for host in read_inventory(Path({inventory!r}))["bed1"].hosts:
    try:
        with AgentClient(host) as agent:
            hello = agent.hello()
            print(host.name, hello.host, hello.python)
    except AgentError as error:
        print(error)
"""
ROOTS_HERE = """
import os, subprocess
from pathlib import Path
from pytest_ipperf.lab.agents import client as client_module
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Host
client_module._STOP_S = 1.0
print(os.getuid())
for stopped in (False, True):
    with AgentClient(Host(name="here", way="local", sudo=True, settings={})) as agent:
        agent_pid = str(agent.hello().pid)
        print(Path("/proc", agent_pid).stat().st_uid)
        if stopped:
            subprocess.run(["sudo", "-n", "kill", "-STOP", agent_pid], check=True)
"""


def reached(farm):
    """By host, what its agent says of itself, or why there is none; nothing is left of any."""
    lines = farm.python(REACHED.format(inventory=str(farm.inventory))).splitlines()
    assert farm.left() == []
    return {line.removeprefix("host ").partition(" ")[0].rstrip(":"): line for line in lines}


def agents_of(farm):
    """What `reached` tells where all is well."""
    return {host.name: f"{host.name} {host.name} {host.python_version}" for host in farm.hosts.values()}


def make_own(farm, text):
    """The user's own configuration, in front of what names the keys; the inventory names none."""
    home = farm.folder / "controller" / "home" / ".ssh"
    (home / "config").write_text(text + farm.ssh_config.read_text())
    for name in farm.hosts:
        farm.change(name, ssh_config="")
    farm.mark()


def listen_beside(host, port):
    """A second sshd of the host, with a host key of its own and for another key; the file of that, and the identity."""
    folder = host.home / ".ssh"
    (mine, identity), (secret, public) = machines.keys("beside"), machines.keys("other user")
    for name, text in (("host_key", mine), ("user_key", secret), ("others", public)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    config = (host.tmp.parent / "sshd_config").read_text().replace(".ssh/authorized_keys", ".ssh/others")
    own_key = f"Port {port}\n{config}".replace(f"{host.tmp.parent}/host_key", f"{folder}/host_key")
    (folder / "sshd_config").write_text(own_key)
    host.run(machines.sshd_program(), "-f", str(folder / "sshd_config"))
    end = time.monotonic() + 20
    while host.run("ps", "-wwAo", "args").count("[listener]") < 2 and time.monotonic() < end:
        time.sleep(0.02)  # it goes to the background before it listens
    return folder / "user_key", identity


def test_the_users_own_configuration_with_names_a_key_and_a_port_of_its_own(farm):
    stands = farm()
    server = stands.hosts["server1"]
    key, identity = listen_beside(server, 2022)
    known = stands.folder / "known_beside"
    known.write_text(f"[{server.control4}]:2022 {identity}")
    beta = f"HostName {server.control4}\n    Port 2022\n    User root\n    IdentityFile {key}\n"
    make_own(stands, f"Host beta\n    {beta}    UserKnownHostsFile {known}\n")
    stands.change("server1", ssh="beta")
    assert reached(stands) == agents_of(stands)


def test_a_host_behind_a_jump_host_with_a_configuration_of_its_own(farm):
    """The client cannot be reached directly; the server is reached so, by the configuration of all."""
    stands = farm(routed=True)
    client, router = stands.hosts["client1"], stands.hosts["router1"]
    for address, version in ((client.control4, "-4"), (client.control6, "-6")):
        machines.said([*stands.entry, "ip", version, "route", "add", "unreachable", address])
    stands.mark()
    assert reached(stands) == agents_of(stands) | {
        "client1": "host client1: no agent could be started by access method ssh: "
        f"ssh: connect to host {client.control4} port 22: No route to host (exit status 255)"
    }
    path = stands.folder / "jump_config"
    path.write_text(f"Host client1\n    ProxyJump router1\n{stands.ssh_config.read_text()}")
    stands.change("client1", ssh_config=str(path))
    assert reached(stands) == agents_of(stands)
    assert f"Accepted publickey for root from {router.control4}" in (client.tmp.parent / "sshd.log").read_text()


def test_control_addresses_of_ipv6_bare_and_in_a_uri_with_a_port(farm):
    stands = farm()
    client, server = stands.hosts["client1"], stands.hosts["server1"]
    key, identity = listen_beside(server, 2222)
    known = stands.folder / "known_beside"
    known.write_text(f"[{server.control6}]:2222 {identity}")
    text = f"Host {server.control6}\n    IdentityFile {key}\n    UserKnownHostsFile {known}\n"
    keys = stands.folder / "controller" / "keys"
    text += f"Host {client.control6}\n    IdentityFile {keys}/client1\n"
    text += f"    UserKnownHostsFile {keys}/known_client1\n    HostKeyAlias client1\n"
    make_own(stands, text)
    stands.change("client1", ssh=f"root@{client.control6}")
    stands.change("server1", ssh=f"ssh://root@[{server.control6}]:2222")
    process = stands.session("--design=glance", "--ipperf-server=embedded", suite=ONE)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == NOTHING_DECIDED, said
    assert stands.left() == []
    assert [run["proof"]["control"] for run in stands.events("run")] == [0] * 4
    logs = {name: (host.tmp.parent / "sshd.log").read_text() for name, host in stands.hosts.items()}
    assert f"Accepted publickey for root from {CONTROL6}::1 " in logs["client1"]
    assert "Accepted" not in logs["server1"]  # but by the sshd beside it


@needs_sudo
def test_the_agents_of_ordinary_users_are_roots_by_sudo_and_measure(farm):
    stands = farm()
    for name in stands.hosts:
        stands.change(name, ssh=f"admin@{name}", sudo="yes")
    seen = set()
    with stands.session("--design=glance", "--ipperf-server=embedded", suite=ONE) as process:
        while process.poll() is None:
            for host in stands.hosts.values():
                seen |= set(host.run("ps", "-wwAo", "user:9,args").splitlines())
            time.sleep(0.3)
        said = process.stdout.read()
    assert process.returncode == NOTHING_DECIDED, said
    assert stands.left() == []
    agents = [line for line in seen if re.search(r"^\w+ +\S*python3 -I -c", line)]
    assert {line.split()[0] for line in agents} == {"root"}
    # The agents know the line to the controller, of which sudo tells them nothing.
    assert [run["proof"]["control"] for run in stands.events("run")] == [0] * 4


@needs_sudo
def test_the_agent_of_this_machine_is_roots_by_sudo_too(farm, nobody):
    """Who has started it may not kill it, but sudo may, where it has to be: one that is stopped does not end itself."""
    stands = farm()
    words = [*stands.controller.entry, "setpriv", "--reuid=4001", "--regid=4001", "--clear-groups", "--", "env", "-i"]
    words += [f"{name}={value}" for name, value in nobody.env.items()]
    assert machines.said([*words, nobody.python, "-c", ROOTS_HERE]) == "4001\n0\n0\n"
    assert stands.left() == []


@needs_sudo
def test_a_sudo_that_wants_a_password_is_told(farm):
    stands = farm()
    stands.change("server1", ssh="clerk@server1", sudo="yes")
    assert reached(stands)["server1"] == (
        "host server1: no agent could be started by access method ssh: sudo: a password is required (exit status 1); "
        "give the user there a rule with NOPASSWD (sudoers), or remove sudo = yes"
    )


def test_two_names_of_one_host_are_one_machine(farm):
    stands = farm()
    text = f"Host alpha\n    HostName {stands.hosts['client1'].control4}\n"
    make_own(stands, text)
    stands.change("server1", ssh="alpha")
    asked = "from pathlib import Path\nfrom pytest_ipperf.lab.inventory import read_inventory\n"
    asked += f"print(*read_inventory(Path({str(stands.inventory)!r}))['bed1'].guarded, sep='\\n')"
    assert stands.python(asked) == f"ssh {stands.hosts['client1'].control4} port 22\n"
