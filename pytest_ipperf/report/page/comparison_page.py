"""Lay out the page of two sessions side by side: the cells that moved first, as `pytest-ipperf compare` judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.records.comparison import Comparison, Difference
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.report.answer.words import day_text, unbroken
from pytest_ipperf.report.page.cells.moved import (
    BETTER,
    difference_text,
    moved_list,
    name_of,
    ordered,
    word_of,
)
from pytest_ipperf.report.page.head.banner import banner
from pytest_ipperf.report.page.html.badges import PLAIN, verdict_class
from pytest_ipperf.report.page.html.markup import (
    NOTHING,
    Markup,
    bullets,
    element,
    folded,
    html_file,
    joined,
)
from pytest_ipperf.report.terminal.comparison import counts_text, lines

_METHOD = (
    "The change of a cell is that of its arm against its reference, in the same blocks; what slows down both arms "
    "cancels. The difference of two changes has a 95 % interval (thin line) by Welch and Satterthwaite over the "
    "epochs of both sessions, and is judged by its one-sided 95 % bounds (thick bar, figures in brackets) against the "
    "margin (grey). The interval does not contain the variation from night to night, which pytest-ipperf night "
    "estimates from many nights."
)


def comparison_page(found: Comparison, then: str, now: str, banners: Mapping[str, str]) -> str:
    """Return the page of the comparison of session `now` with session `then`; it loads and runs nothing.

    `banners` are the lines about sessions that are not whole, by their names.
    """
    cells = moved_list(found.differences)
    class_, word, sentence = _answer(found)
    when = tuple(f" ({day_text(each.began_at)})" for pair in found.differences[:1] for each in (pair.then, pair.now))
    began, began_later = when or ("", "")
    of = element("p", "A is session ", element("b", then), began, ", B is session ", element("b", now), began_later,
                 ".", class_="soft")  # fmt: skip
    counts = element("p", f"{counts_text(found)}.") if found.cells else NOTHING
    notes = [element("p", f"Session {name}: {text}", class_="warning") for name, text in banners.items() if text]
    sections = (
        element("h2", "Cells of both sessions, those that moved first"),
        cells.html if found.differences else element("p", "The two sessions have no cell in common."),
        _only(found.only_then, f"Only in {then}"),
        _only(found.only_now, f"Only in {now}"),
        folded("As text", _text("\n".join(lines(found, then, now, everything=True)))),
        folded("Method", element("p", _METHOD)),
    )
    body = (
        element("header", element("p", "pytest-ipperf compare", class_="kicker"), *notes,
                banner(class_, word, sentence, of, counts)),
        element("main", element("section", *sections, id="cells")),
    )  # fmt: skip
    return html_file(f"{sentence} - {now} compared with {then}", joined(body, "\n"), style=cells.rules)


def _answer(found: Comparison) -> tuple[str, str, str]:
    """Return class and word of the banner, and its sentence."""
    order = ordered(found.cells)
    counts = Counter(map(word_of, order))
    worse, common = counts[Verdict.EXCEEDS.value], f"{len(order)} cell{'s' * (len(order) != 1)} that both sessions have"
    decided = worse + counts[BETTER] + counts[Verdict.WITHIN.value]
    left = f"; {len(order) - decided} without an answer" if len(order) > decided else ""
    if worse:
        return (
            verdict_class("exceeds"),
            "worse",
            f"B is worse than A in {worse} of {common}: {_named(order[:worse])}{left}.",
        )
    if not decided:
        nothing = (
            f"It is inconclusive whether B is worse than A in the {common}."
            if order
            else "There is nothing to compare."
        )
        return verdict_class("inconclusive") if order else PLAIN, "inconclusive" if order else "no answer", nothing
    better = f", and better in {counts[BETTER]}" if counts[BETTER] else ""
    class_ = verdict_class("inconclusive" if left else "within")
    return (
        class_,
        "inconclusive" if left else "not worse",
        f"B is not worse than A in {decided} of {common}{better}{left}.",
    )


def _named(worse: Iterable[Difference]) -> str:
    """Return the worst cell with its difference, and the number of the others."""
    first, *others = worse
    more = f", and {len(others)} other{'s' * (len(others) > 1)}" if others else ""
    return unbroken(f"{name_of(first.now.key)}: {difference_text(first)}, allowed {first.margin}{more}")


def _text(text: str) -> Markup:
    """Return text as it is, which the keyboard scrolls where it is wide."""
    return element("pre", text, role="group", aria_label="As text", tabindex="0")


def _only(keys: Iterable[HistoryKey], title: str) -> Markup:
    names = [f"{key}" for key in keys]
    return folded(f"{title}: {len(names)}", bullets(names)) if names else NOTHING
