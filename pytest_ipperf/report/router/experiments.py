"""The study's experiments: the five columns of its Table V, and its six figures."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.metric import Metric
from pytest_ipperf.core.record import Record
from pytest_ipperf.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Experiment:
    """A column of Table V: all cells of a protocol by a metric, compared with IPv4 as a percentage or a multiple."""

    name: str
    title: str
    protocol: str
    metric: str

    @property
    def measured(self) -> Metric:
        """What it is about."""
        return METRICS[self.metric].metric

    @property
    def percent(self) -> bool:
        """Whether it is told in percent of IPv4, as rates are."""
        return self.measured.direction == "higher_is_better"

    @property
    def scale(self) -> str:
        """In what it is told."""
        return "% of IPv4" if self.percent else "multiple of IPv4"

    def holds(self, record: Record) -> bool:
        """Whether a record is one of its cells."""
        return (record.protocol, record.metric) == (self.protocol, self.metric)


EXPERIMENTS = (
    Experiment("tcp_throughput", "TCP throughput", "tcp", "throughput"),
    Experiment("rtt", "RTT", "rtt", "rtt"),
    Experiment("udp_throughput", "UDP throughput", "udp", "throughput"),
    Experiment("jitter", "Jitter", "udp", "jitter"),
    Experiment("loss", "Packet loss", "udp", "loss"),
)
"""In the order of Table V."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure of the study: an experiment along one dimension of its cells."""

    number: int
    title: str
    experiment: str
    dimension: str


PLOTS = (
    Plot(4, "TCP throughput by window size", "tcp_throughput", "window"),
    Plot(5, "TCP throughput by parallel streams", "tcp_throughput", "connections"),
    Plot(6, "Round-trip time by packet size", "rtt", "payload"),
    Plot(7, "UDP throughput by offered rate", "udp_throughput", "rate"),
    Plot(8, "Jitter by offered rate", "jitter", "rate"),
    Plot(9, "Packet loss by offered rate", "loss", "rate"),
)
"""Figs 4 to 9."""
