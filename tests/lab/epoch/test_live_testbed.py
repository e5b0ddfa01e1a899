"""A live testbed: served, proven, measured, and with every fault reported."""

from __future__ import annotations

import dataclasses
import functools
import getpass
import math
import os
import re
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.agents import leases
from pytest_ipperf.lab.agents.leases import acquire_remote, leased, new_owner
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

HOST = BUILTIN["loopback"].server
ARMS = [Arm(4, "native"), Arm(6, "native")]


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def children():
    """Return the children of this process, zombies included."""
    return {process.pid for level in tree(os.getpid())[1:2] for process in level}


@pytest.fixture
def up(processes, tmp_path):
    """Set up testbeds until the test ends, and check that nothing is left of them."""
    before = children()
    made = []

    def standing_of(name_or_testbed):
        testbed = BUILTIN[name_or_testbed] if isinstance(name_or_testbed, str) else name_or_testbed
        if testbed.is_lab and (why := unusable()):
            pytest.skip(f"the lab cannot be built here: {why}")
        made.append(live_testbed(testbed, f"test {os.getpid()}", 1.0, lambda _: None))
        live = made[-1].__enter__()
        for agent in (live._client, live._server):
            assert agent._process
            processes.below(agent._process.pid)
        return live

    yield standing_of
    for each in reversed(made):
        each.__exit__(None, None, None)
    assert children() <= before
    assert list(tmp_path.iterdir()) == []


def workload(testbed="loopback", protocol="smtp", connections=10):
    return Workload(testbed=testbed, protocol=protocol, client="lean", connections=connections, payload_bytes=1000)


@pytest.mark.parametrize("protocol", ["smtp", "http"])
@pytest.mark.parametrize("testbed", ["loopback", "pair", "lab"])
def test_a_testbed_serves_is_proven_and_measures(up, testbed, protocol):
    live, work = up(testbed), workload(testbed, protocol)
    service = live.serve(work, "embedded")
    assert service.embedded
    assert re.fullmatch(r"aio(smtpd|http) \d[\d.]* \(embedded\)", str(service))
    for arm in ARMS:
        facts = live.prove(arm, service, work)
        assert facts["contradictions"] == []
        assert list(facts["fits"].values()) == ["yes", "too big"]
        assert facts["routes"]["client"]["device"] == ("lo" if testbed == "loopback" else "eth0")
        result = live.run(arm, service, work, bursts=3, deadline_s=10.0)
        assert (result.data.attempted, result.data.failed, result.data.row_count) == (30, {}, 30)
        assert result.violations == ()
        assert result.proof["peers"] == {live._server.host.address(arm.ipver): 30}
        assert result.proof["sources"] == [live._client.host.address(arm.ipver)]
        for _, dns, connect, first_byte, total, late, behind in result.data.rows():
            assert 0 < dns <= connect <= first_byte <= total < 10
            assert math.isnan(late) or late < total
            assert behind == 0
        assert result.client is not None
        assert 0 < result.client.cpu_s <= 2 * result.client.wall_s


@pytest.mark.parametrize("protocol", ["smtp", "http"])
def test_the_baseline_cost_is_a_run_against_the_null_server(up, protocol):
    live, work = up("lab"), workload("lab", protocol)
    service = live.serve(work, "embedded")
    for arm in ARMS:
        result = live.baseline_cost(arm, service, work, bursts=3, deadline_s=10.0)
        assert (result.data.attempted, result.data.failed, result.data.row_count) == (30, {}, 30)
        assert result.violations == ()
        assert all(
            row[PHASES.index("dns")] > 0 for row in result.data.rows()
        )  # the look-up is part of the baseline cost


def test_the_lab_sends_nothing_but_the_measurement(up):
    """Not one packet of the other IP version may be sent, in any run: the strictest proof there is."""
    live, work = up("lab"), workload("lab")
    service = live.serve(work, "embedded")
    for arm in ARMS * 3:
        result = live.run(arm, service, work, bursts=1, deadline_s=10.0)
        assert result.proof["packets"][f"ipv{10 - arm.ipver}"] == 0
        assert list(result.proof["protocol41"]) == ["client", "server", "router"]
        assert all(counts in ({"in": 0, "out": 0}, None) for counts in result.proof["protocol41"].values())


def test_real_servers_stand_in_the_lab(up):
    live, work = up("lab"), workload("lab", "http", 50)
    if missing := live._server.unusable()["apache"]:
        pytest.skip(f"apache cannot run here: {missing}")
    service = live.serve(work, "real")
    assert re.fullmatch(r"apache \d[\d.]*", str(service))
    result = live.run(ARMS[1], service, work, bursts=1, deadline_s=10.0)
    assert (result.data.failed, result.violations) == ({}, ())


