"""Experiments and figures of the traffic study that are curves (paper 004, Figs 4, 5, 7 and 8)."""

from __future__ import annotations

from pytest_ipperf.report.studies.figures.experiment import Experiment, StudyFigure

PAPER = "004"
SIZES = (32, 65496)
"""Smallest and largest payload of the study in bytes."""
FRAGMENTED = 1500
"""Payload in bytes from which no packet on Ethernet holds a message, in either IP version."""

_TCP = (("direction", "up"), ("connections", 1))
_ONE = (("connections", 1),)
_MESSAGES = (("model", "constant"), *_ONE)
_CLOSED = (("qps", "closed"), ("qnames", "one"), *_ONE)
_DITG_VAD, _DITG_CRTP = ("vad", "ditg"), ("rtp", "crtp2")

EXPERIMENTS = (
    Experiment("tcp_throughput", "TCP throughput", "tcp", "throughput", _TCP, SIZES),
    Experiment("udp_throughput", "UDP throughput", "udp", "throughput", (("rate", "flood"),), SIZES),
    Experiment("tcp_jitter", "TCP jitter", "traffic", "ipdv", (("carrier", "tcp"), *_MESSAGES), SIZES),
    Experiment("udp_jitter", "UDP jitter", "traffic", "ipdv", (("carrier", "udp"), *_MESSAGES), SIZES),
    Experiment("dns_tcp", "DNS over TCP", "dns_load", "queries_per_second", (("carrier", "tcp"), *_CLOSED)),
    Experiment("dns_udp", "DNS over UDP", "dns_load", "queries_per_second", (("carrier", "udp"), *_CLOSED)),
    Experiment("games", "Game throughput", "game", "throughput", _ONE),
    Experiment("voice_vad", "Voice with VAD", "voip", "throughput", (_DITG_VAD, ("rtp", "rtp"), *_ONE)),
    Experiment("voice_crtp", "Voice with cRTP", "voip", "throughput", (("vad", "off"), _DITG_CRTP, *_ONE)),
    Experiment("voice_both", "Voice with VAD and cRTP", "voip", "throughput", (_DITG_VAD, _DITG_CRTP, *_ONE)),
)
"""Cells of the study's curves."""

CURVES = (
    StudyFigure(PAPER, 4, "TCP throughput by payload", "tcp_throughput", "payload"),
    StudyFigure(PAPER, 5, "UDP throughput by payload", "udp_throughput", "payload"),
    StudyFigure(PAPER, 7, "TCP jitter by payload", "tcp_jitter", "payload"),
    StudyFigure(PAPER, 8, "UDP jitter by payload", "udp_jitter", "payload"),
    StudyFigure(PAPER, 9, "DNS over TCP by outstanding queries", "dns_tcp", "outstanding"),
    StudyFigure(PAPER, 10, "DNS over UDP by outstanding queries", "dns_udp", "outstanding"),
    StudyFigure(PAPER, 11, "Throughput of games", "games", "game"),
    StudyFigure(PAPER, 12, "Throughput of voice with VAD", "voice_vad", "codec"),
    StudyFigure(PAPER, 13, "Throughput of voice with compressed RTP", "voice_crtp", "codec"),
    StudyFigure(PAPER, 14, "Throughput of voice with VAD and compressed RTP", "voice_both", "codec"),
)
DIMENSIONS = {
    experiment.protocol: plot.dimension
    for plot in CURVES
    for experiment in EXPERIMENTS
    if experiment.name == plot.experiment
}
"""Dimension of each protocol's figures."""
OVERHEAD = StudyFigure(PAPER, 6, "Overhead by payload", "", "payload")
"""Fig. 6, which shows what is computed, and dots that are measured."""
