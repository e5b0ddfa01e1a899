"""A stored run with its place, values and samples, as exported and loaded data have it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run that counts, so no warm-up.

    `session` measured it; `workload` is the text of its workload and `confirms` whether it is of fresh epochs. `epoch`,
    `block` and `slot` are its place in the plan, from 0. It began at `began_at` (seconds since 1970, None in earlier
    records) and had `attempted` and `failed` connections, packets or replies, the latter by kind. `values` are those of
    its metrics in base units, None for a metric without a value. `samples` reads its samples: row after row, with a
    value for each of the `columns`; it raises DamageError if they are not those that were written.
    """

    session: str
    workload: str
    confirms: bool
    arm: Arm
    epoch: int
    block: int
    slot: int
    began_at: float | None
    attempted: int
    failed: Mapping[str, int]
    values: Mapping[str, float | None]
    columns: tuple[str, ...]
    samples: Callable[[], array[float]]
