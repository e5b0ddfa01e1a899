"""Background traffic of a run: its specification, its part in data and proof, and a queue that it fills."""

from __future__ import annotations

import dataclasses
import os

import pytest

from pytest_ipperf.agent.flows.background import MEASURED, MOVED
from pytest_ipperf.agent.flows.spec import FlowReport
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.traffic.load import LEAD_S, LOAD, TAIL_S
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

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
HOME = dataclasses.replace(BUILTIN["lab"], links=Links(rate_bit_s=2e6, at_router=True))


def work(level, protocol="rtt"):
    factors = PROTOCOLS[protocol].factors
    levels = tuple(each.level(each.levels[0]) for each in factors if not each.silent)
    return Workload(
        testbed="lab",
        protocol=protocol,
        client="lean",
        connections=1,
        payload_bytes=56 if protocol == "rtt" else OWN_BYTES,
        levels=levels + LOAD.held(level),
    )


def measured(workload):
    duration = Duration(warmup_s=0.5, run_s=3.0)
    return flow_spec(HOME, SIX, workload, flow("rtt"), duration, ident=7, deadline_s=10.0)


def reports(moved_bytes, *, seconds=3.0, notes=()):
    near = FlowReport(facts={MOVED: 0.0, MEASURED: seconds}, families=["AF_INET6"], peers={"a": 1}, sources=["b"])
    return LoadReports(near, FlowReport(facts={MOVED: moved_bytes, MEASURED: seconds}, notes=list(notes)))


def test_a_load_is_between_the_same_addresses_from_before_the_warm_up_to_after_the_run():
    spec = measured(work("tcp.down"))
    load = background_of(work("tcp.down"), spec, ident=8)
    assert load
    found = load.flow
    assert (found.engine, found.connections, found.payload_bytes) == ("tcp", 1, 131072)
    assert (found.ipver, found.source, found.address, found.ports) == (6, spec.source, spec.address, spec.ports)
    assert (found.factors["direction"], found.factors["window"], found.ident) == ("down", "auto", 8)
    assert (found.warmup_s, found.run_s, load.measured_s) == (LEAD_S, 3.5 + TAIL_S, (0.5, 3.5))


def test_an_idle_workload_has_none():
    assert background_of(work("none"), measured(work("none")), ident=8) is None


def test_bytes_of_the_run_are_facts_of_it():
    assert reports(600_000.0).facts() == {"load_bytes": 600_000.0, "load_bit_s": 1_600_000.0}


def test_a_load_that_moved_nothing_contradicts_the_level():
    (said,) = reports(0.0).violations(HOME, SIX, work("tcp.up"))
    assert said == "expected a load (tcp.up) in the time of the run, seen no byte of it"
    assert reports(600_000.0).violations(HOME, SIX, work("tcp.up")) == []
    (said,) = reports(1_000_000.0).violations(HOME, SIX, work("tcp.up"))
    assert said.startswith("expected at most ")


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


def runs(live, arm, protocol, loads):
    """Return the result of a run with each of these loads, one after another; the last of each counts."""
    duration, found = Duration(warmup_s=0.2, run_s=1.0), {}
    for level in loads:
        job = work(level, protocol)
        service = live.serve(job, "embedded")
        found[level] = live.run(arm, service, job, bursts=1, deadline_s=10.0, duration=duration)
        assert found[level].violations == ()
    return [found[level] for level in dict.fromkeys(loads)]


def test_round_trips_wait_in_the_queue_that_tcp_has_filled(home):
    """On the wire a probe takes less than a millisecond, and each full packet before it in the queue six."""
    idle, loaded = runs(home, SIX, "rtt", ["none", "tcp.down", "none"])
    assert "load_bit_s" not in idle.data.facts
    assert loaded.data.facts["load_bit_s"] <= 2e6
    assert loaded.proof["load"]["load_bytes"] == loaded.data.facts["load_bytes"] > 0
    # The idle run came last: nothing of the load was left in the queues.
    assert median(loaded.data.column("rtt_s")) > 10 * median(idle.data.column("rtt_s"))


@pytest.mark.parametrize("arm", [FOUR, SIX], ids=str)
def test_a_call_breaks_down_behind_an_upload(home, arm):
    idle, loaded = runs(home, arm, "voip", ["none", "tcp.up"])
    rated = [METRICS["r_factor"].value(result.data) or 0.0 for result in (idle, loaded)]
    assert rated[1] >= 1
    # With a delay of 150 ms and more the talker's echo and the wait itself cost at least 10 of about 91.
    assert rated[1] < rated[0] - 10
    assert loaded.data.facts["load_bytes"] > 0
    sent = f"ipv{arm.ipver}"
    assert loaded.proof["packets"][sent] > idle.proof["packets"][sent]
