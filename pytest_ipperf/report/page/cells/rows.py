"""List every cell in a line: its name in words, both values, its interval on a shared axis, and its verdict.

The worst come first, and groups of green cells are folded. A line opens to its sentence and its proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.core.nightly.report import RANK, CellReport, NightReport
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.answer.values import allowed_text, arrow_text, typical_mark
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.tables import change_of_means
from pytest_ipperf.report.page.cells.filters import OTHER, Filter, filters_html
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.figures.strip import axis_labels, common_axis, strip, strip_key
from pytest_ipperf.report.page.html.badges import badge, decision_class, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, anchor, element, joined
from pytest_ipperf.report.page.problems.evidence import capture_links
from pytest_ipperf.report.tables.cell_results import VERDICTS, change_text
from pytest_ipperf.report.tables.component_rows import component_lines, deciding_part, verdict_text
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.tables.verdict_rows import TYPICAL, means_disagree, typical_text

_FOLDED = 30
"""Number of cells above which groups of green ones are folded."""
_GREEN = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine:
    """A cell of the list; `record` is None if it was not measured; `data` names the measurement; `rank` its order."""

    key: HistoryKey
    record: Record | None
    word: str
    class_: str
    sentence: str
    rank: float
    data: str = ""

    @property
    def protocol(self) -> str:
        """Title of the protocol; `other` if the cell was not measured."""
        return PROTOCOLS[self.record.protocol].title if self.record else OTHER

    @property
    def arm(self) -> str:
        """Arm in words; `other` if the cell was not measured."""
        return self.record.test.arm.title if self.record else OTHER

    @property
    def unit(self) -> str:
        """Unit of the change that decided."""
        return deciding_part(self.record).change_unit if self.record else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellList:
    """The list as HTML, and the style `rules` of its filters."""

    html: Markup
    rules: str


def cell_list(
    records: Sequence[Record], night: NightReport | None, names: Names, carded: dict[HistoryKey, str], folder: Path
) -> CellList:
    """Return the list of all cells: in a night its decisions. `carded` has the ids of the cards of problems.

    `folder` is the session's, in which captures may lie.
    """
    lines = sorted(_lines(records, night), key=lambda each: (each.rank, -_worse(each)))
    filters = (
        Filter.of("Verdict", "v", (line.word.partition(":")[0] for line in lines)),
        Filter.of("Protocol", "p", (line.protocol for line in lines)),
        Filter.of("Arm", "a", (line.arm for line in lines)),
    )
    axes = {unit: common_axis(_parts(lines, unit)) for unit in dict.fromkeys(line.unit for line in lines)}
    page = _Listing(names=names, filters=filters, axes=axes, carded=carded, folder=folder, seen=set())
    folds = len(lines) > _FOLDED
    parts = [_head(axes)] if lines else []
    parts += [page.line(each) for each in lines if not (folds and each.class_ == _GREEN)]
    groups: dict[str, list[CellLine]] = {}
    for each in lines if folds else ():
        if each.class_ != _GREEN:
            continue
        groups.setdefault(f"{each.protocol}, {each.arm}", []).append(each)
    for title, own in groups.items():
        count = f"{len(own)} cell{'s' * (len(own) != 1)} within"
        inner = [_head({unit: axis for unit, axis in axes.items() if unit in {line.unit for line in own}})]
        inner += [page.line(each) for each in own]
        name = " ".join(dict.fromkeys(page.classes(own[0])))
        parts.append(
            element("details", element("summary", badge(count, _GREEN), f" {title}"), *inner, class_=f"group {name}")
        )
    key = strip_key(deciding_part(line.record) for line in lines if line.record)
    body = joined((filters_html(filters), key, element("div", *parts, class_="cells")), "\n")
    return CellList(html=body if lines else NOTHING, rules="".join(each.rules() for each in filters))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What all lines share."""

    names: Names
    filters: Sequence[Filter]
    axes: dict[str, Axis]
    carded: dict[HistoryKey, str]
    folder: Path
    seen: set[HistoryKey]

    def classes(self, line: CellLine) -> list[str]:
        """Return the classes by which filters hide a line."""
        values = (line.word.partition(":")[0], line.protocol, line.arm)
        return [name for each, value in zip(self.filters, values, strict=True) if (name := each.name(value))]

    def line(self, line: CellLine) -> Markup:
        """Return a line that opens; of several questions about a cell the first has its id."""
        name = {} if line.key in self.seen else {"id": anchor(line.key)}
        self.seen.add(line.key)
        record = line.record
        title = self.names.cell(record) if record else str(line.key)
        values: list[str] = []
        drawn, change = NOTHING, ""
        if record:
            part = deciding_part(record)
            values, change = [arrow_text(record)], change_text(record) or change_of_means(record)
            values += [" ", element("small", mark, class_="soft")] if (mark := typical_mark(record)) else []
            drawn = strip(part, self.axes[part.change_unit])
        shown = element(
            "summary",
            element("span", title, class_="what"),
            element("span", *values, class_="values"),
            element("span", drawn, class_="drawn-in"),
            element("span", change, class_="changed"),
            badge(line.word, line.class_),
        )
        classes = " ".join(("cell", *self.classes(line)))
        return element("details", shown, element("div", *self._proof(line), class_="proof"), class_=classes, **name)

    def _proof(self, line: CellLine) -> Iterator[Markup]:
        record = line.record
        if line.sentence:
            yield element("p", capital(line.sentence))
        if record:
            facts = [f"allowed {text}" if (text := allowed_text(record)) else "", *_typical(record)]
            facts += [*component_lines(record), *_quantiles(record)]
            facts.append(f"{len(record.test.values)} runs of each arm{line.data}")
            yield element("p", "; ".join(filter(None, facts)), class_="soft")
        more = [element("code", line.key.cell), f" {line.key.metric.replace('_', ' ')}"]
        if card := self.carded.get(line.key):
            more += ["; ", element("a", "runs, distribution and history", href=f"#{card}")]
        if record and (links := capture_links(record, self.folder)):
            more += ["; captures: ", links]
        yield element("p", *more, class_="soft")


