"""Experiments of the study: the five columns of its Table V, and its six figures."""

from __future__ import annotations

from pytest_ipperf.report.studies.figures.experiment import Experiment, StudyFigure

_TCP = (
    ("direction", "up"), ("congestion", "auto"), ("sending", "write"), ("receiving", "read"), ("payload", 131072),
)  # fmt: skip
_RTT = (("probe", "udp"), ("waiting", "path"))
_UDP = (("payload", 1400),)

EXPERIMENTS = (
    Experiment("tcp_throughput", "TCP throughput", "tcp", "throughput", _TCP),
    Experiment("rtt", "RTT", "rtt", "rtt", _RTT),
    Experiment("udp_throughput", "UDP throughput", "udp", "throughput", _UDP),
    Experiment("jitter", "Jitter", "udp", "jitter", _UDP),
    Experiment("loss", "Packet loss", "udp", "loss", _UDP),
)
"""The experiments in the order of Table V."""


PLOTS = (
    StudyFigure("001", 4, "TCP throughput by window size", "tcp_throughput", "window"),
    StudyFigure("001", 5, "TCP throughput by parallel streams", "tcp_throughput", "connections"),
    StudyFigure("001", 6, "Round-trip time by packet size", "rtt", "payload"),
    StudyFigure("001", 7, "UDP throughput by offered rate", "udp_throughput", "rate"),
    StudyFigure("001", 8, "Jitter by offered rate", "jitter", "rate"),
    StudyFigure("001", 9, "Packet loss by offered rate", "loss", "rate"),
)
"""Figs 4 to 9."""
