"""Models fitted to packets of known models: their parameters come back, and packets of both agree."""

from __future__ import annotations

import random
import statistics

import pytest

from pytest_ipperf.core.captures.fit import captured_streams, fitted_model
from pytest_ipperf.core.captures.fit_quality import correlation, fit_quality, ks_distance
from pytest_ipperf.core.captures.flow import Flow, flows_of
from pytest_ipperf.core.captures.headers import UDP
from pytest_ipperf.core.captures.model_text import model_text
from pytest_ipperf.core.captures.pcap import CapturedPacket
from pytest_ipperf.core.captures.talk_spurts import talk_spurts
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.model import DOWN, UP
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.traffic_models import TrafficModels
from pytest_ipperf.traffic_models.base import model_from_text
from tests.core.captures.frames import CLIENT, SERVER, ipv4, udp

MODELS = TrafficModels()
SPURTS = """
title = "Speech with silences"
source = "none"

[[stream]]
direction = "up"
interval_ms = 20
size_bytes = 32
talk_s = {distribution = "exponential", mean = 1.0}
pause_s = {distribution = "exponential", mean = 1.35}
"""


def flow_of(model, until_s, seed="original"):
    """Return the flow of a model's packets; sizes below 1 have no payload to be captured."""
    found = Flow(UDP, (CLIENT, 4000), (SERVER, 5004))
    for direction, name in ((found.up, UP), (found.down, DOWN)):
        for packet in packets(model.with_payload(100), name, 1, seed, least_bytes=1, until_s=until_s):
            direction.note(round(packet.due_s * 1e9), packet.size_bytes)
    return found


def again(flow):
    """Return the model of a flow, written to a file and read from it."""
    return model_from_text("again", model_text(fitted_model("again", "title", "source", flow), ["A remark"]))


