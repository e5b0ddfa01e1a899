"""Cache the spread that earlier sessions observed in each cell, and forecast from it what this session can detect.

The main process writes pytest's cache, since it receives every record, also under xdist.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.design.design import DESIGNS, Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.records.observed_spread import ObservedSpread, comparable
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.forecast.cache_file import CacheFile
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS

if TYPE_CHECKING:  # imports scipy, which takes long and only a forecast needs
    from pytest_ipperf.core.records.power_forecast import PowerForecast

_SESSIONS = 10


class SpreadCache:
    """Plugin that caches the spread observed in each cell that has a record, of the last sessions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._file = _file(session)

    def pytest_ipperf_measured(self, record: Record) -> None:
        """Add the spread of a record; a later record of the same cell and session replaces the earlier one.

        Reused cells are skipped, as the session that measured them has added theirs.
        """
        here = self._session.folder.name
        seen = None if record.taken_from else ObservedSpread.of(record, here)
        if seen is not None:
            size = record.run_s or _size(self._session.settings.design, record.protocol, record.connections)
            key = _key(self._session, record.cell, size, record.metric)
            self._file.append(key, here, dataclasses.asdict(seen))

    def pytest_sessionfinish(self) -> None:
        """Remove the spreads that later sessions have replaced."""
        self._file.compact()


def _file(session: Session) -> CacheFile:
    return CacheFile(session.config, "spreads-1", _SESSIONS)


def _key(session: Session, cell: str, size: float, metric: str) -> str:
    """Return the key of comparable spreads; the server program found is part of the observed spread."""
    settings = session.settings
    return f"{cell}/{settings.reference}/{settings.server}/{size:g}/{settings.deadline_s:g}/{metric}"


def _size(design: Design, protocol: str, connections: int) -> float:
    """Return the size of a run: seconds of a flow, else the number of bursts."""
    return PROTOCOLS[protocol].kind.run_size(design, connections).amount


@dataclass(frozen=True, slots=True)
class CellMetric:
    """A cell by one of its metrics."""

    cell: Cell
    metric: str

    def __str__(self) -> str:
        default = PROTOCOLS[self.cell.workload.protocol].metrics[0]
        return str(self.cell) if self.metric == default else f"{self.cell} {self.metric}"


def compared(session: Session) -> dict[Cell, tuple[Question, ...]]:
    """Return the cells that are compared with the reference, with their questions."""
    return {
        cell: questions
        for cell, questions in session.questions.items()
        if not questions or any(question.compares for question in questions)
    }


def power_forecasts(session: Session) -> Iterator[tuple[CellMetric, PowerForecast]]:
    """Yield a forecast of what this session's design can detect for each cell that earlier sessions observed."""
    found = dict(_found(session)) if session.settings.design.judges else {}
    kept = _file(session).read(found) if found else {}
    for key, (item, margins) in found.items():
        if key in kept:
            yield item, _power_forecast(session, item, kept[key], margins)


def _found(session: Session) -> Iterator[tuple[str, tuple[CellMetric, list[Margin]]]]:
    """Yield the key of each cell by each of its metrics, with the margins that it is compared with."""
    for cell, questions in compared(session).items():
        workload = cell.workload
        size = _size(session.design_of(workload), workload.protocol, workload.connections)
        # The controller of xdist collects nothing and knows no markers; it assumes the protocol's metrics.
        metrics = (
            dict.fromkeys(each.metric for each in questions if not each.beside) or PROTOCOLS[workload.protocol].metrics
        )
        for metric in metrics:
            margins = [each.margin for each in questions if each.metric == metric]
            yield _key(session, str(cell), size, metric), (CellMetric(cell, metric), margins)


def _power_forecast(
    session: Session, item: CellMetric, entries: list[dict[str, Any]], margins: list[Margin]
) -> PowerForecast:
    from pytest_ipperf.core.records.power_forecast import forecast  # noqa: PLC0415 - see above

    design, workload = session.design_of(item.cell.workload), item.cell.workload
    seen = comparable([ObservedSpread(**each) for each in entries])
    last = seen[-1]
    from_option = session.settings.margin
    asked = margins or ([] if from_option is None else [from_option])
    metric = METRICS[item.metric].metric
    fractions = [each.effective(last.reference_value, metric.scale, header_cost=last.header_cost) for each in asked]
    margin_fraction = min(fractions) if fractions else last.margin_fraction
    size = _size(design, workload.protocol, workload.connections)
    others = [each for each in DESIGNS.values() if _size(each, workload.protocol, workload.connections) == size]
    return forecast(seen, margin_fraction, design, others, metric)
