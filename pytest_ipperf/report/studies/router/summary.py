"""Table V of paper 001 from our own records, graded by the ends of intervals."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.report.flow.dimensions import order
from pytest_ipperf.report.flow.tables import latest
from pytest_ipperf.report.studies.figures.curves import is_bare
from pytest_ipperf.report.studies.figures.experiment import Experiment
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS
from pytest_ipperf.report.studies.router.grades import Grade, Graded, grade, graded
from pytest_ipperf.report.studies.router.printed import RATIOS, REFERENCE, printed
from pytest_ipperf.report.studies.router.ratio import combined, ratio_of
from pytest_ipperf.report.tables.arm_rows import arm_rank, independent_values

_FEWEST = 2
"""Minimum number of columns of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRatio:
    """An arm compared with IPv4 in one experiment: the `ratio` over `cells` cells, None if there is none.

    `why` is the reason if its cells cannot be combined. The reference's ratio is 1, without an interval.
    The interval of a `bare` ratio is not shown, see `Summary.bare`.
    """

    experiment: Experiment
    arm: Arm
    cells: int = 0
    ratio: Interval | None = None
    why: str = ""
    bare: bool = False

    @property
    def is_reference(self) -> bool:
        """True if the arm is IPv4 itself."""
        return self.arm == REFERENCE

    @property
    def graded(self) -> Graded | None:
        """Grades that the interval allows; None without a meaningful interval."""
        if self.bare:
            return None
        direction = self.experiment.measured.direction
        if self.is_reference:
            return graded(1.0, 1.0, direction)
        return graded(self.ratio.low, self.ratio.high, direction) if self.ratio else None

    @property
    def paper(self) -> float | None:
        """The study's printed ratio."""
        return printed(self.experiment.name, self.arm)

    @property
    def paper_grade(self) -> Grade | None:
        """Grade of the study's printed ratio."""
        return None if self.paper is None else grade(self.paper, self.experiment.measured.direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Table V of one testbed and design: `ratios` by experiment and arm, with `notes` on single ones."""

    records: tuple[Record, ...]
    experiments: tuple[Experiment, ...]
    arms: tuple[Arm, ...]
    ratios: dict[tuple[str, Arm], ArmRatio]
    notes: tuple[str, ...]

    @property
    def bare(self) -> bool:
        """True if ratios have neither intervals nor grades: the design has several epochs and never judges."""
        return is_bare(self.records)

    def cells(self, experiment: Experiment) -> list[Record]:
        """Return the records of an experiment."""
        return [record for record in self.records if experiment.holds(record)]


def summaries(records: Sequence[Record]) -> list[Summary]:
    """Return a summary for each testbed and design with at least two columns of Table V, compared with IPv4."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in sorted(latest(records), key=lambda record: (record.protocol, order(record))):
        if (
            record.compared
            and record.reference.arm == REFERENCE
            and not record.twin
            and any(each.holds(record) for each in EXPERIMENTS)
        ):
            groups[record.testbed, record.design].append(record)
    made = [_summary(groups[key]) for key in sorted(groups)]
    return [each for each in made if len(each.experiments) >= _FEWEST]


def _summary(records: Sequence[Record]) -> Summary:
    held = tuple(each for each in EXPERIMENTS if any(each.holds(record) for record in records))
    arms = (REFERENCE, *sorted({record.test.arm for record in records}, key=_rank))
    bare = is_bare(records)
    ratios = {(each.name, REFERENCE): ArmRatio(experiment=each, arm=REFERENCE, bare=bare) for each in held}
    notes: dict[str, None] = {}
    for experiment in held:
        for arm in arms[1:]:
            cells = [record for record in records if experiment.holds(record) and record.test.arm == arm]
            kept, left_out = _comparable(experiment, cells)
            notes.update(dict.fromkeys(left_out))
            ratios[experiment.name, arm] = dataclasses.replace(_arm_ratio(experiment, arm, kept), bare=bare)
    return Summary(records=tuple(records), experiments=held, arms=arms, ratios=ratios, notes=tuple(notes))


def _rank(arm: Arm) -> tuple[bool, tuple[int, int, bool, str]]:
    """Return the sort key of an arm: the study's own arms precede others."""
    return arm not in {of for _, of in RATIOS}, arm_rank(arm)


def _arm_ratio(experiment: Experiment, arm: Arm, cells: Sequence[Record]) -> ArmRatio:
    if not cells:
        return ArmRatio(experiment=experiment, arm=arm)
    try:
        ratio = combined([ratio_of(record) for record in cells], cells[0].confidence)
    except InvalidError as error:
        return ArmRatio(experiment=experiment, arm=arm, why=str(error))
    return ArmRatio(experiment=experiment, arm=arm, cells=len(cells), ratio=ratio)


def _comparable(experiment: Experiment, cells: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Return the cells that have a ratio, for a share those where IPv4's is not 0, and a note about the others."""
    if experiment.measured.scale == "ratio" or not cells:
        return list(cells), []
    kept = [record for record in cells if _always(record)]
    left = [record for record in cells if record not in kept]
    if not left:
        return kept, []
    arm = cells[0].test.arm.title
    shares = {_level(record): _own_share(record) for record in left}
    own = f" of {arm}" if any(shares.values()) else ""
    at = ", ".join(f"{level}{share}" for level, share in shares.items())
    unit = "block" if cells[0].epochs == 1 else "epoch"
    name = experiment.title.lower()
    levels = f"{len(kept)} of {len(cells)} levels"
    return kept, [f"{experiment.title}{own}: {levels} have {name} of IPv4 in every {unit}; left out: {at}."]


def _always(record: Record) -> bool:
    """Return whether the reference's value is above 0 in every epoch, or in every block of a single epoch."""
    try:
        return all(independent_values(record.reference.values, record))
    except InvalidError:
        return False


def _level(record: Record) -> str:
    return record.levels_text or bytes_text(record.payload_bytes)


def _own_share(record: Record) -> str:
    """Return the shares of both arms at a level that is left out; empty if both are 0."""
    test, reference = record.test.mean, record.reference.mean
    return f" ({100 * test:.2g} %, IPv4 {100 * reference:.2g} %)" if test or reference else ""
