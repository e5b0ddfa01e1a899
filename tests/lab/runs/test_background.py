"""Background traffic of a run: its specification, its part in data and proof, and a queue that it fills."""

from __future__ import annotations

import dataclasses
import os

import pytest

from pytest_ipperf.agent.flows.background import MEASURED, MOVED, PACKETS, PLANNED
from pytest_ipperf.agent.flows.spec import FlowReport
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LEAD_S, LOAD, TAIL_S
from pytest_ipperf.core.stats.percentile import median
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs.background import LoadReports, background_of
from pytest_ipperf.lab.runs.flows import Duration, flow_spec
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS, flow
from pytest_ipperf.protocols.traffic import OWN_BYTES
from pytest_ipperf.traffic_models import shipped_models

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
HOME = dataclasses.replace(BUILTIN["lab"], links=Links(rate_bit_s=2e6, at_router=True))


def work(level, protocol="rtt", generators=1):
    # Between kernels, if round trips: how long their ends wait for a processor of a busy machine is not in the time.
    factors = PROTOCOLS[protocol].factors
    levels = tuple(
        each.level("wire" if each.name == "waiting" else each.levels[0]) for each in factors if not each.silent
    )
    return Workload(
        testbed="lab",
        protocol=protocol,
        client="lean",
        connections=1,
        payload_bytes=56 if protocol == "rtt" else OWN_BYTES,
        levels=levels + LOAD.held(level) + GENERATORS.held(generators),
    )


def measured(workload):
    duration = Duration(warmup_s=0.5, run_s=3.0)
    return flow_spec(HOME, SIX, workload, flow("rtt"), duration, ident=7, deadline_s=10.0)


def modelled(up=(60_000.0, 600, 60_000.0), down=(60_000.0, 600, 60_000.0), *, sent=1200, missed=0):
    """Reports of a load by a model: bytes moved, packets and planned bytes in each direction."""
    far, near = (dict(zip((MOVED, PACKETS, PLANNED), each, strict=True)) | {MEASURED: 3.0} for each in (up, down))
    return LoadReports(FlowReport(facts=near), FlowReport(facts={**far, "sent": sent, "missed": missed}))


def reports(moved_bytes, *, seconds=3.0, notes=()):
    near = FlowReport(facts={MOVED: 0.0, MEASURED: seconds}, families=["AF_INET6"], peers={"a": 1}, sources=["b"])
    return LoadReports(near, FlowReport(facts={MOVED: moved_bytes, MEASURED: seconds}, notes=list(notes)))


def test_a_load_is_between_the_same_addresses_from_before_the_warm_up_to_after_the_run():
    spec = measured(work("tcp.down"))
    load = background_of(work("tcp.down"), spec, shipped_models(), ident=8)
    assert load
    found = load.flow
    assert (found.engine, found.connections, found.payload_bytes) == ("tcp", 1, 131072)
    assert (found.ipver, found.source, found.address, found.ports) == (6, spec.source, spec.address, spec.ports)
    assert (found.factors["direction"], found.factors["window"], found.ident) == ("down", "auto", 8)
    assert (found.warmup_s, found.run_s, load.measured_s) == (LEAD_S, 3.5 + TAIL_S, (0.5, 3.5))


def test_a_load_by_a_model_is_so_many_of_its_calls_with_packets_of_their_own():
    spec = measured(work("g711.1", generators=20))
    load = background_of(work("g711.1", generators=20), spec, shipped_models(), ident=8)
    assert load
    found = load.flow
    assert (found.engine, found.connections, found.model) == ("traffic", 20, shipped_models()["g711.1"])
    assert (found.factors, found.pattern) == ({"carrier": "udp"}, f"{spec.pattern}/load")
    assert (found.warmup_s, found.run_s, load.measured_s) == (0.0, 5.5 + TAIL_S, (2.5, 5.5))
    assert (found.source, found.address, found.device) == (spec.source, spec.address, "")
    assert found.model != spec.model


def test_an_idle_workload_has_none():
    assert background_of(work("none"), measured(work("none")), shipped_models(), ident=8) is None


def test_bytes_of_the_run_are_facts_of_it():
    assert reports(600_000.0).facts() == {"load_bytes": 600_000.0, "load_bit_s": 1_600_000.0}


def test_a_load_that_moved_nothing_contradicts_the_level():
    (said,) = reports(0.0).violations(HOME, SIX, work("tcp.up"))
    assert said == "expected a load (tcp.up) in the time of the run, seen no byte of it"
    assert reports(600_000.0).violations(HOME, SIX, work("tcp.up")) == []
    (said,) = reports(1_000_000.0).violations(HOME, SIX, work("tcp.up"))
    assert said.startswith("expected at most ")


