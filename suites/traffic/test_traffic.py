"""Payloads of 32 to 65496 bytes over TCP and UDP, DNS, games and voice (paper 004).

Payload `kharche` stands for all sizes of the study; docs/paper-004.md explains them and the figures.
"""

import pytest

SIZES = ["32", "1408", "8k"]
CODECS = ["g711.1", "g711.2", "g723.1", "g729.2", "g729.3"]
EVERYDAY = ["g711.1", "g729.3"]


@pytest.mark.tcp
@pytest.mark.levels(payload=SIZES)
@pytest.mark.grid(payload=["kharche"])
def test_tcp_throughput_by_payload(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.udp
@pytest.mark.levels(payload=SIZES, rate=["flood"])
@pytest.mark.grid(payload=["kharche"])
def test_udp_throughput_by_payload(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.dns_load
@pytest.mark.levels(carrier=["tcp"], outstanding=[1, 100])
@pytest.mark.grid(outstanding=[1, 10, 100])
def test_dns_over_tcp(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.dns_load
@pytest.mark.levels(carrier=["udp"], outstanding=[1, 100])
@pytest.mark.grid(outstanding=[1, 10, 100])
def test_dns_over_udp(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.traffic
@pytest.mark.metric("ipdv")
@pytest.mark.levels(payload=SIZES, carrier=["tcp"], connections=[1])
@pytest.mark.grid(payload=["kharche"])
def test_tcp_jitter_by_payload(measured, margin):
    assert measured.increase <= margin


@pytest.mark.traffic
@pytest.mark.metric("ipdv")
@pytest.mark.levels(payload=SIZES, carrier=["udp"], connections=[1])
@pytest.mark.grid(payload=["kharche"])
def test_udp_jitter_by_payload(measured, margin):
    assert measured.increase <= margin


@pytest.mark.game
@pytest.mark.levels(game=["cs.active", "cs.inactive", "quake3"], connections=[1])
def test_game_throughput(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.voip
@pytest.mark.levels(codec=EVERYDAY, vad=["ditg"], connections=[1])
@pytest.mark.grid(codec=CODECS)
def test_voice_with_vad(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.voip
@pytest.mark.levels(codec=EVERYDAY, rtp=["crtp2"], connections=[1])
@pytest.mark.grid(codec=CODECS)
def test_voice_with_crtp(measured, margin):
    assert measured.slowdown <= margin


@pytest.mark.voip
@pytest.mark.levels(codec=EVERYDAY, vad=["ditg"], rtp=["crtp2"], connections=[1])
@pytest.mark.grid(codec=CODECS)
def test_voice_with_vad_and_crtp(measured, margin):
    assert measured.slowdown <= margin
