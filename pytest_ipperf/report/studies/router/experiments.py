"""Experiments of the study: the five columns of its Table V, and its six figures."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.dimensions import point


@dataclass(frozen=True, slots=True)
class Experiment:
    """A column of Table V: the study's cells of a protocol by a metric, as a percentage or a multiple of IPv4's.

    `held` are the levels that the study holds constant; a cell with other levels does not belong to it.
    """

    name: str
    title: str
    protocol: str
    metric: str
    held: tuple[tuple[str, Value], ...]

    @property
    def measured(self) -> Metric:
        """Metric of the experiment."""
        return METRICS[self.metric].metric

    @property
    def percent(self) -> bool:
        """True if the ratio to IPv4 is given in percent, as for rates."""
        return self.measured.direction == "higher_is_better"

    @property
    def scale(self) -> str:
        """Unit of the ratio."""
        return "% of IPv4" if self.percent else "multiple of IPv4"

    def holds(self, record: Record) -> bool:
        """Return whether a record is a cell of the experiment."""
        same_metric = (record.protocol, record.metric) == (self.protocol, self.metric)
        return same_metric and set(self.held) <= set(point(record).items())


_TCP = (("direction", "up"), ("congestion", "auto"))
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


@dataclass(frozen=True, slots=True)
class StudyFigure:
    """A figure of the study: an experiment along one dimension of its cells."""

    number: int
    title: str
    experiment: str
    dimension: str


PLOTS = (
    StudyFigure(4, "TCP throughput by window size", "tcp_throughput", "window"),
    StudyFigure(5, "TCP throughput by parallel streams", "tcp_throughput", "connections"),
    StudyFigure(6, "Round-trip time by packet size", "rtt", "payload"),
    StudyFigure(7, "UDP throughput by offered rate", "udp_throughput", "rate"),
    StudyFigure(8, "Jitter by offered rate", "jitter", "rate"),
    StudyFigure(9, "Packet loss by offered rate", "loss", "rate"),
)
"""Figs 4 to 9."""