def test_a_load_by_a_model_has_to_be_there_in_each_of_its_directions_and_all_of_it():
    job, nothing = work("g711.1", generators=20), (0.0, 0, 0.0)
    assert modelled().violations(HOME, SIX, job) == modelled(down=nothing).violations(HOME, SIX, job) == []
    assert modelled().facts() == {"load_bytes": 120_000.0, "load_bit_s": 320_000.0, "load_planned_bit_s": 320_000.0}
    assert modelled(nothing, nothing).violations(HOME, SIX, job) == [
        "expected a load (20 of g711.1) in the time of the run, but its model has no packet then"
    ]
    lost = (0.0, 0, 60_000.0)
    assert modelled(lost, lost).violations(HOME, SIX, job) == [
        "expected a load (20 of g711.1) in the time of the run, seen no byte of it"
    ]
    assert modelled(down=lost).violations(HOME, SIX, job) == [
        "expected a load (20 of g711.1) from server to client, seen no byte of it in the time of the run"
    ]
    assert modelled(sent=500, missed=700).violations(HOME, SIX, job) == [
        "expected a load (20 of g711.1) of 1200 packets, of which its senders could send 500"
    ]
    # 2 Mbit/s carry 3.4 kB/s less in small packets than in full ones.
    (said,) = modelled((700_000.0, 7000, 700_000.0)).violations(HOME, SIX, job)
    assert said.startswith("expected at most ")


def test_a_load_by_a_model_may_leave_room_on_a_link():
    assert modelled().notes(HOME, work("g711.1")) == []


def test_a_load_that_did_not_fill_the_link_is_told():
    assert reports(700_000.0).notes(HOME, work("tcp.up")) == []
    assert reports(75_000.0, notes=["slow"]).notes(HOME, work("tcp.up")) == [
        "load: slow", "the load (tcp.up) did not fill the link: 0.2 of 2 Mbit/s",
    ]  # fmt: skip
    assert reports(1.0).notes(BUILTIN["lab"], work("tcp.up")) == []


def test_the_sockets_of_both_flows_are_proven():
    near = FlowReport(families=["AF_INET"], peers={"a": 2, "c": 1}, sources=["b"])
    found = reports(1.0).with_path(near)
    assert (found.families, found.peers, found.sources) == (["AF_INET", "AF_INET6"], {"a": 3, "c": 1}, ["b"])


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A lab behind an access router of 2 Mbit/s."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    with live_testbed(HOME, f"test {os.getpid()}", 1.0, lambda _: None) as live:
        yield live


def runs(live, arm, protocol, loads, generators=1):
    """Return the result of a run with each of these loads, one after another; the last of each counts."""
    duration, found = Duration(warmup_s=0.2, run_s=1.0), {}
    for level in loads:
        job = work(level, protocol, generators)
        service = live.serve(job, "embedded")
        found[level] = live.run(arm, service, job, bursts=1, deadline_s=10.0, duration=duration)
        assert found[level].violations == ()
    return [found[level] for level in dict.fromkeys(loads)]


def test_round_trips_wait_in_the_queue_that_tcp_has_filled(home):
    """On the wire a probe takes less than a millisecond, and each full packet before it in the queue six."""
    idle, loaded = runs(home, SIX, "rtt", ["none", "tcp.down", "none"])
    assert "load_bit_s" not in idle.data.facts
    # TCP may deliver at once what had waited for a lost segment, or for the receiver's processor.
    assert 0 < loaded.data.facts["load_bit_s"] <= 2 * 2e6
    assert loaded.proof["load"]["load_bytes"] == loaded.data.facts["load_bytes"] > 0
    # The idle run came last: nothing of the load was left in the queues.
    assert median(loaded.data.column("rtt_s")) > 10 * median(idle.data.column("rtt_s"))


@pytest.mark.parametrize("arm", [FOUR, SIX], ids=str)
def test_a_probe_is_measured_beside_calls(home, arm):
    """Ten calls of 92 bytes, a hundred times a second each way; with their headers the link carries them."""
    (loaded,) = runs(home, arm, "rtt", ["g711.1"], generators=10)
    facts = loaded.data.facts
    assert facts["load_planned_bit_s"] == pytest.approx(2 * 10 * 92 * 8 * 100, rel=0.02)
    assert 0 < facts["load_bit_s"] <= 2 * 2e6
    assert all(loaded.proof["load"][end][MOVED] > 0 for end in ("near", "far"))
    # A call's packets have one socket at each end, and the probe another.
    assert loaded.proof["packets"][f"ipv{arm.ipver}"] > 1000


@pytest.mark.parametrize("arm", [FOUR, SIX], ids=str)
def test_a_call_breaks_down_behind_an_upload(home, arm):
    for _ in range(10):
        idle, loaded = runs(home, arm, "voip", ["none", "tcp.up"])
        rated = [METRICS["r_factor"].value(result.data) or 0.0 for result in (idle, loaded)]
        if rated[0] > 80:  # else the machine stood still, which the call without an upload takes for the path's delay
            break
    assert rated[1] >= 1
    # With a delay of 150 ms and more the talker's echo and the wait itself cost at least 10 of about 91.
    assert rated[1] < rated[0] - 10
    assert loaded.data.facts["load_bytes"] > 0
    sent = f"ipv{arm.ipver}"
    assert loaded.proof["packets"][sent] > idle.proof["packets"][sent]
