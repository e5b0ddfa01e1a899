"""Records of a session that belong to the traffic study, by design, with its curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.flow.dimensions import order
from pytest_ipperf.report.flow.tables import latest
from pytest_ipperf.report.studies.figures.curves import FigureCurves, figure_curves
from pytest_ipperf.report.studies.traffic.experiments import CURVES, EXPERIMENTS
from pytest_ipperf.report.tables.arm_rows import arm_rank

_MOST_SETTINGS = 2
"""The study shows two operating systems in a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The study again, from records of one `design`: its cells by experiment, and its curves."""

    design: str
    cells: dict[str, list[Record]]
    curves: tuple[FigureCurves, ...]

    @property
    def records(self) -> list[Record]:
        """All cells."""
        return [record for own in self.cells.values() for record in own]

    @property
    def has_sizes(self) -> bool:
        """Return whether payloads were swept, of which the overhead is shown."""
        return any(each.plot.dimension == "payload" for each in self.curves)

    @property
    def testbeds(self) -> list[str]:
        """Testbeds in their order."""
        return list(dict.fromkeys(record.testbed for record in self.records))

    @property
    def arms(self) -> list[Arm]:
        """Arms that were measured, in the order of tables."""
        return sorted({side.arm for record in self.records for side in record.sides}, key=arm_rank)


def studies(records: Sequence[Record]) -> list[Study]:
    """Return the study for each design with at least one curve."""
    groups: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(latest(records), key=lambda record: (record.testbed, record.protocol, order(record))):
        if record.compared and not record.twin and not record.own_reference:
            for each in EXPERIMENTS:
                if each.holds(record):
                    groups[record.design][each.name].append(record)
    return [made for design, cells in sorted(groups.items()) if (made := _study(design, cells)).curves]


def _study(design: str, cells: dict[str, list[Record]]) -> Study:
    by_name = {each.name: each for each in EXPERIMENTS}
    curves = (
        figure_curves(plot, by_name[plot.experiment], cells[plot.experiment], most=_MOST_SETTINGS)
        for plot in CURVES
        if plot.experiment in cells
    )
    return Study(design=design, cells=dict(cells), curves=tuple(each for each in curves if each))
