"""Real servers on a host with several IPv6 addresses, as tunnels add them: one name leads each arm to its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import zone_at
from tests.support.needs import require

ROOT = Path(__file__).parents[2]
NATIVE, TUNNEL, ISATAP = "2001:2:0:11::1", "2001:2:0:41::2", "2001:2:0:5e:0:5efe:c612:101"
ADDRESSES = ("198.18.1.1", "198.18.2.1", NATIVE, TUNNEL, ISATAP)
# The devices need no peer, as a host reaches its own addresses without one.
DEVICES = f"""
set -e
ip link set lo up
tunnel() {{
    ip link add "$1" type sit mode ip6ip $2 local 198.18.1.1 ttl 64 2>&- || ip link add "$1" mtu 1480 type ifb
    ip link set "$1" arp off multicast off up
    ip addr add "$3/64" dev "$1" nodad
}}
ip link add eth0 type veth peer name far
for each in far eth0; do ip link set "$each" up; done
for each in 198.18.1.1/24 198.18.2.1/24 "{NATIVE}/64 nodad"; do ip addr add $each dev eth0; done
tunnel ipperf-6in4 "remote 198.18.0.1" {TUNNEL}
tunnel ipperf-isatap isatap {ISATAP}
ip addr add fe80::5efe:c612:101/64 dev ipperf-isatap nodad
exec "$@"
"""
# Two transactions on each address, each with a look-up at that very address; prints the results.
TALK = """
import dataclasses, json, random, sys
from contextlib import ExitStack
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

def started(recipe, folder, stack):
    data = f"{folder}/{recipe.name}-data"
    if recipe.provisioned:
        populate(data, recipe.provisions(data, state))
    port = free_port(addresses, 20000, 29999, random.Random())
    site = Site(f"{folder}/{recipe.name}", addresses, port, 10, state, {protocol.host: addresses}, data=data)
    instance = ServerProcess(recipe, dataclasses.replace(site, ports=(20000, 29999)))
    instance.start()
    stack.callback(instance.stop)
    return port

def told(address):
    return load(LoadSpec(
        protocol=protocol.name, client="lean", payload_bytes=size, connections=2, bursts=1,
        ipver=6 if ":" in address else 4, resolver="" if protocol.datagram else address, resolver_port=resolver,
        name=address if protocol.datagram else protocol.host, port=port, source=address, deadline_s=20.0, ident=0,
        state=dataclasses.replace(state, pages={}),
    ))

recipe, naming, addresses = SERVERS[sys.argv[1]], SERVERS[sys.argv[2]], tuple(sys.argv[3:])
protocol = application(recipe.protocol)
size = parse_bytes(protocol.payload[0]) if protocol.datagram else 1000
state = protocol.filled(ServerState(users=5, password="1b2c3d4e"), size)
with private_folder() as folder, ExitStack() as stack:
    port = started(recipe, folder, stack)
    resolver = port if protocol.datagram else started(naming, folder, stack)
    found = {each: told(each) for each in addresses}
    names = ("attempted", "failed", "peers")
    print(json.dumps({each: {key: getattr(result, key) for key in names} for each, result in found.items()}))
"""


def usable(name):
    if missing := SERVERS[name].missing():
        pytest.skip(f"{name} cannot run here: {missing}")
    return name


def talked(name, naming="nameserver"):
    require("ip", "unshare")
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = shutil.which("unshare") or "unshare"
    argv = [unshare, *rights, "--net", "sh", "-c", DEVICES, "sh", sys.executable, "-c", TALK, name, naming, *ADDRESSES]
    if subprocess.run([unshare, *rights, "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no rights for a network namespace")
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [name for name in SERVERS if name != "null"])
def test_one_name_leads_each_address_to_itself(name):
    told = talked(usable(name))
    assert told == {each: {"attempted": 2, "failed": {}, "peers": {each: 2}} for each in ADDRESSES}


def test_with_bind_as_the_name_server_too():
    told = talked("imapd", usable("bind"))
    assert told == {each: {"attempted": 2, "failed": {}, "peers": {each: 2}} for each in ADDRESSES}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (NATIVE, (*ADDRESSES[:2], NATIVE)),
        (ISATAP, (*ADDRESSES[:2], ISATAP)),
        ("198.18.2.1", ("198.18.2.1", *ADDRESSES[2:])),
        ("198.18.3.1", ADDRESSES),
        ("::1", ADDRESSES),
    ],
)
def test_of_a_name_that_has_the_address_asked_no_other_of_its_family_is_told(address, told):
    elsewhere = ("192.0.2.1", "192.0.2.2", "2001:db8::1")
    zone = {"www.ipperf.test": ADDRESSES, "elsewhere.example": elsewhere, "empty.example": ()}
    expected = {"www.ipperf.test": told, "elsewhere.example": elsewhere, "empty.example": ()}
    assert zone_at(zone, address) == expected
