"""Experiments and figures of the traffic study that are curves (paper 004, Figs 4, 5, 7 and 8)."""

from __future__ import annotations

from pytest_ipperf.report.studies.figures.experiment import Experiment, StudyFigure

PAPER = "004"
SIZES = (32, 65496)
"""Smallest and largest payload of the study in bytes."""
FRAGMENTED = 1500
"""Payload in bytes from which no packet on Ethernet holds a message, in either IP version."""

EXPERIMENTS = (
    Experiment(
        "tcp_throughput", "TCP throughput", "tcp", "throughput", (("direction", "up"), ("connections", 1)), SIZES
    ),
    Experiment("udp_throughput", "UDP throughput", "udp", "throughput", (("rate", "flood"),), SIZES),
    Experiment("tcp_jitter", "TCP jitter", "traffic", "ipdv", (("model", "constant"), ("carrier", "tcp")), SIZES),
    Experiment("udp_jitter", "UDP jitter", "traffic", "ipdv", (("model", "constant"), ("carrier", "udp")), SIZES),
)
"""Cells of the study's curves."""

CURVES = (
    StudyFigure(PAPER, 4, "TCP throughput by payload", "tcp_throughput", "payload"),
    StudyFigure(PAPER, 5, "UDP throughput by payload", "udp_throughput", "payload"),
    StudyFigure(PAPER, 7, "TCP jitter by payload", "tcp_jitter", "payload"),
    StudyFigure(PAPER, 8, "UDP jitter by payload", "udp_jitter", "payload"),
)
OVERHEAD = StudyFigure(PAPER, 6, "Overhead by payload", "", "payload")
"""Fig. 6, which shows what is computed, and dots that are measured."""
