"""Build the rows of `flows.csv`: all digits, base units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.tables import latest
from pytest_ipperf.report.tables import columns


def figures(records: Iterable[Record]) -> list[dict[str, Any]]:
    """A row for each arm of each cell and metric, all with the same columns; the reference of a workload comes once."""
    chosen = latest(records)
    levels = list(dict.fromkeys(name for record in chosen for name in record.levels))
    means = sorted({name for record in chosen for side in (record.test, record.reference) for name in side.figures})
    rows, seen = list[dict[str, Any]](), set[tuple[Any, ...]]()
    # The reference was measured for as long as any arm beside it.
    for record in sorted(chosen, key=lambda each: -each.epochs):
        where = _question(record, levels)
        place = (*where.values(),)
        if place not in seen:
            seen.add(place)
            rows.append({**where, **_side(record, record.reference, means), **dict.fromkeys(columns.answer(record))})
        rows.append({**where, **_side(record, record.test, means), **columns.answer(record)})
    return rows


def _question(record: Record, levels: Sequence[str]) -> dict[str, Any]:
    """All but the arms' own; `link_...` is what the links do, `level_...` the protocol's own factors."""
    return {
        "testbed": record.testbed, "protocol": record.protocol, "metric": record.metric,
        "unit": METRICS[record.metric].metric.unit, "connections": record.connections,
        "payload_bytes": record.payload_bytes, **{f"level_{name}": record.levels.get(name) for name in levels},
        "design": record.design, "seed": record.seed, "blocks": record.blocks, "taken_from": record.taken_from,
        "link_rate_bit_s": record.rate_bit_s or None, "link_loss": record.loss, "link_delay_s": record.delay_s,
        "one_machine": record.one_machine,
    }  # fmt: skip


def _side(record: Record, side: ArmSummary, means: Sequence[str]) -> dict[str, Any]:
    """`mean_...` are means over the arm's runs: of all metrics, and of what the engines counted."""
    figures: Mapping[str, float] = side.figures
    return {
        "arm": str(side.arm),
        "backend": record.backend,
        "epochs": record.epochs,
        "runs": len(side.values),
        "mean": side.mean,
        "sd_of_runs": columns.spread(side),
        "attempted": side.attempted,
        "completed": side.completed,
        "failed": columns.failed_text(side),
        "path_bit_s": side.pace.path_bit_s if side.pace else None,
        **{f"mean_{name}": figures.get(name) for name in means},
        "notes": " | ".join(side.notes),
    }
