"""Lay out the page of two sessions side by side: the cells that moved first, as `pytest-ipperf compare` judges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.records.comparison import Comparison, Difference
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.page.html.badges import badge, verdict_class
from pytest_ipperf.report.page.html.markup import (
    NOTHING,
    Markup,
    boxed,
    bullets,
    caption,
    element,
    folded,
    html_file,
    joined,
)
from pytest_ipperf.report.terminal.comparison import counts_text, lines, sentence

_ORDER = (Verdict.EXCEEDS, "better", Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.WITHIN, Verdict.UNJUDGED, None)
"""Order of the rows: worse cells, better ones, undecided ones, then those that have not moved."""
_METHOD = (
    "The change of a cell is that of its arm against its reference, in the same blocks; what slows down both arms of a "
    "session cancels. The difference of two changes has a 95 % interval by Welch and Satterthwaite over the epochs of "
    "both sessions, and is judged by its one-sided 95 % bounds against the margin. The interval does not contain the "
    "variation from night to night, which pytest-ipperf night estimates from many nights."
)


def comparison_page(found: Comparison, then: str, now: str, banners: Mapping[str, str]) -> str:
    """Return the page of the comparison of session `now` with session `then`; it loads and runs nothing.

    `banners` are the lines about sessions that are not whole, by their names.
    """
    title = f"Session {now} compared with {then}"
    notes = [f"session {name}: {banner}" for name, banner in banners.items() if banner]
    body = (
        element(
            "header",
            element("h1", title),
            element("p", f"{counts_text(found)}."),
            bullets(notes) if notes else NOTHING,
        ),
        element(
            "main",
            _table(found, then, now),
            _only(found.only_then, f"Only in {then}"),
            _only(found.only_now, f"Only in {now}"),
            folded("As text", element("pre", "\n".join(lines(found, then, now, everything=True)))),
            folded("Method", element("p", _METHOD)),
        ),
    )
    return html_file(title, joined(body, "\n"))


def ordered(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences in the order of the page: within a kind, the largest first."""
    return sorted(differences, key=lambda each: (_ORDER.index(_kind(each)), -_size(each)))


def _kind(found: Difference) -> Verdict | str | None:
    return "better" if found.better else found.verdict


def _size(found: Difference) -> float:
    return abs(found.change.estimate) if found.change else 0.0


def _table(found: Comparison, then: str, now: str) -> Markup:
    """Return the table with a row for each cell that both sessions have."""
    if not found.differences:
        return element("p", "The two sessions have no cell in common.")
    heads = ("verdict", "cell", "difference", "margin", "A", "A: change", "B", "B: change")
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    rows = [_row(each) for each in ordered(found.differences)]
    label = f"Cells, those that moved first; A is session {then}, B is session {now}"
    return boxed(label, element("table", caption(label), element("thead", head), element("tbody", *rows)))


def _row(found: Difference) -> Markup:
    verdict = "better" if found.better else found.verdict.value if found.verdict else "not comparable"
    kind = found.verdict.name.lower() if found.verdict else Verdict.UNJUDGED.name.lower()
    sides = [text for each in (found.then, found.now) for text in (_values(found, each), _change(found, each))]
    return element(
        "tr",
        element("td", badge(verdict, verdict_class(kind))),
        element("th", f"{found.now.key}", scope="row", title=sentence(found)),
        *(element("td", text) for text in (_difference(found), found.margin, *sides)),
    )


def _values(found: Difference, entry: HistoryEntry) -> str:
    """Return the means of the reference and of the arm: `50.3 -> 61.4 ms`."""
    values = (entry.reference_value, entry.test_value)
    if found.metric is None:
        return " -> ".join(f"{value:.4g}" for value in values)
    unit = unit_of(found.metric, values)
    return f"{' -> '.join(unit.text(value) for value in values)} {unit.name}".rstrip()


def _change(found: Difference, entry: HistoryEntry) -> str:
    return "" if entry.change is None else f"{percent_text(found.show(entry.change))} {found.unit}"


def _difference(found: Difference) -> str:
    if found.change is None:
        return found.why
    shown = found.change.mapped(found.show)
    return f"{percent_text(shown.estimate)} {found.unit} [{percent_text(shown.low)}, {percent_text(shown.high)}]"


def _only(keys: Iterable[HistoryKey], title: str) -> Markup:
    names = [f"{key}" for key in keys]
    return folded(f"{title}: {len(names)}", bullets(names)) if names else NOTHING
