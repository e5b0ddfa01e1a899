"""List every cell that two sessions have in a line, those that moved first: both changes, and their difference.

Cells that have not moved are folded if there are many. A line opens to its sentence and to the values of both sessions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.power import slowdown_size
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.records.comparison import Difference
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.words import unbroken
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.page.cells.filters import OTHER, Filter, filters_html
from pytest_ipperf.report.page.cells.rows import CellList
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.figures.strip import axis_labels, axis_over, interval_key, interval_strip
from pytest_ipperf.report.page.html.badges import badge, verdict_class
from pytest_ipperf.report.page.html.markup import Markup, element, joined
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.terminal.comparison import sentence

BETTER, NOT_COMPARABLE = "better", "not comparable"
_ORDER = (
    Verdict.EXCEEDS.value, BETTER, Verdict.INVALID.value, Verdict.INCONCLUSIVE.value, NOT_COMPARABLE,
    Verdict.UNJUDGED.value, Verdict.WITHIN.value,
)  # fmt: skip
"""Words of the lines in their order: worse cells, better ones, those without an answer, those that have not moved."""
_KEY = interval_key(
    "its one-sided 95 % bounds, which decide", "its 95 % interval", "the margin, which is allowed",
    dot="the change of B against that of A",
)  # fmt: skip
_FOLDED = 30
"""Number of cells above which those that have not moved are folded."""


def word_of(found: Difference) -> str:
    """Return the word of a difference: its verdict, `better` by more than the margin, or `not comparable`."""
    return BETTER if found.better else found.verdict.value if found.verdict else NOT_COMPARABLE


def ordered(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences in the order of the page: within a kind, the largest first."""
    return sorted(differences, key=lambda each: (_ORDER.index(word_of(each)), -_size(each)))


def name_of(key: HistoryKey) -> str:
    """Return a cell in words: `SMTP at 10 connections, 1k, IPv6 tunnel`; its text if that is of another form."""
    protocol, arm, levels = _parts(key)
    if protocol == OTHER:
        return str(key)
    title = PROTOCOLS[protocol].title
    several = len(PROTOCOLS[protocol].metrics) > 1 and key.metric != protocol
    metric = f" {key.metric.replace('_', ' ').removeprefix(f'{protocol} ')}" if several else ""
    return f"{title}{metric} at {', '.join(_levels(protocol, levels))}, {Arm.parse(arm).title}"


def _levels(protocol: str, levels: str) -> Iterator[str]:
    """Yield the levels of a cell's text, with the number of connections in words."""
    for level in levels.split("-"):
        count = re.fullmatch(r"c(\d+)", level)
        yield PROTOCOLS[protocol].kind.counted(int(count[1])) if count else level


def moved_list(differences: Iterable[Difference]) -> CellList:
    """Return the list with its filters by verdict, protocol and arm."""
    found = ordered(differences)
    filters = (
        Filter.of("Verdict", "v", map(word_of, found)),
        Filter.of("Protocol", "p", (_protocol(each) for each in found)),
        Filter.of("Arm", "a", (_arm(each) for each in found)),
    )
    axes = {unit: _axis([each for each in found if each.unit == unit]) for unit in dict.fromkeys(_units(found))}
    page = _Listing(filters=filters, axes=axes)
    still = [each for each in found if word_of(each) == Verdict.WITHIN.value] if len(found) > _FOLDED else []
    parts = [page.head(), *(page.line(each) for each in found[: len(found) - len(still)])]
    if still:
        count = badge(f"{len(still)} cells within", verdict_class("within"))
        name = " ".join(("group", filters[0].name(Verdict.WITHIN.value))).rstrip()
        lines = [page.head(), *map(page.line, still)]
        parts.append(element("details", element("summary", count, " have not moved"), *lines, class_=name))
    html = joined((filters_html(filters), _KEY, element("div", *parts, class_="cells")), "\n")
    return CellList(html=html, rules="".join(each.rules() for each in filters))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """Filters, and an axis for each unit, that all lines share."""

    filters: Sequence[Filter]
    axes: dict[str, Axis]

    def head(self) -> Markup:
        """Return the labels of the shared axes, above the lines."""
        scales = [axis_labels(axis, unit) for unit, axis in self.axes.items()]
        texts = (("cell", "what"), ("change in A → in B", "values"))
        columns = [element("span", text, class_=name) for text, name in texts]
        columns.append(element("span", *scales, class_="drawn-in"))
        columns += [element("span", "B against A", class_="changed"), element("span", "verdict")]
        return element("div", *columns, class_="heads", aria_hidden="true")

    def line(self, found: Difference) -> Markup:
        """Return a line that opens."""
        word = word_of(found)
        class_ = verdict_class(found.verdict.name.lower() if found.verdict else "")
        shown = element(
            "summary",
            element("span", name_of(found.now.key), class_="what"),
            element("span", unbroken(_changes(found)), class_="values"),
            element("span", self._picture(found), class_="drawn-in"),
            element("span", difference_text(found), class_="changed"),
            badge(word, class_),
        )
        values = (word, _protocol(found), _arm(found))
        names = [name for each, value in zip(self.filters, values, strict=True) if (name := each.name(value))]
        return element(
            "details", shown, element("div", *_proof(found), class_="proof"), class_=" ".join(("cell", *names))
        )

    def _picture(self, found: Difference) -> Markup:
        if found.change is None or found.unit not in self.axes:
            return Markup("")
        wide = found.change.mapped(found.show)
        thick = (found.show(found.low), found.show(found.high))
        return interval_strip(
            wide.estimate, self.axes[found.unit], limit=_limit(found), thick=thick, thin=(wide.low, wide.high)
        )


