"""Experiments of a study: cells that hold its levels, and the figures that show them along one dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import dimensions


@dataclass(frozen=True, slots=True)
class Experiment:
    """The study's cells of a protocol by a metric.

    `held` are the levels that the study holds constant, and `payload_bytes` the smallest and the largest payload of its
    cells; a cell with other levels does not belong to it.
    """

    name: str
    title: str
    protocol: str
    metric: str
    held: tuple[tuple[str, Value], ...]
    payload_bytes: tuple[float, float] = (0, math.inf)

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
        least, most = self.payload_bytes
        if (record.protocol, record.metric) != (self.protocol, self.metric):
            return False
        levels = {each.name: each.of(record) for each in dimensions(PROTOCOLS[record.protocol])}
        return least <= record.payload_bytes <= most and set(self.held) <= set(levels.items())


@dataclass(frozen=True, slots=True)
class StudyFigure:
    """A figure of the study `paper`: an experiment, by its name, along one dimension of its cells."""

    paper: str
    number: int
    title: str
    experiment: str
    dimension: str

    @property
    def heading(self) -> str:
        """Title with the figure's number in the study."""
        return f"{self.title} (paper {self.paper}, Fig. {self.number}, again)"
