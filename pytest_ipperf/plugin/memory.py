"""Memory: what earlier sessions saw of each cell, in pytest's cache; from it, what this one can settle.

The main process remembers, as it hears every record, also under xdist.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.cell import Cell
from pytest_ipperf.core.design import DESIGNS
from pytest_ipperf.core.record import Record
from pytest_ipperf.core.sighting import Sighting, comparable
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session import Session

if TYPE_CHECKING:  # scipy comes with it, which no session has to wait for that has nothing to foresee
    from pytest_ipperf.core.foresight import Foresight

_CACHE_KEY = "ipperf/sightings-1"
_METRIC = "response_time"
_SESSIONS = 10


class Memory:
    """Keeps what the last sessions saw of each cell that was answered."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pytest_ipperf_measured(self, record: Record) -> None:
        """An answer; a second one of the same cell and session takes the place of the first.

        What was taken over has been seen already, by the session that measured it.
        """
        cache, here = self._session.cache, self._session.folder.name
        seen = Sighting.of(record, here)
        if cache is None or seen is None or record.taken_from:
            return
        kept, key = _kept(self._session), _key(self._session, record.cell, record.connections)
        earlier = [each for each in kept.get(key, []) if each["session"] != here]
        cache.set(_CACHE_KEY, {**kept, key: [*earlier, dataclasses.asdict(seen)][-_SESSIONS:]})


def _kept(session: Session) -> dict[str, list[dict[str, Any]]]:
    return dict(session.cache.get(_CACHE_KEY, {})) if session.cache is not None else {}


def _key(session: Session, cell: str, connections: int) -> str:
    """What has to be the same for a spread to be comparable; the server that was found is in the sighting."""
    settings = session.settings
    bursts = settings.design.bursts(connections)
    return f"{cell}/{settings.reference}/{settings.server}/{bursts}/{settings.deadline_s:g}/{_METRIC}"


def foresights(session: Session) -> Iterator[tuple[Cell, Foresight]]:
    """What this session's design will settle of its cells, as far as earlier ones have seen them."""
    design, kept = session.settings.design, _kept(session)
    if not design.judges:
        return
    for cell, margins in session.asked.items():
        connections = cell.workload.connections
        entries = kept.get(_key(session, str(cell), connections))
        if not entries:
            continue
        from pytest_ipperf.core.foresight import foresee  # noqa: PLC0415 - see above

        seen = comparable([Sighting(**each) for each in entries])
        last = seen[-1]
        asked = margins or filter(None, [session.settings.margin])
        fractions = [margin.effective(last.reference_value) for margin in asked]
        # The controller of xdist collects nothing, so of markers it knows what they were the last time.
        margin_fraction = min(fractions) if fractions else last.margin_fraction
        others = [each for each in DESIGNS.values() if each.bursts(connections) == design.bursts(connections)]
        yield cell, foresee(seen, margin_fraction, design, others, METRICS[_METRIC].metric)