def test_the_name_server_is_the_one_that_was_wanted_and_is_told(up):
    live, work = up("lab"), workload("lab", "smtp", 5)
    if missing := live._server.unusable()["bind"]:
        pytest.skip(f"bind cannot run here: {missing}")
    embedded = live.serve(work, "embedded")
    assert re.fullmatch(r"nameserver Python \d[\d.]* \(embedded\)", embedded.resolver)
    service = live.serve(work, "aiosmtpd,bind")
    assert re.fullmatch(r"bind \d[\d.]*", service.resolver)
    for arm in ARMS:
        assert live.prove(arm, service, work)["contradictions"] == []
        assert live.run(arm, service, work, bursts=2, deadline_s=10.0).data.failed == {}


@pytest.mark.parametrize("wanted", ["auto", "embedded"])
@pytest.mark.parametrize("client", ["lean", "library"])
def test_look_ups_are_measured_and_their_baseline_cost_too(up, wanted, client):
    live, work = up("lab"), dataclasses.replace(workload("lab", "dns", 50), client=client)
    work = dataclasses.replace(work, payload_bytes=128)
    service = live.serve(work, wanted)
    assert service.resolver == str(service)
    for arm in ARMS:
        assert live.prove(arm, service, work)["contradictions"] == []
        for measure in (live.run, live.baseline_cost):
            result = measure(arm, service, work, bursts=2, deadline_s=10.0)
            assert (result.data.attempted, result.data.failed, result.data.row_count) == (100, {}, 100)
            assert result.violations == ()
            assert result.proof["packets"][f"ipv{arm.ipver}"] >= 100
            assert result.proof["client"].startswith("asyncio of Python 3." if client == "library" else "lean")
    assert live._servers._null is not None
    assert live._servers._null.name == "nameserver"


def test_the_fingerprint_tells_of_the_hosts_and_the_devices_between_them(up):
    found = up("lab").fingerprint(ARMS[0])
    assert {role: host.device for role, host in found.items()} == {
        "client": "eth0", "server": "eth0", "router": "eth0"
    }  # fmt: skip
    assert all(host.sysctl["net.core.somaxconn"] == "65535" for host in found.values())


def test_an_epoch_may_follow_an_epoch(up):
    """Each has its own agents and servers."""
    pids = set()
    for _ in range(2):
        with live_testbed(BUILTIN["loopback"], f"test {os.getpid()}", 1.0, lambda _: None) as live:
            pids |= {live._client.hello().pid, live._server.hello().pid}
            service = live.serve(workload(), "embedded")
            assert live.run(ARMS[0], service, workload(), bursts=1, deadline_s=10.0).data.failed == {}
    assert len(pids) == 4


def test_a_run_tells_its_failures_as_data(up):
    live, work = up("loopback"), workload()
    service = dataclasses.replace(live.serve(work, "embedded"), port=9)
    result = live.run(ARMS[0], service, work, bursts=1, deadline_s=5.0)
    assert (result.data.attempted, dict(result.data.failed), result.data.row_count) == (10, {"connect refused": 10}, 0)
    assert not result.data.samples


@pytest.mark.parametrize("name", ["aiosmtpd", "nameserver"])
def test_a_server_that_dies_in_a_run_is_named(up, name):
    live, work = up("loopback"), workload(connections=200)
    service = live.serve(work, "embedded")
    pids = [
        process.pid
        for process in tree(live._server._process.pid)[-1]
        if f"pytest_ipperf.servers.{name}".encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]
    assert pids

    def kill():
        time.sleep(0.2)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()

    def measure():
        for _ in range(100):
            live.run(ARMS[0], service, work, bursts=5, deadline_s=1.0)

    with pytest.raises(LabError) as caught:
        measure()
    killer.join()
    assert str(caught.value) == f"host server: {name} was killed by signal 9; its log is empty"


def test_an_agent_that_dies_is_told_and_the_rest_is_taken_down(up, tmp_path):
    live, work = up("loopback"), workload()
    service = live.serve(work, "embedded")
    os.kill(live._client._process.pid, signal.SIGKILL)
    with pytest.raises(
        AgentError, match=r"^host client: the agent died (during call 'load'|while host server needed it); "
    ):
        live.run(ARMS[0], service, work, bursts=1, deadline_s=1.0)
    # Its private folder is all that is left of it, for the next agent to sweep; the server's is in use.
    assert len(list(tmp_path.iterdir())) == 2
    for folder in tmp_path.iterdir():
        if list(folder.iterdir()) == [folder / ".lock"]:
            shutil.rmtree(folder)


