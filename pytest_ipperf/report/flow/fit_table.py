"""Tables of how well a traffic model fits the capture that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_ipperf.core.captures.fit_quality import Compared, FitQuality
from pytest_ipperf.core.portable.scaling import Unit, rate_unit, time_unit
from pytest_ipperf.report.tables.layout import aligned

_DIRECTIONS = {"up": "up, from the client", "down": "down, to the client"}


def fit_lines(found: Sequence[FitQuality]) -> Iterator[str]:
    """Yield the tables of all streams, with the distances of their distributions and the notes."""
    for stream in found:
        rows = [(_DIRECTIONS[stream.name], ["capture", "model", "difference"])]
        rows += [(f"  {name}", cells) for name, cells in map(_row, stream.rows)]
        yield from ("", *aligned(rows))
        yield (
            f"  Kolmogorov-Smirnov distance: sizes {stream.size_distance:.3f}, intervals {stream.interval_distance:.3f}"
        )
        yield from (f"  note: {note}" for note in stream.notes)


def _row(of: Compared) -> tuple[str, list[str]]:
    largest = max(of.captured, of.modelled)
    unit = {"s": time_unit, "bit/s": rate_unit}.get(of.unit, lambda _: Unit(1.0, of.unit, digits=4))(largest)
    change = f"{100 * (of.modelled / of.captured - 1):+.1f} %" if of.captured else ""
    return f"{of.name} ({unit.name})", [unit.text(of.captured), unit.text(of.modelled), change]
