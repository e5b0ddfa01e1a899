"""A figure of the page: one or more plots with their key, a caption, and the numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, folded
from pytest_ipperf.report.plot_style import inline


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure; `rows` are its numbers, each row with its title first, and `key` that of its curves.

    Plots of a `pair` stand side by side where there is room.
    """

    title: str
    plots: Sequence[Markup]
    caption: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    key: Markup = NOTHING
    pair: bool = False

    def html(self, *, level: int = 3) -> Markup:
        """Return the figure as HTML, with a heading of this level."""
        numbers = [folded("The figures as a table", self._table())] if self.rows else []
        name = {"class_": "double"} if self.pair else {}
        return element(
            "figure",
            element(f"h{level}", self.title),
            self.key,
            *([element("div", *self.plots, class_="pair")] if self.pair else self.plots),
            element("figcaption", self.caption),
            *numbers,
            **name,
        )

    def _table(self) -> Markup:
        heads = [element("th", text, scope="col") for text in self.head]
        rows = [
            element("tr", element("th", first, scope="row"), *(element("td", text) for text in others))
            for first, *others in self.rows
        ]
        made = element("table", caption(self.title), element("thead", element("tr", *heads)), element("tbody", *rows))
        return boxed(f"{self.title}, as a table", made)


def imported(svg: str, prefix: str, title: str) -> Markup:
    """Return a plot of matplotlib, as the studies draw it; ids in it begin with `prefix`."""
    drawn = Markup(inline(svg, prefix, title))
    return element("div", drawn, class_="drawn", role="group", aria_label=title, tabindex="0")
