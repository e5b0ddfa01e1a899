"""The traffic engine over loopback: both directions, both carriers, spoiled paths, and ends that die."""

from __future__ import annotations

import dataclasses
import functools
import socket
import threading

import pytest

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.agent.rpc.codec import Decoder, encoded
from pytest_ipperf.agent.sockets import batch_io
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.model import DOWN, UP
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.traffic_models import shipped_models
from tests.agent.flows.traffic_ends import data_of, flow, model_with, number_of, relay, spec_of, stream, voice

LEAST = {"udp": 16, "tcp": 20}


def planned(spec, direction, least_bytes):
    """The packets of the run in the schedule, as stream, number and size."""
    found = packets(
        spec.model, direction, spec.connections, spec.pattern,
        least_bytes=least_bytes, until_s=spec.warmup_s + spec.run_s,
    )  # fmt: skip
    return [packet for packet in found if packet.due_s >= spec.warmup_s]


@pytest.mark.parametrize("ipver", [4, 6])
@pytest.mark.parametrize("carrier", ["udp", "tcp"])
@pytest.mark.parametrize("kind", [model_with, voice])
def test_every_packet_of_the_schedule_arrives_with_its_number_and_size(ipver, carrier, kind):
    spec = spec_of(kind(), ipver, carrier)
    near, far = flow(spec)
    data = data_of(near, far)
    facts, failed = data.facts, far.failed
    least = 24 if carrier == "udp" and spec.model.rtp else LEAST[carrier]
    for number, direction in enumerate((UP, DOWN)):
        wanted = planned(spec, direction, least)
        came = {(row[1], row[2]) for row in data.rows() if row[0] == number}
        assert facts[f"{direction}_sent"] + facts[f"{direction}_missed"] == len(wanted)
        assert facts[f"{direction}_unique"] == len(came)
        assert came <= {(packet.stream, packet.number) for packet in wanted}
        assert facts[f"{direction}_payload_bytes"] == 60 * len(came)
    assert failed == {"lost": 0}
    assert facts["unique"] == facts["sent"] > 0
    assert near.families == [{4: "AF_INET", 6: "AF_INET6"}[ipver]]
    assert near.peers == {spec.address: 2 if carrier == "tcp" else 1}
    # Both ends share a clock: no packet arrives before it is sent, nor before the run.
    assert facts["clock_error_s"] == 0
    assert all(0 <= sent_s <= received_s for *_, sent_s, received_s in data.rows())
    assert facts["planned_bit_s"] == pytest.approx(8 * 60 * (facts["sent"] + facts["missed"]) / spec.run_s)


def test_arms_of_a_block_have_the_same_schedule_and_other_blocks_another():
    spec = spec_of(shipped_models()["quake3"], ipver=4)
    schedules = [
        planned(each, UP, 16)
        for each in (spec, dataclasses.replace(spec, ipver=6), dataclasses.replace(spec, pattern="1/0/1"))
    ]
    assert schedules[0] == schedules[1] != schedules[2]


def test_what_a_path_loses_copies_and_reorders_is_counted():
    held = []

    def spoil(data):
        number = number_of(data)
        if number is None:
            return [data]
        if number % 5 == 1:
            return []  # lost
        if number % 5 == 2:
            return [data, data]  # copied
        if number % 5 == 3:
            held.append(data)  # overtaken by the next one
            return []
        return [data, *[held.pop() for _ in range(len(held))]]

    spec = spec_of(model_with(stream(UP)), connections=1, run_s=1.0)
    for _ in range(10):
        held.clear()
        near, far = flow(spec, functools.partial(relay, spoil=spoil))
        if not far.facts["missed"]:
            break
    facts, numbers = far.facts, [packet.number for packet in planned(spec, UP, 16)]
    if facts["missed"]:
        pytest.skip("this machine was too busy to send the whole schedule")
    assert facts["sent"] == len(numbers)
    assert far.failed == {"lost": sum(number % 5 == 1 for number in numbers) + len(held)}
    assert facts["duplicates"] == sum(number % 5 == 2 for number in numbers)
    overtaken = sum(number % 5 == 3 for number in numbers) - len(held)
    assert facts["reordered"] == overtaken > 0
    assert METRICS["loss"].value(data_of(near, far)) == pytest.approx(far.failed["lost"] / len(numbers))


def test_a_path_that_loses_everything_of_the_run_gives_a_loss_of_all():
    def spoil(data):
        return [data] if number_of(data) is None else []

    near, far = flow(spec_of(model_with(), deadline_s=1.0), functools.partial(relay, spoil=spoil))
    assert far.attempted == far.failed["lost"] > 0
    assert far.notes[-1:] == [f"none of {far.attempted} packets arrived"]  # behind what a busy machine left out
    assert METRICS["loss"].value(data_of(near, far)) == 1
    assert METRICS["throughput"].value(data_of(near, far)) is None


