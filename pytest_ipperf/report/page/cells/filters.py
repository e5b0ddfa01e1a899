"""Filter the list of cells without a script: check boxes, and style rules that hide the rows of unchecked ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_ipperf.report.page.html.markup import NOTHING, Markup, element

OTHER = "other"
"""Value of cells that were not measured, which stands last."""
_FEWEST, _MOST = 2, 40
"""Numbers of values between which a group of boxes is shown."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A group of check boxes: its title, the prefix of its classes, and its values in order."""

    title: str
    prefix: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, title: str, prefix: str, values: Iterable[str]) -> Filter:
        """Return the filter of the values that occur; of one value there is nothing to choose."""
        found = tuple(sorted(dict.fromkeys(values), key=OTHER.__eq__))
        return cls(title, prefix, found if _FEWEST <= len(found) <= _MOST else ())

    def name(self, value: str) -> str:
        """Return the class of rows with this value; empty if there is nothing to choose."""
        return f"{self.prefix}{self.values.index(value)}" if value in self.values else ""

    def html(self) -> Markup:
        """Return the check boxes, all checked at first."""
        if not self.values:
            return NOTHING
        boxes = [
            element("label", Markup(f'<input type="checkbox" id="{self._id(value)}" checked>'), f" {value}")
            for value in self.values
        ]
        return element("fieldset", element("legend", self.title), *boxes)

    def rules(self) -> str:
        """Return the style rules that hide what is not checked; text of a record is no part of them."""
        return "".join(
            f"#cells:has(#{self._id(value)}:not(:checked)) .{self.name(value)} {{ display: none; }}\n"
            for value in self.values
        )

    def _id(self, value: str) -> str:
        return f"show-{self.name(value)}"


def filters_html(filters: Sequence[Filter]) -> Markup:
    """Return all filters; nothing if none has a choice."""
    shown = [each.html() for each in filters if each.values]
    return element("div", *shown, class_="filters", role="group", aria_label="Filter cells") if shown else NOTHING