def rtp_flow(clock_hz=8000, *, source=7, step=1, kind=0, count=100):
    """Return a flow of RTP packets each 20 ms."""
    heads = (
        bytes([0x80, kind]) + (number * step).to_bytes(2, "big") + (number * clock_hz // 50).to_bytes(4, "big")
        + source.to_bytes(4, "big")
        for number in range(count)
    )  # fmt: skip
    sent = (ipv4(UDP, udp(172, payload=head)) for head in heads)
    return flows_of(CapturedPacket(at * 20_000_000, 101, packet) for at, packet in enumerate(sent))[0]


@pytest.mark.parametrize("model", list(MODELS.values()), ids=lambda model: model.name)
def test_packets_of_the_fitted_model_agree_with_the_captured_ones(model):
    """The distance of two samples of 10000 from one distribution exceeds 0.028 less than once in a thousand times."""
    flow = flow_of(model, 4000 if model.name == "dns" else 60)
    made = again(flow)
    for captured in captured_streams(flow):
        quality = fit_quality(made, captured, "fit")
        assert quality.size_distance <= 0.05
        assert quality.interval_distance <= 0.05


def test_constant_sizes_and_intervals_are_single_numbers():
    text = model_text(fitted_model("g711.2", "title", "source", flow_of(MODELS["g711.2"], 10)))
    assert text.count("size_bytes = 172\n") == 2
    assert model_from_text("g711.2", text).streams[1].direction == DOWN


def test_a_few_sizes_keep_their_shares():
    flow = flow_of(MODELS["cs.inactive"], 500)
    (stream,) = again(flow).streams
    sizes = stream.size_bytes.parts[0]
    assert sizes.values == (27, 28, 29, 30, 31, 32, 33, 35)
    assert sizes.weights[0] / sum(sizes.weights) == pytest.approx(0.8312, abs=0.01)


def test_talk_spurts_and_pauses_come_back():
    flow = flow_of(model_from_text("speech", SPURTS), 1000)
    (captured,) = captured_streams(flow)
    found = talk_spurts(captured.intervals_s)
    assert found
    # 425 spurts; the mean of an exponential variable is within 19 % in all but one of 10,000 cases.
    assert statistics.fmean(found.talk_s) == pytest.approx(1.0, rel=0.19)
    assert statistics.fmean(found.pause_s) == pytest.approx(1.35, rel=0.19)
    assert (min(found.intervals_s), percentile(found.intervals_s, 0.9)) == pytest.approx((0.02, 0.02), abs=1e-8)
    quality = fit_quality(again(flow), captured, "fit")
    rates = {row.name: row.modelled / row.captured for row in quality.rows}
    assert rates["packets"] == pytest.approx(1, abs=0.15)
    assert rates["interval, p50"] == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("name", ["quake3", "telnet", "cs.active", "g729.3"])
def test_other_traffic_has_no_talk_spurts(name):
    (captured, *_) = captured_streams(flow_of(MODELS[name], 200))
    assert talk_spurts(captured.intervals_s) is None


def test_exponential_intervals_have_no_talk_spurts():
    drawn = random.Random(1)
    assert talk_spurts([drawn.expovariate(50) for _ in range(5000)]) is None


def test_the_mean_of_long_tails_is_kept():
    drawn, at_ns = random.Random(2), 0
    flow = Flow(UDP, (CLIENT, 1), (SERVER, 2))
    for _ in range(20000):
        flow.up.note(at_ns, drawn.randint(20, 1400))
        at_ns += round(1e9 * 0.001 * drawn.paretovariate(1.5))
    (captured,) = captured_streams(flow)
    (interval,) = (stream.interval_s for stream in again(flow).streams)
    means = [sum(part.values[1:-1], (part.values[0] + part.values[-1]) / 2) / 100 for part in interval.parts]
    assert 0.99 * means[0] + 0.01 * means[1] == pytest.approx(statistics.fmean(captured.intervals_s), rel=0.01)


def test_successive_intervals_that_depend_on_each_other_are_told():
    drawn, at_ns, ends = random.Random(3), 0, [0]
    for _ in range(2000):  # each packet late by itself: a long interval is followed by a short one
        at_ns += 20_000_000
        ends.append(at_ns + drawn.randint(0, 8_000_000))
    flow = Flow(UDP, (CLIENT, 1), (SERVER, 2))
    for each in ends:
        flow.up.note(each, 100)
    (captured,) = captured_streams(flow)
    (note,) = fit_quality(again(flow), captured, "fit").notes
    assert note.startswith("successive intervals are correlated (-0.")


def test_rtp_is_known_by_its_numbers_and_clock():
    for clock_hz in (8000, 16000, 48000, 90000):
        form = fitted_model("a", "b", "c", rtp_flow(clock_hz, kind=96)).rtp
        assert form
        assert (form.payload_type, form.clock_hz) == (96, clock_hz)
    assert 'format = "rtp"' in model_text(fitted_model("a", "b", "c", rtp_flow()))


@pytest.mark.parametrize("flow", [rtp_flow(step=3), rtp_flow(clock_hz=12345), flow_of(MODELS["g711.2"], 10)])
def test_what_only_looks_like_rtp_is_not(flow):
    assert fitted_model("a", "b", "c", flow).rtp is None


def test_too_few_packets_are_named():
    with pytest.raises(UsageError, match=r"has 19 packets in a direction; a model is fitted to 20 or more"):
        fitted_model("a", "b", "c", rtp_flow(count=19))
    flow = Flow(UDP, (CLIENT, 1), (SERVER, 2))
    for _ in range(30):
        flow.up.note(5, 100)
    with pytest.raises(UsageError, match=r"all packets of flow UDP .* have the same time, so that"):
        fitted_model("a", "b", "c", flow)


def test_a_distance_is_the_largest_difference_of_the_distribution_functions():
    assert ks_distance([1, 2, 3, 4], [1, 2, 3, 4]) == 0
    assert ks_distance([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5
    assert ks_distance([1, 2], [3, 4]) == 1


def test_the_correlation_of_successive_values():
    assert correlation([1.0, 2.0] * 50) == pytest.approx(-0.99, abs=0.011)
    assert correlation([5.0] * 10) == 0
    assert correlation([1.0, 2.0]) == 0
