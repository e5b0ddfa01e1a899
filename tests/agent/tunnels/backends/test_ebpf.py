"""Tunnels by BPF programs, between real namespaces; alone and with the forwarder at the other end."""

from __future__ import annotations

import ast
import os

import pytest

from pytest_ipperf.agent.tunnels import bpf_assembler
from pytest_ipperf.agent.tunnels.backends import BACKENDS, ebpf
from tests.support.needs import needs

MISSING = BACKENDS["ebpf"].missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"BPF programs: {MISSING}")
CARRIED = """
from ends import *
with Pair({near!r}, {far!r}):
    print([[pings(a), pings(a, "-s", "4000"), streams(a), wire(a, 1432, 0xb8)[:20]] for a in REACHED.values()])
"""


@needs("ping")
@pytest.mark.parametrize(
    ("near", "far"), [("ebpf", "ebpf"), ("ebpf@lab", "ebpf"), ("ebpf@lab", "ebpf@lab"), ("ebpf", "userspace")]
)
def test_pings_fragments_streams_and_datagrams_are_carried(isolated, near, far):
    for _ in range(3):  # a busy machine loses one at times; these tunnels are new ones, so the first packets count
        tunnel, isatap = ast.literal_eval(isolated(CARRIED.format(near=near, far=far)))
        if tunnel[:3] == isatap[:3] == [True, True, True]:
            break
    assert tunnel[:3] == isatap[:3] == [True, True, True]
    # 1500 bytes, traffic class copied, no identification, don't-fragment, TTL 64, protocol 41, checksum, addresses
    assert tunnel[3].hex() == "45b805dc000040004029a819c6120001c6120002"
    assert isatap[3].hex() == "45b805dc000040004029a805c612000bc612000c"


@pytest.mark.parametrize("backend", ["ebpf", "ebpf@lab"])
def test_only_the_peer_the_address_itself_and_the_router_get_in(isolated, backend):
    assert isolated(WHO_GETS_IN.format(backend=backend)) == EXPECTED


WHO_GETS_IN = """
from ends import *
with Pair({backend!r}, {backend!r}) as pair:
    inner, behind = REACHED["tunnel"], "2001:2:0:12::1"
    print("tunnel", pair.gets_in(FAR, inner, "tunnel"), pair.gets_in(ROUTER, inner, "tunnel"),
          pair.gets_in(FAR, "::ffff:198.18.0.2", "tunnel"))
    for form in ("0", "200"):
        print("isatap", pair.gets_in(SITE_FAR, "2001:2:0:5e:" + form + ":5efe:" + SITE_FAR, "isatap"))
    print("others", pair.gets_in(SITE_FAR, "2001:2:0:5e:0:5efe:198.18.0.77", "isatap"),
          pair.gets_in(SITE_FAR, behind, "isatap"))
    print("router", pair.gets_in(ROUTER, behind, "isatap"))
    options = lambda packet: b"\\x46" + packet[1:]
    broken = lambda packet: packet[:8] + bytes((packet[8] ^ 1,)) + packet[9:]
    print("options", pair.gets_in(FAR, inner, "tunnel", options))
    print("not whole", pair.gets_in(FAR, inner, "tunnel", lambda packet: packet[:-3]))
"""
EXPECTED = """\
tunnel True False False
isatap True
isatap True
others False False
router True
options False
not whole False"""


def test_nothing_is_left_when_its_holder_is_killed(isolated):
    code = """
from ends import *
ip(f"link add eth0 type veth peer name eth1\\naddr add {NEAR}/24 dev eth0\\naddr add {SITE_NEAR}/24 dev eth0")
ip("link set eth0 up\\nlink set eth1 up")
before = devices()
popen, _ = holder("ebpf")
print(devices(), programs("eth0"))
popen.kill(); popen.communicate()
print(waited(lambda: devices() == before and not programs("eth0")))
"""
    there = ["eth0", "eth1", "ipperf-6in4", "ipperf-isatap", "lo"]
    assert isolated(code) == f"{there} 2\nTrue"


