"""Nothing listens but on addresses of the testbed: seen from outside while everything runs that there is."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs.flows import Duration
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS
from tests.support.payloads import payload_of
from tests.system.security.watching import Watch, below

ARMS = [Arm.parse(name) for name in ("ipv4", "ipv6", "ipv6-tunnel", "ipv6-isatap")]
NATIVE = ARMS[:2]
SHORT = Duration(warmup_s=0.05, run_s=0.2)
ACCOUNTS = ServerState(users=5, password="secret")
HERE = sorted(name for name in SERVERS if name != "null" and not SERVERS[name].missing())
# Beside those whose sockets are of our making; of the others the recipes are looked at as well.
SHORT_ONE = "postfix"
MARKS: tuple[list[pytest.MarkDecorator], ...] = ([pytest.mark.evidence], [])
FLOWS = [("tcp", "down"), ("udp", "5mbit"), ("rtt", "udp")]
MORE_FLOWS = [("tcp", ""), ("rtt", "tcp"), ("rtt", "icmp")]
lab = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")  # short: names of sockets are limited
    monkeypatch.chdir(tmp_path)


def work(protocol, *, own="", payload=1024, connections=2):
    levels = levels_from_text(PROTOCOLS[protocol].factors, own)
    return Workload(
        testbed="lab", protocol=protocol, client=LEAN, connections=connections, payload_bytes=payload, levels=levels
    )


@pytest.fixture(scope="module")
def up():
    with live_testbed(BUILTIN["lab"], "security", 60.0, print, transports=("tunnel", "isatap")) as live:
        yield live


def heard(tour):
    """On what anything listened that came of this process while the tour went on."""
    with Watch(lambda: below(os.getpid())) as watch:
        tour()
    assert watch.looks
    return watch


def addresses(end):
    """All of the lab's `server`, or of its `client`."""
    testbed = BUILTIN["lab"]
    host = testbed.roles[end]
    return {host.ipv4, host.ipv6, *(getattr(path, end) for path in testbed.paths.values())}


# Each that is not of our making once, as not all of them can be started anew in the folder of an epoch.
@lab
@pytest.mark.parametrize(
    ("name", "arms"),
    [
        *(pytest.param(name, NATIVE, id=f"{name}-native") for name in HERE if SERVERS[name].embedded),
        *(pytest.param(name, ARMS, id=f"{name}-all", marks=MARKS[name == SHORT_ONE]) for name in HERE),
    ],
)
def test_a_server_listens_on_the_server_s_addresses_alone(up, name, arms):
    """Its name server, the null server, data connections of FTP and the probes of the paths too."""
    protocol = SERVERS[name].protocol
    workload = work(protocol, payload=payload_of(PROTOCOLS[protocol], 34 if protocol == "dns" else 1024))

    def tour():
        service = up.serve(workload, name, ACCOUNTS if protocol in {"ftp", "imap"} else ServerState())
        for arm in arms:
            assert up.prove(arm, service, workload)["contradictions"] == []
            assert up.run(arm, service, workload, bursts=2, deadline_s=10.0).data.failed == {}
        up.baseline_cost(arms[0], service, workload, bursts=2, deadline_s=10.0)

    watch = heard(tour)
    assert addresses("server") <= watch.addresses <= addresses("server") | addresses("client"), watch.found


@lab
@pytest.mark.parametrize("arms", [NATIVE, pytest.param(ARMS, marks=pytest.mark.evidence)], ids=["native", "all"])
@pytest.mark.parametrize(
    ("protocol", "own"), [*FLOWS, *(pytest.param(*each, marks=pytest.mark.evidence) for each in MORE_FLOWS)]
)
def test_engines_listen_on_the_testbed_s_addresses_alone(up, protocol, own, arms):
    workload = work(protocol, own=own, payload=64 if protocol == "rtt" else 1400)

    def tour():
        service = up.serve(workload, "embedded")
        for arm in arms:
            up.prove(arm, service, workload)
            up.run(arm, service, workload, bursts=1, deadline_s=5.0, duration=SHORT)

    watch = heard(tour)
    assert watch.addresses <= addresses("server") | addresses("client"), watch.found
    assert watch.addresses & addresses("server")


@lab
def test_trains_are_taken_on_the_testbed_s_addresses_alone():
    testbed, workload = with_rate("lab.20mbit", BUILTIN), work("udp", own="5mbit", payload=1400)
    assert testbed

    def tour():
        with live_testbed(testbed, "security", 60.0, print) as live:
            service = live.serve(workload, "embedded")
            assert live.prove(ARMS[1], service, workload)["trains"]

    watch = heard(tour)
    assert watch.addresses <= addresses("server") | addresses("client"), watch.found


SUITE = """
    import pytest

    @pytest.mark.{protocol}
    @pytest.mark.levels({levels})
    def test_it(measured, margin):
        assert measured.slowdown <= margin
"""


LEVELS = {
    **dict.fromkeys(("http", "smtp", "ftp", "imap"), 'connections=[2], payload=["1k"]'),
    **dict.fromkeys(("dns", "tcp"), "connections=[2]"),
    **dict.fromkeys(("udp", "rtt"), "connections=[1]"),
}


@pytest.mark.evidence
@pytest.mark.parametrize("protocol", list(LEVELS))
def test_on_hosts_behind_ssh_a_session_listens_on_measured_addresses_alone(farm, protocol):
    """Neither on the network by which they are reached nor on the loopback, and the controller not at all."""
    session_listens_on_measured_addresses_alone(farm, protocol)


def test_on_a_host_behind_ssh_mail_is_taken_on_measured_addresses_alone(farm):
    session_listens_on_measured_addresses_alone(farm, "smtp")


def session_listens_on_measured_addresses_alone(farm, protocol):
    stands = farm()
    suite = SUITE.format(protocol=protocol, levels=LEVELS[protocol])
    controller = stands.session("--design=glance", "-q", suite=suite)
    pids = [host.pid for host in stands.hosts.values()]
    with Watch(lambda: [*below(controller.pid), *pids]) as watch:
        said, _ = controller.communicate(timeout=200)
    assert "1 unjudged" in said, said
    measured = {address for host in stands.hosts.values() for address in (host.ipv4, host.ipv6)}
    control = {address for host in stands.hosts.values() for address in (host.control4, host.control6)}
    assert watch.addresses <= measured | control, watch.found
    assert watch.addresses & measured
    for (_, address), listeners in watch.found.items():
        if address in control:  # the sshd of the farm itself
            assert {port for port, _ in listeners} == {22}, watch.found


LISTENS = """
import socket, sys
address, kind = sys.argv[1:]
sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, getattr(socket, kind))
sock.bind((address, 0))
if kind == "SOCK_STREAM":
    sock.listen()
print(flush=True)
input()
"""


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.2"])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_the_watch_sees_what_listens_anywhere(address, kind):
    """Or the tests above would prove nothing."""
    words = [sys.executable, "-c", LISTENS, address, kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listening:
        assert listening.stdout
        listening.stdout.readline()
        with Watch(lambda: below(listening.pid)) as watch:
            end = time.monotonic() + 20
            while not watch.looks and time.monotonic() < end:
                time.sleep(0.01)
        listening.communicate(b"\n")
    assert watch.addresses == {address}
