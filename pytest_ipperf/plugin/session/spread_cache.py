"""Cache the spread that earlier sessions observed of each cell, and forecast from it what this one can detect.

The main process writes pytest's cache, as it gets every record, also under xdist.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.design.design import DESIGNS, Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.records.observed_spread import ObservedSpread, comparable
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS, flow

if TYPE_CHECKING:  # scipy comes with it, which no session has to wait for that has nothing to foresee
    from pytest_ipperf.core.records.power_forecast import PowerForecast

_CACHE_KEY = "ipperf/sightings-1"
_SESSIONS = 10


class SpreadCache:
    """Keeps what the last sessions saw of each cell that was answered."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pytest_ipperf_measured(self, record: Record) -> None:
        """An answer; a second one of the same cell and session takes the place of the first.

        What was reused has been seen already, by the session that measured it.
        """
        cache, here = self._session.cache, self._session.folder.name
        seen = ObservedSpread.of(record, here)
        if cache is None or seen is None or record.taken_from:
            return
        size = _size(self._session.settings.design, record.protocol, record.connections)
        kept, key = _kept(self._session), _key(self._session, record.cell, size, record.metric)
        earlier = [each for each in kept.get(key, []) if each["session"] != here]
        cache.set(_CACHE_KEY, {**kept, key: [*earlier, dataclasses.asdict(seen)][-_SESSIONS:]})


def _kept(session: Session) -> dict[str, list[dict[str, Any]]]:
    return dict(session.cache.get(_CACHE_KEY, {})) if session.cache is not None else {}


def _key(session: Session, cell: str, size: float, metric: str) -> str:
    """What has to be the same for a spread to be comparable; the server that was found is in the sighting."""
    settings = session.settings
    return f"{cell}/{settings.reference}/{settings.server}/{size:g}/{settings.deadline_s:g}/{metric}"


def _size(design: Design, protocol: str, connections: int) -> float:
    """How long a run is: in seconds of a flow, else in bursts."""
    return design.run_s if flow(protocol) else design.bursts(connections)


@dataclass(frozen=True, slots=True)
class CellMetric:
    """A cell by one of its metrics."""

    cell: Cell
    metric: str

    def __str__(self) -> str:
        usual = PROTOCOLS[self.cell.workload.protocol].metrics[0]
        return str(self.cell) if self.metric == usual else f"{self.cell} {self.metric}"


def power_forecasts(session: Session) -> Iterator[tuple[CellMetric, PowerForecast]]:
    """Forecast what this session's design can detect in its cells, as far as earlier ones have seen them."""
    design = session.settings.design
    kept = _kept(session) if design.judges else {}
    for cell, questions in session.questions.items():
        workload = cell.workload
        size = _size(design, workload.protocol, workload.connections)
        # The controller of xdist collects nothing, so of markers it knows what they were the last time.
        metrics = dict.fromkeys(each.metric for each in questions) or PROTOCOLS[workload.protocol].metrics
        for metric in metrics:
            if entries := kept.get(_key(session, str(cell), size, metric)):
                margins = [each.margin for each in questions if each.metric == metric]
                yield CellMetric(cell, metric), _power_forecast(session, CellMetric(cell, metric), entries, margins)


def _power_forecast(
    session: Session, what: CellMetric, entries: list[dict[str, Any]], margins: list[Margin]
) -> PowerForecast:
    from pytest_ipperf.core.records.power_forecast import forecast  # noqa: PLC0415 - see above

    design, workload = session.settings.design, what.cell.workload
    seen = comparable([ObservedSpread(**each) for each in entries])
    last = seen[-1]
    everywhere = session.settings.margin
    asked = margins or ([] if everywhere is None else [everywhere])
    metric = METRICS[what.metric].metric
    fractions = [each.effective(last.reference_value, metric.scale, header_cost=last.header_cost) for each in asked]
    margin_fraction = min(fractions) if fractions else last.margin_fraction
    size = _size(design, workload.protocol, workload.connections)
    others = [each for each in DESIGNS.values() if _size(each, workload.protocol, workload.connections) == size]
    return forecast(seen, margin_fraction, design, others, metric)
