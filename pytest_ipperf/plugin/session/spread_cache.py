"""Cache the spread that earlier sessions observed in each cell, and forecast from it what this session can detect.

The main process writes pytest's cache, since it receives every record, also under xdist.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.design.design import DESIGNS, Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.records.observed_spread import ObservedSpread, comparable
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS

if TYPE_CHECKING:  # imports scipy, which takes long and only a forecast needs
    from pytest_ipperf.core.records.power_forecast import PowerForecast

_CACHE_KEY = "ipperf/sightings-1"
_SESSIONS = 10
_SECONDS_BETWEEN_WRITES = 10.0


class SpreadCache:
    """Plugin that caches the spread observed in each cell that has a record, of the last sessions.

    It writes the cache every ten seconds and at the end: pytest has one file for all cells, of which there may be
    thousands.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._new: dict[str, dict[str, Any]] = {}
        self._written_at = 0.0

    def pytest_ipperf_measured(self, record: Record) -> None:
        """Add the spread of a record; a later record of the same cell and session replaces the earlier one.

        Reused cells are skipped, as the session that measured them has added theirs.
        """
        cache, here = self._session.cache, self._session.folder.name
        seen = ObservedSpread.of(record, here)
        if cache is None or seen is None or record.taken_from:
            return
        size = record.run_s or _size(self._session.settings.design, record.protocol, record.connections)
        self._new[_key(self._session, record.cell, size, record.metric)] = dataclasses.asdict(seen)
        if time.monotonic() - self._written_at >= _SECONDS_BETWEEN_WRITES:
            self._write(cache, here)

    def pytest_sessionfinish(self) -> None:
        """Write what is not written yet."""
        if self._session.cache is not None and self._new:
            self._write(self._session.cache, self._session.folder.name)

    def _write(self, cache: pytest.Cache, here: str) -> None:
        kept = _kept(self._session)
        for key, seen in self._new.items():
            earlier = [each for each in kept.get(key, []) if each["session"] != here]
            kept[key] = [*earlier, seen][-_SESSIONS:]
        cache.set(_CACHE_KEY, kept)
        self._new.clear()
        self._written_at = time.monotonic()


def _kept(session: Session) -> dict[str, list[dict[str, Any]]]:
    return dict(session.cache.get(_CACHE_KEY, {})) if session.cache is not None else {}


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
    design = session.settings.design
    kept = _kept(session) if design.judges else {}
    for cell, questions in compared(session).items():
        workload = cell.workload
        size = _size(session.design_of(workload), workload.protocol, workload.connections)
        # The controller of xdist collects nothing and knows no markers; it assumes the protocol's metrics.
        metrics = (
            dict.fromkeys(each.metric for each in questions if not each.beside) or PROTOCOLS[workload.protocol].metrics
        )
        for metric in metrics:
            if entries := kept.get(_key(session, str(cell), size, metric)):
                margins = [each.margin for each in questions if each.metric == metric]
                yield CellMetric(cell, metric), _power_forecast(session, CellMetric(cell, metric), entries, margins)


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
