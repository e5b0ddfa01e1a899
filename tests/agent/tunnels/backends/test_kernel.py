"""The kernel's sit driver, in a machine whose kernel has it: its devices, its loading and unloading.

Carrying packets is tested with the other backends, on whole paths.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import textwrap

import pytest

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, HostAddresses
from tests.support.hosts.uml_guest import uml  # noqa: F401 - a fixture
from tests.support.needs import needs

PLACES = {
    CLIENT: HostAddresses("198.18.0.1", "2001:2:0:10::1"),
    ROUTER: HostAddresses("198.18.0.2", "2001:2:0:10::2"),
    SERVER: HostAddresses("198.18.1.1", "2001:2:0:11::1"),
}
PREFIXES = {"tunnel": ("2001:2:0:41::/64",), "isatap": ("2001:2:0:5e::/64", "2001:2:0:12::/64")}
HOST = """
import contextlib, os, subprocess, sys, time
from pathlib import Path
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.paths.routes import Protocol41
from pytest_ipperf.agent.tunnels.tunnel import create_tunnel
from pytest_ipperf.transports.base import TunnelEndpoint

def sh(text):
    return subprocess.run(["sh", "-ec", text], check=True, capture_output=True, text=True).stdout.strip()

def raised(*ends):
    for end in ends:
        create_tunnel("kernel", TunnelEndpoint(**end), changes, contextlib.ExitStack())

changes = Changes()
"""
# The driver is loaded in a virtual machine that has no module folder, so a script replaces `modprobe`.
MODPROBE = """
mkdir -p /dev/shm/bin
cat > /dev/shm/bin/modprobe <<'END'
#!/bin/sh
case $* in
    sit) exec busybox insmod "$(find /usr/lib/uml/modules/"$(uname -r)" -name sit.ko)" ;;
    "--remove sit") exec busybox rmmod sit ;;
esac
exit 7
END
chmod +x /dev/shm/bin/modprobe
"""


def ends(name):
    return {role: dataclasses.asdict(end) for role, end in TRANSPORTS[name].path(PLACES, PREFIXES[name]).ends.items()}


@pytest.fixture
def host(uml):  # noqa: F811 - the fixture
    """Run code in a separate network of that machine, or in the machine's own; return what it printed last."""

    def run(code, up="", words=("unshare", "--net")):
        script = f'export IPPERF_RUN=/dev/shm/run PATH=/dev/shm/bin:$PATH; ip link set lo up\n{up}\nexec "$@"'
        command = [sys.executable, "-c", HOST + textwrap.dedent(code)]
        done = uml.run([*words, "sh", "-ec", script, "sh", *command])
        assert done.returncode == 0, done.stderr
        return ast.literal_eval(done.stdout.splitlines()[-1])

    return run


# In a state in which they can send to anyone.
LINKED = (
    "ip link add eth0 type ifb; ip link set eth0 up; ip addr add 198.18.0.1/24 dev eth0; ip route add default dev eth0"
)


def test_its_devices_are_as_ordered_send_nothing_unasked_and_go_as_if_never_there(host):
    """Packets that a device sends by itself would be counted against other arms."""
    end = ends("isatap")[CLIENT]
    found = host(f"""
        before, counter = os.listdir("/sys/class/net"), Protocol41()
        raised({ends("tunnel")[CLIENT]!r}, {end!r})
        links = [" ".join(line.split()) for line in sh("ip -d -o link show type sit").splitlines() if "ipperf" in line]
        shown = sh("ip -6 -o addr show; ip -6 route; ip tunnel show ipperf-isatap; ip -6 addr show tentative")
        time.sleep(1.2)  # routers would be asked for within a second (RFC 4861, section 6.3.7)
        sent = counter.count()
        counter.close()
        print([links, shown.splitlines(), sent, changes.undo(), os.listdir("/sys/class/net") == before])
    """, LINKED)  # fmt: skip
    assert " mtu 1480 " in found[0][0]
    assert " sit ip6ip remote 198.18.1.1 local 198.18.0.1 ttl 64 pmtudisc addrgenmode " in found[0][0]
    assert " mtu 1480 " in found[0][1]
    assert " sit ip6ip remote any local 198.18.0.1 ttl 64 pmtudisc isatap " in found[0][1]
    devices = [(line.split()[1], line.split()[3]) for line in found[1] if " inet6 " in line]
    assert ("ipperf-6in4", "2001:2:0:41::1/64") in devices
    assert {address for device, address in devices if device == "ipperf-isatap"} == set(end["addresses"])
    assert found[1][-1] == "ipperf-isatap: ipv6/ip remote any local 198.18.0.1 pdr 198.18.0.2 ttl 64"
    assert any(line.startswith("2001:2:0:12::/64 via fe80::5efe:c612:2 dev ipperf-isatap") for line in found[1])
    assert found[2:] == [{"in": 0, "out": 0}, [], True]


def test_it_works_for_root_and_for_a_user_without_rights(host):
    """A user who may make namespaces may make tunnels in them."""
    assert host("""
        missing = [BACKENDS["kernel"].missing()]
        os.setresuid(65534, 65534, 65534)
        print([*missing, BACKENDS["kernel"].missing()])
    """) == ["", ""]


@needs("ip")
def test_a_kernel_without_the_driver_is_named():
    why = BACKENDS["kernel"].missing()
    if not why:
        pytest.skip("the kernel of this machine has the driver")
    assert "has no sit driver (module sit)" in why or why.startswith("no rights to make a tunnel (")


def test_a_driver_that_was_not_loaded_is_not_loaded_afterwards(host, uml):  # noqa: F811 - the fixture
    end = ends("tunnel")[CLIENT]
    # A tunnel that somebody else made later is not removed with it.
    other = "unshare --net sh -ec 'ip link add theirs type sit mode ip6ip local 192.0.2.1; echo; exec sleep 60'"
    try:
        found = host(f"""
            from pytest_ipperf.agent.tunnels.backends import kernel
            def loaded():
                return [Path("/sys/module/sit").exists(), Path("/sys/class/net/sit0").exists()]
            sh("busybox rmmod sit")
            raised({end!r})
            found = [loaded(), changes.undo(), loaded()]
            sh("modprobe sit")
            other = subprocess.Popen({other!r}, shell=True, stdout=-1)
            other.stdout.readline()
            found += [kernel._run(kernel._UNLOADED), loaded()]
            other.kill()
            print(found)
        """, MODPROBE, words=("env",))  # fmt: skip
    finally:
        uml.sh("[ -e /sys/module/sit ] || /dev/shm/bin/modprobe sit")
    assert found == [[True, True], [], [False, False], "", [True, True]]