def difference_text(found: Difference) -> str:
    """Return the difference with the interval that decides, of both one-sided bounds; empty if there is none."""
    if found.change is None:
        return ""
    low, high = (percent_text(found.show(bound)) for bound in (found.low, found.high))
    return f"{percent_text(found.show(found.change.estimate))} {found.unit} [{low}, {high}]"


def _proof(found: Difference) -> Iterator[Markup]:
    yield element("p", f"{capital(sentence(found))}.")
    sides = [f"{name}: {_values(found, each)}" for name, each in (("A", found.then), ("B", found.now))]
    yield element("p", "; ".join(sides), class_="soft")
    yield element("p", element("code", found.now.key.cell), f" {found.now.key.metric.replace('_', ' ')}", class_="soft")


def _changes(found: Difference) -> str:
    """Return the changes of both sessions: `+2.0 % → +25.0 %`."""
    return " → ".join(
        "none" if each.change is None else f"{percent_text(found.show(each.change))} {found.unit}".rstrip()
        for each in (found.then, found.now)
    )


def _values(found: Difference, entry: HistoryEntry) -> str:
    """Return the means of the reference and of the arm: `50.3 → 61.4 ms`."""
    values = (entry.reference_value, entry.test_value)
    if found.metric is None:
        return " → ".join(f"{value:.4g}" for value in values)
    unit = unit_of(found.metric, values)
    return f"{' → '.join(unit.text(value) for value in values)} {unit.name}".rstrip()


def _limit(found: Difference) -> float | None:
    """Return the margin as a change for the worse, in the unit of the change."""
    if found.metric is None or math.isnan(found.margin_fraction):
        return None
    size = slowdown_size(found.margin_fraction, found.metric.direction, found.metric.scale)
    return found.show(size if found.metric.direction == "lower_is_better" else -size)


def _units(differences: Iterable[Difference]) -> Iterator[str]:
    return (each.unit for each in differences if each.change is not None)


def _axis(differences: Sequence[Difference]) -> Axis:
    judged = [each for each in differences if each.change is not None]
    changes = [each.show(each.change.estimate) for each in judged if each.change]
    ends = [each.show(end) for each in judged for end in (each.low, each.high)]
    return axis_over(changes, ends, (limit for each in judged if (limit := _limit(each)) is not None))


def _size(found: Difference) -> float:
    return abs(found.change.estimate) if found.change else 0.0


def _protocol(found: Difference) -> str:
    protocol = _parts(found.now.key)[0]
    return PROTOCOLS[protocol].title if protocol in PROTOCOLS else OTHER


def _arm(found: Difference) -> str:
    protocol, arm, _ = _parts(found.now.key)
    return OTHER if protocol == OTHER else Arm.parse(arm).title


def _parts(key: HistoryKey) -> tuple[str, str, str]:
    """Return protocol, arm and levels of a cell, from its text; `other` for the protocol if it has another form."""
    match = re.fullmatch(r"[^-]+-([a-z_]+)-(.+)-(ipv[46](?:-.*)?)", key.cell)
    if match is None or match[1] not in PROTOCOLS:
        return OTHER, "", ""
    return match[1], match[3], match[2]