def _lines(records: Sequence[Record], night: NightReport | None) -> Iterator[CellLine]:
    cells = night.cells if night else ()
    for cell in cells:
        yield CellLine(
            key=cell.key, record=cell.record, word=cell.decision.value, class_=decision_class(cell.decision),
            sentence=cell.sentence, rank=RANK.index(cell.decision), data=_data(cell),
        )  # fmt: skip
    ruled = {cell.key for cell in cells}
    for record in records:
        if record.key not in ruled:
            yield CellLine(
                key=record.key, record=record, word=verdict_text(record), class_=verdict_class(record.verdict),
                sentence=record.sentence, rank=len(RANK) * record.twin + VERDICTS.index(record.verdict),
            )  # fmt: skip


def _parts(lines: Sequence[CellLine], unit: str) -> list[Record]:
    return [deciding_part(line.record) for line in lines if line.record and line.unit == unit]


def _worse(line: CellLine) -> float:
    return worse_by(line.record) if line.record else 0.0


def _head(axes: dict[str, Axis]) -> Markup:
    """Return the labels of the shared axes, above the lines."""
    scales = [axis_labels(axis, unit) for unit, axis in axes.items() if unit]
    columns = [element("span", text, class_=name) for text, name in (("cell", "what"), ("values", "values"))]
    columns.append(element("span", *scales, class_="drawn-in"))
    columns += [element("span", "change", class_="changed"), element("span", "verdict")]
    return element("div", *columns, class_="heads", aria_hidden="true")


def _data(cell: CellReport) -> str:
    """Return the measurement of the night from which the figures are."""
    return ", fresh epochs" if cell.fresh else ", screening"


def _typical(record: Record) -> list[str]:
    """Return the means, where typical values are shown because the means say something else."""
    if not means_disagree(record):
        return []
    unit = unit_of(METRICS[record.metric].metric, [record.test.mean, record.reference.mean])
    means = f"means {unit.text(record.reference.mean)} → {unit.text(record.test.mean)} {unit.name}".rstrip()
    return [f"{TYPICAL} {typical_text(record, unit.text)} {unit.name}".rstrip(), means]


def _quantiles(record: Record) -> Iterator[str]:
    for side in record.sides:
        if side.quantiles:
            texts = (f"{name} {'failed' if at is None else f'{1000 * at:.3g}'}" for name, at in side.quantiles.items())
            yield f"{side.arm.title}: {', '.join(texts)} ms"
