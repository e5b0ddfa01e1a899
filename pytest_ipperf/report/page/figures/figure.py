"""A figure of the page: a plot with its key, a caption, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.report.page.markup import Markup, boxed, caption, element
from pytest_ipperf.report.plot_style import Style, inline

_DASHES = {"--": "6 3", "-.": "6 3 1.5 3", ":": "1.5 3"}
_MARKERS = {
    "o": '<circle cx="18" cy="6" r="3.2"/>',
    "s": '<path d="M15 3h6v6h-6z"/>',
    "^": '<path d="M18 2.4l3.6 6.4h-7.2z"/>',
    "D": '<path d="M18 2l4 4-4 4-4-4z"/>',
}
_CROSS = '<path d="M15 3l6 6M21 3l-6 6"/>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure; `keys` are the styles of curves by their text, `rows` the numbers, each row with its title first."""

    name: str
    title: str
    svg: str
    keys: Mapping[str, Style]
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> Markup:
        """Return the figure as HTML; ids in it begin with `name`."""
        keys = [element("li", _sample(style), text) for text, style in self.keys.items()]
        drawn = Markup(inline(self.svg, f"{self.name}-", f"{self.title}. {self.caption}"))
        return element(
            "figure",
            element("h3", self.title),
            *([element("ul", *keys, class_="keys")] if keys else []),
            element("div", drawn, class_="drawn", role="region", aria_label=self.title, tabindex="0"),
            element("figcaption", self.caption),
            element("details", element("summary", "The figures as a table"), self._table()),
        )

    def _table(self) -> Markup:
        heads = [element("th", text, scope="col") for text in self.head]
        rows = [
            element("tr", element("th", first, scope="row"), *(element("td", text) for text in others))
            for first, *others in self.rows
        ]
        made = element("table", caption(self.title), element("thead", element("tr", *heads)), element("tbody", *rows))
        return boxed(f"{self.title}, as a table", made)


def _sample(style: Style) -> Markup:
    """Return a sample of a curve for the key."""
    colour, marker, line = style
    dashes = f' stroke-dasharray="{_DASHES[line]}"' if line in _DASHES else ""
    drawn = f'<path d="M1 6H35"{dashes}/>' if line not in ("", "none") else ""
    return Markup(
        f'<svg class="sample" viewBox="0 0 36 12" aria-hidden="true" stroke="{colour}" fill="{colour}">'
        f"{drawn}{_MARKERS.get(marker, _CROSS)}</svg>"
    )
