"""Background traffic: up before a flow's warm-up and until after its run, counted in its time, and in trouble alone."""

from __future__ import annotations

import contextlib
from array import array
from dataclasses import replace

import pytest

from pytest_ipperf.agent.flows import background
from pytest_ipperf.agent.flows.background import MEASURED, MOVED, PACKETS, PLANNED, FarBackground, NearBackground
from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.runner import Flows, run
from pytest_ipperf.agent.flows.spec import Background, Delivered, FarListening, FlowReport
from pytest_ipperf.agent.kernel.interface_bytes import all_received_bytes
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, Stream
from pytest_ipperf.core.portable.traffic.schedule import packets
from tests.agent.flows.rtt_ends import spec
from tests.agent.flows.traffic_ends import model_with, spec_of, stream

HERE = "127.0.0.1"
RUN_S = 0.3


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(background, "LEAD_S", 0.3)


def measured(**others):
    return spec(HERE, HERE, "udp", "application", warmup_s=0.1, run_s=RUN_S, ident=77, **others)


def load(direction="up", **others):
    factors = {"window": 65536, "direction": direction, "congestion": "auto"}
    flow = spec(HERE, HERE, "tcp", "path", 65536, warmup_s=0.3, run_s=0.9, ident=78)
    return Background(flow=replace(flow, engine="tcp", factors=factors, **others), measured_s=(0.1, 0.1 + RUN_S))


@pytest.fixture
def flows():
    with contextlib.closing(Flows()) as found:
        yield found


def loaded(flows, one, two, *receivers):
    """Return the reports of both ends of a flow, and those of its load, which moves something to the `receivers`.

    The run is made again where this machine stood still for all of its time.
    """
    for _ in range(20):
        far, far_load = flows.listen(one, two)
        near = run(replace(one, far=far), lambda: None, replace(two, flow=replace(two.flow, far=far_load)))
        report, of_load = flows.finish(near.flow, near.load)
        ends = {"near": near.load, "far": of_load}
        if all(ends[each].facts[MOVED] for each in receivers):
            break
    return near.flow, report, ends


@pytest.mark.parametrize(("direction", "receiver"), [("up", "far"), ("down", "near")])
def test_a_flow_is_measured_under_load(flows, direction, receiver):
    near, far, ends = loaded(flows, measured(), load(direction), receiver)
    assert near.attempted
    assert far.detail["answered"]
    moved = {end: report.facts[MOVED] for end, report in ends.items()}
    assert moved.pop(receiver) > 0
    assert set(moved.values()) == {0}
    assert [report.facts[MEASURED] for report in ends.values()] == pytest.approx([RUN_S, RUN_S])
    assert [report.samples for report in ends.values()] == [b"", b""]
    assert ends["near"].peers == {HERE: 1}


def test_without_a_load_a_flow_is_alone(flows):
    one = measured()
    far, far_load = flows.listen(one, None)
    near = run(replace(one, far=far), lambda: None)
    assert (far_load, near.load, flows.finish(near.flow, None)[1]) == (None, None, None)


def test_a_load_is_up_before_the_context_and_gone_after_it():
    two = load()
    for _ in range(20):  # as in `loaded`
        with contextlib.closing(FarBackground(two)) as far:
            near = NearBackground(replace(two, flow=replace(two.flow, far=far.listening)), lambda: None)
            before = all_received_bytes()
            with near:
                came = all_received_bytes() - before
            assert near.report
            moved = far.finish(near.report).facts[MOVED]
        if came > 10_000 and moved:
            break
    assert came > 10_000
    assert moved > 0


def test_a_load_that_cannot_be_made_is_told_before_the_flow_begins():
    two = load(far=FarListening(port=1))
    with pytest.raises(LabError, match=r"the background traffic: no TCP stream to 127\.0\.0\.1 port 1: "):
        NearBackground(two, lambda: None).__enter__()
    with pytest.raises(LabError, match=r"the background traffic: a server cannot listen on address 198\.18\.7\.7"):
        FarBackground(load(address="198.18.7.7"))


def test_a_load_is_killed_if_the_measured_flow_is_in_trouble():
    two, killed = load(run_s=60.0), NearBackground(load(), lambda: None)
    with contextlib.closing(FarBackground(two)) as far:
        killed = NearBackground(replace(two, flow=replace(two.flow, far=far.listening)), lambda: None)
        with pytest.raises(ZeroDivisionError), killed:
            raise ZeroDivisionError
    assert killed.report is None


def test_bytes_of_a_stream_are_those_between_two_instants():
    rows = [(0, 0.0, 0), (1, 0.0, 0), (0, 0.1, 10), (1, 0.1, 5), (0, 0.2, 30), (1, 0.2, 15), (0, 0.3, 90), (1, 0.3, 95)]
    report = FlowReport(samples=array("d", [each for row in rows for each in row]).tobytes())
    flow = load().flow
    assert ENGINES["tcp"].delivered(flow, report, UP, (0.1, 0.25)) == Delivered(payload_bytes=30)
    assert ENGINES["tcp"].delivered(flow, report, UP, (0.0, 1.0)) == Delivered(payload_bytes=185)
    assert ENGINES["tcp"].delivered(flow, FlowReport(), UP, (0.0, 1.0)) == Delivered(payload_bytes=0)


def test_packets_of_a_model_are_those_between_two_instants_with_their_sizes_and_what_was_planned():
    sizes = Variable((Distribution(name="uniform", parameters={"low": 50, "high": 150}),))
    model = model_with(Stream(direction=UP, interval_s=Variable.of(0.05), size_bytes=sizes), stream(DOWN))
    spec = spec_of(model, warmup_s=0.2, run_s=0.6)
    due = [each for each in packets(model, UP, 2, spec.pattern, least_bytes=16, until_s=0.8) if each.due_s >= 0.2]
    came = [each for at, each in enumerate(due) if at % 3]
    rows = [(0, each.stream, each.number, each.due_s - 0.2, each.due_s - 0.15) for each in came]
    report = FlowReport(samples=array("d", [each for row in rows for each in row]).tobytes())
    found = ENGINES["traffic"].delivered(spec, report, UP, (0.1, 0.4))
    inside = [each for each in came if 0.1 <= each.due_s - 0.15 < 0.4]
    assert 0 < len(inside) < len(came)
    assert (found.packets, found.payload_bytes) == (len(inside), sum(each.size_bytes for each in inside))
    assert found.planned_bytes == sum(each.size_bytes for each in due if 0.1 <= each.due_s - 0.2 < 0.4)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_model_loads_both_directions_with_the_rate_of_its_schedule(flows, address):
    one = spec(address, address, "udp", "application", warmup_s=0.1, run_s=RUN_S, ident=77)
    of_model = spec_of(model_with(), 6 if ":" in address else 4, ident=78, warmup_s=0.3, run_s=0.9, ports=one.ports)
    two = Background(flow=of_model, measured_s=(0.1, 0.1 + RUN_S))
    _, _, ends = loaded(flows, one, two, "near", "far")
    for end in ends.values():
        assert end.facts[MOVED] == 60 * end.facts[PACKETS] > 0
        # Two connections have a packet of 60 bytes every 10 ms.
        assert end.facts[PLANNED] == pytest.approx(2 * 60 * RUN_S / 0.01, abs=2 * 60)
        assert end.samples == b""


def test_an_engine_without_a_load_says_so():
    with pytest.raises(LabError, match="engine rtt makes no background traffic"):
        ENGINES["rtt"].delivered(load().flow, FlowReport(), UP, (0.0, 1.0))
