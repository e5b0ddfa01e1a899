"""Colour, marker and dashes of arms in the page's plots; each of the three differs, so plots are readable in grey."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.report.page.html.markup import Markup, element, joined
from pytest_ipperf.report.tables.arm_rows import arm_rank

_KNOWN = {Arm(4, "native"): 0, Arm(6, "native"): 1, Arm(6, "isatap"): 2, Arm(6, "tunnel"): 3}
_MARKERS = (
    '<circle r="3.6"/>',
    '<path d="M-3.3-3.3h6.6v6.6h-6.6z"/>',
    '<path d="M0-4.3L4 3.1H-4z"/>',
    '<path d="M0-4.6L4.6 0 0 4.6-4.6 0z"/>',
    '<path d="M-3.4-3.4L3.4 3.4M3.4-3.4L-3.4 3.4" stroke="currentColor" stroke-width="1.8"/>',
    '<path d="M0-4.2L4.2 3.2H-4.2z" transform="rotate(180)"/>',
    '<path d="M-4-1.3h2.7V-4h2.6v2.7H4v2.6H1.3V4h-2.6V1.3H-4z"/>',
    '<path d="M-4.2-2h8.4v4h-8.4z"/>',
)
"""Markers around the origin, by the number of the style; the style sheet has a colour and dashes for each."""


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """Style of an arm: its class `name` in the style sheet, and the id of its `marker`."""

    number: int

    @property
    def name(self) -> str:
        """Class that sets the colour, and the dashes of lines."""
        return f"arm{self.number}"

    @property
    def marker(self) -> str:
        """Id of the marker's symbol."""
        return f"marker{self.number}"


def styles_of(arms: Iterable[Arm]) -> Mapping[Arm, ArmStyle]:
    """Return a style for each arm: its own for those of the studies, the next free one for others."""
    ordered = sorted(set(arms), key=arm_rank)
    found = {arm: _KNOWN[arm] for arm in ordered if arm in _KNOWN}
    free = [number for number in (4, 5, 6, 7, 0, 1, 2, 3) if number not in found.values()]
    others = [arm for arm in ordered if arm not in _KNOWN]
    if not found:
        free.sort()
    for place, arm in enumerate(others):
        found[arm] = free[place % len(free)]
    return {arm: ArmStyle(found[arm]) for arm in ordered}


def markers() -> Markup:
    """Return the definitions of all markers, once for a page."""
    symbols = joined(Markup(f'<g id="{ArmStyle(number).marker}">{drawn}</g>') for number, drawn in enumerate(_MARKERS))
    return Markup(f'<svg class="unseen" width="0" height="0" aria-hidden="true"><defs>{symbols}</defs></svg>')


def sample(style: ArmStyle) -> Markup:
    """Return a sample of a curve for a key: its line with the marker."""
    return Markup(
        f'<svg class="sample {style.name}" viewBox="0 0 36 12" aria-hidden="true"><path class="ln" d="M1 6H35"/>'
        f'<use href="#{style.marker}" x="18" y="6"/></svg>'
    )


def key(styles: Mapping[Arm, ArmStyle]) -> Markup:
    """Return the key of a plot."""
    if not styles:
        return Markup("")
    return element("ul", *(element("li", sample(style), arm.title) for arm, style in styles.items()), class_="keys")