def test_stray_datagrams_and_those_of_another_run_are_no_packets():
    def spoil(data):
        foreign = bytes([data[0] ^ 1, *data[1:]])
        return [b"", b"x", foreign, data, bytes(24), foreign * 40]

    near, far = flow(spec_of(model_with()), functools.partial(relay, spoil=spoil))
    assert far.failed == {"lost": 0}
    assert far.facts["duplicates"] == far.facts["reordered"] == 0
    assert far.facts["payload_bytes"] == 60 * far.facts["unique"] > 0
    assert near.facts["largest_bytes"] == 60


def test_stray_connections_are_not_the_runs():
    spec = spec_of(model_with(), carrier="tcp")
    engine = ENGINES["traffic"]
    far = engine.far(spec)
    try:
        with socket.create_connection((spec.address, far.listening.port)) as stray:
            stray.sendall(bytes(20))
            near = engine.near(dataclasses.replace(spec, far=far.listening), lambda: None)
            assert far.finish(near).failed == {"lost": 0}
    finally:
        far.close()


def test_a_host_without_recvmmsg_measures_the_same(monkeypatch):
    def lacks(name, _extra):
        raise batch_io.UnsupportedError(f"{name}: not here")

    monkeypatch.setattr(batch_io, "_libc_function", lacks)
    near, far = flow(spec_of(voice()))
    assert far.failed == {"lost": 0}
    assert far.facts["payload_bytes"] == 60 * far.facts["unique"] > 0
    assert (METRICS["delay"].value(data_of(near, far)) or 0) > 0


@pytest.mark.parametrize("carrier", ["udp", "tcp"])
@pytest.mark.parametrize("streams", [(UP, DOWN), (DOWN,)])
def test_a_far_end_that_dies_is_an_error_that_names_it(carrier, streams):
    spec = spec_of(model_with(*map(stream, streams)), carrier=carrier, run_s=20.0)
    engine, began = ENGINES["traffic"], threading.Event()
    far = engine.far(spec)
    calls = iter(range(10**9))

    def alive():
        if next(calls) > 20 and not began.is_set():
            began.set()
            far.close()

    sentence = f"at {spec.address} port {far.listening.port} any more: the other end of this run has died"
    try:
        with pytest.raises(LabError, match=sentence):
            engine.near(dataclasses.replace(spec, far=far.listening), alive)
    finally:
        far.close()


def test_a_far_end_that_never_answers_is_an_error_that_names_it():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        spec = spec_of(model_with(), deadline_s=0.3)
        far = ENGINES["traffic"].far(spec)
        far.close()
        listening = dataclasses.replace(far.listening, port=silent.getsockname()[1])
        with pytest.raises(LabError, match=r"has not answered within 0\.3 s: it has died, or a firewall drops packets"):
            ENGINES["traffic"].near(dataclasses.replace(spec, far=listening), lambda: None)


def test_a_near_end_that_dies_is_an_error_of_the_far_end():
    engine, spec = ENGINES["traffic"], spec_of(model_with())
    near, _ = flow(spec)
    far = engine.far(dataclasses.replace(spec, deadline_s=0.2))
    try:
        with pytest.raises(LabError, match=r"the end at 127\.0\.0\.1 has not sent its packets of this run"):
            far.finish(near)
    finally:
        far.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": None}, "engine traffic takes a traffic model, and its spec has none"),
        ({"connections": 40000}, "40000 connections have too many streams; 65535 can be told apart"),
    ],
)
def test_a_spec_that_cannot_be_carried_out_is_refused(change, sentence):
    spec = dataclasses.replace(spec_of(model_with()), **change)
    with pytest.raises(LabError, match=sentence):
        ENGINES["traffic"].near(spec, lambda: None)


def test_ends_of_different_byte_orders_are_refused():
    spec = spec_of(model_with())
    with pytest.raises(LabError, match=r"host 127\.0\.0\.1 has another byte order than this one"):
        ENGINES["traffic"].near(spec, lambda: None)


def test_a_model_travels_to_hosts_as_a_value():
    for model in shipped_models().values():
        spec = spec_of(dataclasses.replace(model, duration_s=3.0, seed="5"))
        assert Decoder().decode(FlowSpec, encoded(FlowSpec, spec), "spec") == dataclasses.replace(
            spec, factors=dict(spec.factors)
        )


def test_a_model_without_a_packet_in_the_run_says_so():
    _, far = flow(spec_of(model_with(stream(interval_s=1e6)), run_s=0.2))
    assert far.attempted == 0
    assert far.notes == ["the model had no packet in this run; take a longer --duration"]
