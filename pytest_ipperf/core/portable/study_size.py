"""Size of a study's measurement, which design `paper` repeats. Travels to hosts: Python 3.10 alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StudySize:
    """Size of the measurement of one workload in a study, where it is another than that of design `paper`.

    `run_s` is the duration of a run, unless `--duration` gives one; None: the design's. With `in_order`, all runs of an
    arm are made before those of the next one, IPv4 first.
    """

    epochs: int
    blocks: int
    run_s: float | None = None
    in_order: bool = False
