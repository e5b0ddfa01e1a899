"""Tunnelled arms between the user's own hosts behind real sshds: made for the session, or existing before it.

The hosts are the nodes of a lab that is not known as one. Afterwards they are in the same state as before.
"""

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.inventory.builtin import lab
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from pytest_ipperf.lab.tunnels.setup import EXISTING
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import HostAddresses
from tests.support.hosts.machines import SSHD_CONFIG, sshd_program
from tests.support.sessions.project_settings import GLANCE

ROOT = Path(__file__).parents[3]
BACKEND = "ebpf"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an sshd in a namespace needs root"),
    pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}"),
    pytest.mark.skipif(not sshd_program(), reason="no sshd here (Debian: apt-get install openssh-server)"),
    pytest.mark.skipif(
        not shutil.which("apache2", path="/usr/sbin:/usr/bin"),
        reason="apache2 is not installed (Debian: apt-get install apache2-bin)",
    ),
    pytest.mark.skipif(bool(BACKENDS[BACKEND].missing()), reason=f"{BACKEND}: {BACKENDS[BACKEND].missing()}"),
]

SSH_CONFIG = """
Host *
    User root
    IdentityFile {folder}/user
    IdentitiesOnly yes
    IdentityAgent none
    HostKeyAlias far
    UserKnownHostsFile {folder}/known
    StrictHostKeyChecking yes
    ControlPath none
"""
SUITE = "import pytest\n@pytest.mark.http\ndef test_http(measured, margin):\n    assert measured.slowdown <= margin\n"
NETWORKS = {"tunnel": ("2001:db8:41::/64",), "isatap": ("2001:db8:5e::/64", "2001:db8:12::/64")}
# The router is between the two tunnel endpoints.
CARRIERS = {Arm(6, "tunnel"): {"client", "router", "server"}, Arm(6, "isatap"): {"client", "router"}}
WORK = Workload(testbed="office", protocol="dns", client="lean", connections=10, payload_bytes=100)
NAMES = {"client": "alpha", "server": "beta", "router": "gamma"}
MADE = "".join(f"{name} = {' '.join(given)}\n" for name, given in NETWORKS.items())
# Endpoints like those of the agents, made by somebody else, so that nothing is rolled back.
RAISE = """
import contextlib, json, sys
from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.tunnels.tunnel import add_routes, create_tunnel
from pytest_ipperf.transports.base import TunnelEndpoint, HostRoutes
facts = json.loads(sys.argv[2])
changes, stack = Changes(), contextlib.ExitStack()
for end in facts["ends"]:
    create_tunnel(sys.argv[1], TunnelEndpoint(**end), changes, stack)
for leg in facts["legs"]:
    add_routes(HostRoutes(**leg), changes)
print("up", flush=True)
sys.stdin.read()
"""


class Hosts:
    """Three hosts and their state."""

    def __init__(self, testbed, entries, folder):
        self.testbed = testbed
        self.entries = entries
        self.inventory = folder / "hosts.ini"

    def describe(self, keys, devices=None):
        """Write the inventory, with these keys of the testbed, and lines of the hosts by role."""
        text = (
            f"[testbed office]\nbackend = {BACKEND}\n" + "".join(f"{role} = {NAMES[role]}\n" for role in NAMES) + keys
        )
        for role, host in self.testbed.roles.items():
            text += (
                f"[host {NAMES[role]}]\nway = ssh\nssh = {NAMES[role]}\n"
                f"ssh_config = {self.inventory.parent}/ssh_config\npython = {sys.executable}\n"
                f"ipv4 = {host.ipv4}\nipv6 = {host.ipv6}\n{(devices or {}).get(role, '')}"
            )
        self.inventory.write_text(text)

    def run(self, role, *argv):
        return subprocess.run([*self.entries[role], *argv], capture_output=True, text=True, check=True).stdout

    def state(self):
        """Return the state that a session could leave changed, as reported by the host itself."""
        looks = [["ip", "-j", "-d", "link"], ["ip", "-j", "addr"], ["tc", "qdisc"]]
        looks += [["ip", "-j", *family, "route", "show", "table", "all"] for family in ((), ("-6",))]
        looks += [["sh", "-c", "grep -rs . /proc/sys/net/ipv6/conf /proc/sys/net/ipv4/conf | grep -v stable_secret"]]
        return {role: {" ".join(look): _told(self.run(role, *look)) for look in looks} for role in self.entries}

    def devices(self, role):
        return {link["ifname"] for link in json.loads(self.run(role, "ip", "-j", "link"))}


def differences(before, after):
    """Return what differs between two states, by host and look, so that a failure names it."""
    return [
        (role, look, "new" if each in told else "gone", each)
        for role, looks in after.items()
        for look, told in looks.items()
        for each in sorted(set(told) ^ set(before[role][look]))
    ]


def _told(text):
    """Return a report without what changes by itself, in a fixed order."""
    if not text.startswith("["):
        return sorted(text.splitlines())
    # The kernel keeps an anycast route for each address while it forwards, which is compared itself, and now and then
    # forgets one.
    found = [each for each in json.loads(text) if each.get("type") != "anycast"]
    for each in found:
        for key in ("operstate", "expires", "used"):
            each.pop(key, None)
    return sorted(json.dumps(each, sort_keys=True) for each in found)


