"""Protocols of traffic models: what their levels make of a model."""

import math

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import levels_from_text, values_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.traffic import Traffic
from pytest_ipperf.traffic_models import shipped_models

VOIP, GAME, TRAFFIC = (PROTOCOLS[name] for name in ("voip", "game", "traffic"))
# Bytes of UDP payload as D-ITG 2.8.1 computes them: RTP, RTP with VAD, cRTP, cRTP with VAD (before its minimum of 16).
OF_DITG = {
    "g711.1": (92, 64, 82, 54),
    "g711.2": (172, 116, 162, 106),
    "g723.1": (42, 31, 32, 21),
    "g729.2": (32, 25, 22, 15),
    "g729.3": (42, 31, 32, 21),
}


def shaped(protocol, text, payload_bytes=1):
    assert isinstance(protocol, Traffic)
    levels = values_of(levels_from_text(protocol.factors, text))
    return protocol.shaped(shipped_models()[protocol.model_name(levels)], payload_bytes, levels)


def sizes(model):
    return {stream.size_bytes.constant for stream in model.streams}


@pytest.mark.parametrize("codec", OF_DITG)
def test_sizes_are_those_of_ditg(codec):
    plain, vad, compressed, both = OF_DITG[codec]
    assert sizes(shaped(VOIP, codec)) == {plain}
    assert sizes(shaped(VOIP, f"{codec}-vadditg")) == {vad}
    assert sizes(shaped(VOIP, f"{codec}-crtp2")) == {compressed}
    assert sizes(shaped(VOIP, f"{codec}-vadditg-crtp2")) == {both}


def test_a_compressed_header_with_the_checksum_has_4_bytes_and_no_rtp():
    model = shaped(VOIP, "g729.2-crtp")
    assert sizes(model) == {24}
    assert model.rtp is None
    assert shaped(VOIP, "g729.2").rtp is not None


def test_voice_activity_detection_by_p59_makes_a_conversation():
    model = shaped(VOIP, "g729.2-vadp59")
    assert model.conversation
    assert sizes(model) == {32}
    assert not shaped(VOIP, "g729.2").conversation


@pytest.mark.parametrize(
    ("protocol", "text", "payload", "sentence"),
    [
        (VOIP, "quake3", 1, "traffic model quake3 is no codec, as its file lacks [speech] or [rtp]; take a codec such"),
        (VOIP, "g711.9", 1, "no traffic model 'g711.9'; there are constant, "),
        (VOIP, "g711.1", 99, "payload 99 has no meaning for model g711.1, which has its own sizes; leave it out"),
        (GAME, "quake3", 64, "payload 64 has no meaning for model quake3, which has its own sizes; leave it out"),
    ],
)
def test_levels_that_do_not_suit_a_model_are_refused(protocol, text, payload, sentence):
    with pytest.raises(UsageError) as error:
        shaped(protocol, text, payload)
    assert sentence in str(error.value)


def test_the_payload_is_the_size_where_the_model_leaves_it_open():
    assert sizes(shaped(TRAFFIC, "constant", 99)) == {99}


@pytest.mark.parametrize("name", ["voip", "game", "traffic"])
def test_limits_of_connections_and_payload(name):
    protocol = PROTOCOLS[name]
    protocol.check(1000, 1, {})
    with pytest.raises(UsageError, match=f"1001 connections at once are more than {name} supports; take 1000 at most"):
        protocol.check(1001, 1, {})
    with pytest.raises(UsageError, match="payload 65508 is not a size of a packet; take 1 to 65507"):
        protocol.check(1, 65508, {})


def test_the_carrier_says_whether_packets_are_datagrams():
    assert isinstance(VOIP, Traffic)
    assert VOIP.sends_datagrams({})
    assert VOIP.sends_datagrams({"carrier": "udp"})
    assert not VOIP.sends_datagrams({"carrier": "tcp"})


def test_words_of_the_factors_are_models_of_the_package():
    models = shipped_models()
    (codec, *_), (game, *_), (model, *_) = (protocol.factors for protocol in (VOIP, GAME, TRAFFIC))
    assert set(model.words) == set(models)
    assert set(game.words) <= set(models)
    assert set(codec.words) == {name for name in models if models[name].speech}
    assert all(math.isinf(models[name].duration_s) for name in models)