def test_a_lab_s_filters_go_with_their_tunnels(isolated):
    code = """
from ends import *
def filters(device, way):
    argv = ["tc", "filter", "show", "dev", device, way]
    found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [line.split("pref ")[1].split()[0] for line in found.splitlines() if "direct-action" in line]
ip(f"link add eth0 type veth peer name eth1\\naddr add {NEAR}/24 dev eth0\\naddr add {SITE_NEAR}/24 dev eth0")
ip("link set eth0 up\\nlink set eth1 up")
with contextlib.ExitStack() as stack:
    raised("ebpf@lab", NEAR, stack)
    print(filters("eth0", "ingress"), *(filters(f"ipperf-{each}", "egress") for each in ("6in4", "isatap")))
    print(programs("eth0"))
print(filters("eth0", "ingress"))
"""
    # 6in4 takes its packets before ISATAP, and no link of tcx is made.
    assert isolated(code) == "['1', '2'] ['1'] ['1']\n0\n[]"


def test_a_lab_s_tunnel_that_fails_later_leaves_no_filter(isolated):
    code = """
from ends import *
from pytest_ipperf.core.portable.errors import LabError
ip(f"link add eth0 type veth peer name eth1\\naddr add {NEAR}/24 dev eth0")
with contextlib.ExitStack() as stack:
    try:
        end = TunnelEndpoint("tunnel", "ipperf-6in4", NEAR, FAR, ("2001:2:0:41::1/64",), (("2001:2::/48", "::1"),))
        create_tunnel("ebpf", end, UnmanagedChanges(), stack)
    except LabError as error:
        print(bool(str(error)))
    print(subprocess.run(["tc", "filter", "show", "dev", "eth0", "ingress"], capture_output=True).stdout, devices())
"""
    assert isolated(code) == "True\nb'' ['eth0', 'eth1', 'lo']"


def test_a_tunnel_s_end_with_no_address_of_this_host_is_an_error_in_words(isolated):
    code = """
from ends import *
from pytest_ipperf.core.portable.errors import LabError
changes = Changes()
with contextlib.ExitStack() as stack:
    try:
        create_tunnel("ebpf", TunnelEndpoint("tunnel", "ipperf-6in4", "192.0.2.1", FAR, ()), changes, stack)
    except LabError as error:
        print(error)
print(changes.undo(), devices())
"""
    said = "no device of this host has address 192.0.2.1; the tunnel's end has to be an address of it"
    assert isolated(code) == f"{said}\n[] ['lo']"


def test_a_program_that_cannot_be_placed_is_an_error_in_words(isolated):
    code = """
from ends import *
from pytest_ipperf.core.portable.errors import LabError
ip(f"addr add {NEAR}/24 dev lo")
bpf_assembler.attach = lambda *_, **__: (_ for _ in ()).throw(OSError(22, "Invalid argument"))
changes = Changes()
with contextlib.ExitStack() as stack:
    try:
        create_tunnel("ebpf", TunnelEndpoint("tunnel", "ipperf-6in4", NEAR, FAR, ()), changes, stack)
    except LabError as error:
        print(error)
print(changes.undo(), devices())
"""
    assert isolated(code) == "no BPF program could be put on ipperf-6in4 and lo: Invalid argument\n[] ['lo']"


def test_a_filter_that_cannot_be_placed_is_an_error_in_words(isolated):
    code = """
from ends import *
from pytest_ipperf.agent.tunnels import tc_filters
from pytest_ipperf.core.portable.errors import LabError
ip(f"addr add {NEAR}/24 dev lo")
tc_filters.order = lambda *_, **__: (_ for _ in ()).throw(OSError(22, "Invalid argument"))
with contextlib.ExitStack() as stack:
    try:
        create_tunnel("ebpf", TunnelEndpoint("tunnel", "ipperf-6in4", NEAR, FAR, ()), UnmanagedChanges(), stack)
    except LabError as error:
        print(error)
print(devices())
"""
    assert isolated(code) == "no BPF program could be put on ipperf-6in4 and lo: Invalid argument\n['lo']"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("true_root", lambda: False, "only root of the machine may load BPF programs"),
        ("_OLDEST", (99, 1), f"this is Linux {os.uname().release}; it works from Linux 99.1 on"),
        ("program", lambda _: "", "ip is not installed (Debian: apt-get install iproute2)"),
    ],
)
def test_what_is_missing_is_told_in_words(monkeypatch, name, value, said):
    monkeypatch.setattr(ebpf, name, value)
    assert ebpf.backend.missing() == said


def test_a_kernel_that_refuses_the_programs_is_told(monkeypatch):
    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(bpf_assembler, "load", refuse)
    said = "the kernel refuses its programs (Operation not permitted); it works where CONFIG_BPF_SYSCALL is set"
    assert ebpf._refusal.__wrapped__() == said