@pytest.fixture
def hosts(tmp_path):
    """Alpha and beta, and gamma between them, which does not forward IPv6 yet."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "known").write_text(f"far {(tmp_path / 'host.pub').read_text()}")
    (tmp_path / "sshd_config").write_text(SSHD_CONFIG.format(folder=tmp_path) + f"SetEnv IPPERF_RUN={tmp_path}/run\n")
    testbed = lab("office", 3)
    with namespaces(testbed) as named:
        entries = {role: named[host.name] for role, host in testbed.roles.items()}
        config = SSH_CONFIG.format(folder=tmp_path)
        for role, entry in entries.items():
            proxy = shlex.join([*entry, sshd_program(), "-i", "-e", "-f", str(tmp_path / "sshd_config")])
            config = f"Host {NAMES[role]}\n    ProxyCommand {proxy} 2>/dev/null\n{config}"
        (tmp_path / "ssh_config").write_text(config)
        found = Hosts(testbed, entries, tmp_path)
        found.run("router", "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding")
        end = time.monotonic() + 20
        while "tentative" in str(found.state()) and time.monotonic() < end:  # the default of a new one
            time.sleep(0.05)
        yield found
    assert not list(tmp_path.glob("run/**/unrestored"))


def asked(hosts, *more):
    return [f"--ipperf-hosts={hosts.inventory}", "--testbed=office", "--transport=tunnel,isatap", "--design=glance",
            "--connections=5", *more]  # fmt: skip


def proven(project):
    """Return the runs of a session by arm; check that the path of each is proven."""
    runs = [line for line in project.kept() if line["event"] == "run"]
    assert {run["arm"] for run in runs} >= {"ipv4", "ipv6-tunnel", "ipv6-isatap"}
    assert all(run["contradictions"] == [] and run["failed"] == {} for run in runs)
    return {run["arm"]: run["proof"] for run in runs}


def carried(proof):
    """Return the hosts that carried protocol 41 in both directions."""
    return {host for host, count in proof["protocol41"].items() if count["in"] and count["out"]}


def test_tunnels_are_made_for_a_session_and_gone_after_it(project, hosts):
    hosts.describe(MADE)
    project.pytester.makepyfile(SUITE)
    project.pytester.makeconftest(GLANCE)
    before = hosts.state()
    result = project.run(*asked(hosts), testbed="")
    assert result.ret == NOTHING_DECIDED, result.outlines
    # The kernel ends what belonged to a removed device a moment later.
    end = time.monotonic() + 60
    while (left := differences(before, hosts.state())) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []
    proofs = proven(project)
    assert set(proofs["ipv6-tunnel"]["peers"]) == {"2001:db8:41::2"}
    assert set(proofs["ipv6-isatap"]["peers"]) == {"2001:db8:12::1"}
    assert {arm: carried(proofs[str(arm)]) for arm in CARRIERS} == CARRIERS


def test_nothing_is_left_on_the_hosts_when_the_session_is_killed(project, hosts):
    hosts.describe(MADE)
    project.pytester.makepyfile(SUITE)
    project.pytester.makeconftest(GLANCE)
    before = hosts.state()
    argv = [sys.executable, "-m", "pytest", "-p", "no:randomly", *asked(hosts)]
    with subprocess.Popen(
        argv, cwd=project.pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            end = time.monotonic() + 120
            while "ipperf-isatap" not in hosts.devices("router") and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            running = process.poll() is None
        finally:
            process.kill()
        said = process.communicate()[0]
    assert running, said
    end = time.monotonic() + 60
    while (after := hosts.state()) != before and time.monotonic() < end:
        time.sleep(0.1)
    assert after == before


@contextlib.contextmanager
def raised(hosts, role, ends, legs):
    """Make tunnel endpoints on a host, as somebody else would."""
    facts = json.dumps(
        {"ends": [dataclasses.asdict(end) for end in ends], "legs": [dataclasses.asdict(leg) for leg in legs]}
    )
    argv = [*hosts.entries[role], "env", f"PYTHONPATH={ROOT}", sys.executable, "-c", RAISE, BACKEND, facts]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        yield
        process.communicate()


def test_devices_that_the_hosts_have_are_used_and_not_touched(hosts):
    """Server beta is behind the site's router, so that its ISATAP device is its native one."""
    places = {role: HostAddresses(host.ipv4, host.ipv6) for role, host in hosts.testbed.roles.items()}
    found = {name: TRANSPORTS[name].path(places, given) for name, given in NETWORKS.items()}
    names = {"tunnel": "sit1", "isatap": "is0"}
    lines = dict.fromkeys(places, "")
    with contextlib.ExitStack() as stack:
        for role in places:
            ends = [
                dataclasses.replace(path.ends[role], device=names[name])
                for name, path in found.items()
                if role in path.ends
            ]
            legs = [path.legs[role] for path in found.values() if role in path.legs]
            stack.enter_context(raised(hosts, role, ends, legs))
            lines[role] = "".join(
                f"{end.transport} = {names[end.transport]} {end.addresses[-1][:-3]}\n" for end in ends
            )
        lines["server"] += f"isatap = eth0 {found['isatap'].server}\n"
        hosts.describe("", lines)
        testbed = read_inventory(hosts.inventory)["office"]
        assert testbed.paths["isatap"].devices == {"client": "is0", "router": "is0"}
        before = hosts.state()
        with live_testbed(testbed, "test", 10.0, lambda _: None, transports=("tunnel", "isatap")) as live:
            assert live.tunnels.backends == {"tunnel": EXISTING, "isatap": EXISTING}
            service = live.serve(WORK, "nameserver")
            for arm, carriers in CARRIERS.items():
                assert live.prove(arm, service, WORK)["contradictions"] == []
                run_result = live.run(arm, service, WORK, bursts=2, deadline_s=10.0)
                assert (run_result.data.attempted, run_result.data.failed, run_result.violations) == (20, {}, ())
                assert carried(run_result.proof) == carriers
            assert hosts.state() == before
        assert hosts.state() == before