@pytest.mark.parametrize("role", [CLIENT, SERVER, ROUTER])
def test_an_agent_that_dies_in_a_run_is_told_by_its_host(up, role):
    live, work = up("lab"), workload("lab", connections=100)
    service = live.serve(work, "embedded")

    def kill():
        time.sleep(0.2)
        os.kill(live._agents[role]._process.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()

    def measure():
        for _ in range(100):
            live.run(ARMS[1], service, work, bursts=5, deadline_s=1.0)

    with pytest.raises(
        AgentError, match=rf"^host {role}: the agent died (during call '\w+'|while host \w+ needed it); "
    ):
        measure()
    killer.join()


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_a_name_server_that_sends_the_client_elsewhere_is_found_out(up, arm):
    """Everything completes; only the addresses show that it was not the server."""
    live, work = up("loopback"), workload()
    service = live.serve(work, "embedded")
    testbed, host = live._testbed, live._server.host
    elsewhere = dataclasses.replace(host, ipv4="127.0.0.2", ipv6="2001:2:0:10::2")
    live._testbed = dataclasses.replace(testbed, server=elsewhere)  # what the experiment takes for the server
    expected = live._expected(arm, work)
    live._testbed = testbed
    live._expected = lambda *_: expected
    result = live.run(arm, service, work, bursts=1, deadline_s=5.0)
    assert result.data.failed == {}
    wanted, seen = elsewhere.address(arm.ipver), host.address(arm.ipver)
    assert result.violations == (f"expected connections to {wanted}, seen to {seen}",)


def test_a_client_that_starts_from_another_address_is_found_out(up):
    host = dataclasses.replace(HOST, name="client", ipv4="127.0.0.5")
    testbed = Testbed(name="odd", client=host, server=dataclasses.replace(HOST, name="server"))
    live, work = up(testbed), workload("odd")
    service = live.serve(work, "embedded")
    assert live.run(ARMS[0], service, work, bursts=1, deadline_s=5.0).violations == ()
    expected = dataclasses.replace(live._expected(ARMS[0], work), client="127.0.0.6")
    live._expected = lambda *_: expected
    result = live.run(ARMS[0], service, work, bursts=1, deadline_s=5.0)
    assert result.violations == ("expected connections from 127.0.0.6, seen from 127.0.0.5",)


def test_an_address_that_is_not_the_servers_is_told_when_it_is_to_serve(up):
    away = Host(name="server", way="local", ipv4="192.0.2.1", settings={})
    testbed = Testbed(name="odd", client=BUILTIN["loopback"].client, server=away)
    with pytest.raises(LabError, match=r"^host server: a server cannot listen on address 192\.0\.2\.1: "):
        up(testbed).serve(workload("odd"), "embedded")


def test_an_address_that_a_client_does_not_have_is_told_with_its_host_and_key(up):
    loopback = BUILTIN["loopback"]
    alpha = dataclasses.replace(loopback.client, name="alpha", ipv4="192.0.2.1")
    live = up(Testbed(name="odd", client=alpha, server=loopback.server))
    assert live.lacking(ARMS[0]) == (
        "host alpha: it does not have 192.0.2.1, its ipv4 in hosts.ini; name one that it has on the measured link "
        "there, or give it this one"
    )
    assert live.lacking(Arm(6, "isatap")) == ""


def test_an_address_that_a_second_client_does_not_have_is_its_own(up):
    loopback = BUILTIN["loopback"]
    beta = dataclasses.replace(loopback.client, name="beta", ipv6="2001:db8::7")
    live = up(Testbed(name="odd", client=loopback.client, server=loopback.server, more_clients=(beta,)))
    assert live.lacking(ARMS[0]) == ""
    assert live.lacking(ARMS[1]).startswith("host beta: it does not have 2001:db8::7, its ipv6 in hosts.ini; ")


def test_a_path_without_a_route_contradicts():
    """The lab is needed here, as every address of this machine has a route to itself."""
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    lab = BUILTIN["lab"]
    with live_testbed(lab, f"test {os.getpid()}", 1.0, lambda _: None) as live:
        service = live.serve(workload("lab"), "embedded")
        live._testbed = dataclasses.replace(lab, server=dataclasses.replace(lab.server, ipv4="203.0.113.1"))
        facts = live.prove(ARMS[0], service, workload("lab"))
    assert facts["contradictions"] == ["expected a route at the client, seen: Network is unreachable"]
    assert facts["fits"] == {}


# --- the lease ----------------------------------------------------------------------------------------------------


@pytest.fixture
def name(monkeypatch):
    """Not the lease of this machine, on which someone may measure just now; and of nobody it has been told yet."""
    found = f"\0pytest-ipperf.test.live.{os.getpid()}"
    monkeypatch.setattr(leases, "_LOGGED", set())
    monkeypatch.setattr(leases, "Lease", functools.partial(Lease, name=found))
    return found


def test_the_machine_is_held_while_the_context_lasts(name):
    said: list[str] = []
    with leased(BUILTIN["lab"], "job", 1.0, said.append):
        assert f"process {os.getpid()} " in Lease("other", name).holder()
    assert Lease("other", name).holder() == ""
    assert said == []


def heard_for(other):
    """Return what is logged while another job holds this machine and releases it at the first message."""
    assert other.acquire(0) == ""
    said = []

    def log(sentence):
        said.append(sentence)
        other.release()

    with leased(BUILTIN["loopback"], "job", 10.0, log):
        pass
    return said


def test_one_who_waits_says_for_whom_and_goes_on_when_it_is_free(name):
    (sentence,) = heard_for(Lease("other", name))
    held = f"process {os.getpid()} of user {os.geteuid()} since "
    assert sentence.startswith(f"waiting for this machine, which is held by {held}")


@pytest.mark.usefixtures("name")
def test_of_a_job_that_takes_turns_with_ours_it_is_said_once_for_each_host():
    """Each of its epochs is held by another process at another time; another job is reported again."""
    owner, said = new_owner(["pytest"]), list[str]()
    jobs = ("smtp", "alpha"), ("smtp", "alpha"), ("smtp", "beta"), ("http", "alpha")
    for at, (job, host) in enumerate(jobs):
        held = f"process {at} of user 0 since 12:00:0{at} (me@desk: pytest -m {job})"
        methods = SimpleNamespace(lease=lambda _, wait_s, held=held: "" if wait_s else held)
        agent: Any = SimpleNamespace(host=SimpleNamespace(name=host), within=lambda _, methods=methods: methods)
        acquire_remote(agent, owner, 1.0, said.append)
    assert said == [
        f"waiting for host {host}, which is held by process {at} of user 0 since 12:00:0{at} (me@desk: pytest -m {job})"
        for at, (job, host) in enumerate(jobs)
        if at != 1
    ]


def test_one_who_waits_is_told_from_where_the_other_job_was_ordered_and_how(name):
    said = heard_for(Lease(new_owner(["pytest", "-m", "smtp and not slow"]), name))
    ordered = re.escape(f"{getpass.getuser()}@{socket.gethostname()}: pytest -m 'smtp and not slow'")
    assert re.search(rf" since \d\d:\d\d:\d\d \({ordered}\)$", said[0])


def test_no_two_jobs_are_one(name):
    assert len({new_owner(["pytest"]).partition("\n")[0] for _ in range(20)}) == 20


def test_one_who_has_waited_long_enough_gives_up_in_a_sentence(name):
    other = Lease("other", name)
    assert other.acquire(0) == ""
    try:
        with pytest.raises(LabError) as caught, leased(BUILTIN["loopback"], "job", 0.2, lambda _: None):
            pass
    finally:
        other.release()
    sentence = str(caught.value)
    assert sentence.startswith(f"this machine is still held by process {os.getpid()} of user ")
    assert sentence.endswith("after 0.2 s; wait for it or end it")


def test_a_testbed_elsewhere_leaves_this_machine_to_others(name):
    far = Host(name="far", way="ssh", ipv4="192.0.2.1", settings={"ssh": "far"})
    other = Lease("other", name)
    assert other.acquire(0) == ""
    with leased(Testbed(name="ring", client=far, server=far), "job", 0.0, lambda _: None):
        pass
    other.release()


def test_the_lease_is_given_back_after_an_error(name):
    with pytest.raises(ZeroDivisionError), leased(BUILTIN["lab"], "job", 1.0, lambda _: None):
        _ = 1 / 0
    assert Lease("other", name).holder() == ""


def test_work_is_bound_to_the_processors_of_the_host(up):
    first = min(os.sched_getaffinity(0))
    hosts = [dataclasses.replace(host, cpus=(first,)) for host in BUILTIN["loopback"].hosts]
    live = up(Testbed(name="narrow", client=hosts[0], server=hosts[1]))
    for agent in (live._client, live._server):
        assert os.sched_getaffinity(agent.hello().pid) == {first}
    assert socket.gethostname() == live._client.hello().host
