"""Draw plots that fit any width: places in percent, so that one drawing serves screen, phone and paper.

Lines lie in a box that is stretched, with strokes of constant width; markers and labels keep their shape. Colours are
those of the style sheet, which has palettes for light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pytest_ipperf.report.page.figures.arm_styles import ArmStyle
from pytest_ipperf.report.page.figures.axis import Axis
from pytest_ipperf.report.page.html.markup import Markup

Point = tuple[float, float]
_FINE = 1000
"""Size of the box in which lines are drawn."""
_SPARSE = 90
"""Number of points above which dots have no shapes of their own."""


class Plot:
    """A plot in the making: draw into it, then take its `html`."""

    def __init__(self, x: Axis, y: Axis, *, x_title: str = "", y_title: str = "", height: str = "middle") -> None:
        self._x, self._y = x, y
        self._x_title, self._y_title, self._height = x_title, y_title, height
        self._behind: list[str] = []
        self._lines: list[str] = []
        self._front: list[str] = []

    def line(self, points: Sequence[Point], name: str, *, steps: bool = False) -> None:
        """Draw a line through points; with `steps` it keeps each value until the next place."""
        if len(points) < 2:
            return
        shown = [(self._fine(self._x, x), _FINE - self._fine(self._y, y)) for x, y in points]
        path, (x0, y0) = [f"M{shown[0][0]} {shown[0][1]}"], shown[0]
        for x, y in shown[1:]:
            if (x, y) == (x0, y0):
                continue
            path.append(f"H{x}V{y}" if steps else f"L{x} {y}")
            x0, y0 = x, y
        self._lines.append(f'<path class="ln {name}" d="{"".join(path)}"/>')

    def area(self, lower: Sequence[Point], upper: Sequence[Point], name: str) -> None:
        """Fill the area between two lines."""
        edge = [*lower, *reversed(upper)]
        shown = [f"{self._fine(self._x, x)} {_FINE - self._fine(self._y, y)}" for x, y in edge]
        self._lines.insert(0, f'<path class="{name}" d="M{"L".join(shown)}Z"/>')

    def dots(self, points: Iterable[Point], style: ArmStyle, more: str = "") -> None:
        """Draw a marker at each point."""
        uses = [f'<use href="#{style.marker}" x="{self._px(x)}" y="{self._py(y)}"/>' for x, y in points]
        name = f"{style.name} dots{' many' if len(uses) > _SPARSE else ''}{f' {more}' if more else ''}"
        self._front.append(f'<g class="{name}">{"".join(uses)}</g>')

    def ring(self, point: Point) -> None:
        """Draw a ring around a point."""
        self._front.append(f'<circle class="ring" cx="{self._px(point[0])}" cy="{self._py(point[1])}" r="7"/>')

    def upright(self, x: float, low: float, high: float, name: str) -> None:
        """Draw an upright bar, such as an interval."""
        place = self._px(x)
        self._behind.append(
            f'<line class="{name}" x1="{place}" x2="{place}" y1="{self._inside(low)}" y2="{self._inside(high)}"/>'
        )

    def across(self, y: float, name: str) -> None:
        """Draw a level line over the whole width."""
        place = self._py(y)
        self._behind.append(f'<line class="{name}" x1="0" x2="100%" y1="{place}" y2="{place}"/>')

    def mark(self, x: float, name: str, text: str = "") -> None:
        """Draw an upright line over the whole height, with a text at its top."""
        place = self._px(x)
        self._behind.append(f'<line class="{name}" x1="{place}" x2="{place}" y1="0" y2="100%"/>')
        if text:
            self._front.append(f'<text class="note" x="{place}" dx="4" y="11">{escape(text)}</text>')

    def band(self, low: float, high: float, name: str) -> None:
        """Fill the width between two values of the y axis."""
        top, bottom = 100 - self._y.at(high), 100 - self._y.at(low)
        self._behind.insert(
            0, f'<rect class="{name}" x="0" width="100%" y="{_percent(top)}" height="{_percent(bottom - top)}"/>'
        )

    def html(self, label: str) -> Markup:
        """Return the plot; `label` describes it for those who do not see it."""
        x_ticks = "".join(_x_label(self._x.at(value), text) for value, text in self._x.ticks)
        y_ticks = "".join(
            f'<text x="100%" y="{self._py(value)}" dy=".35em">{escape(text)}</text>' for value, text in self._y.ticks
        )
        grid = "".join(
            f'<path class="grid" d="M0 {_FINE - self._fine(self._y, value)}h{_FINE}"/>' for value, _ in self._y.ticks
        )
        grid += "".join(
            f'<path class="grid" d="M{self._fine(self._x, value)} 0v{_FINE}"/>' for value, _ in self._x.ticks
        )
        box = f'<svg class="box" viewBox="0 0 {_FINE} {_FINE}" preserveAspectRatio="none" width="100%" height="100%">'
        y_title = f'<div class="ytitle">{escape(self._y_title)}</div>' if self._y_title else ""
        x_title = f'<div class="xtitle">{escape(self._x_title)}</div>' if self._x_title else ""
        return Markup(
            f'<div class="plot {self._height}" role="img" aria-label="{escape(label)}">{y_title}'
            f'<svg class="yticks">{y_ticks}</svg>'
            f'<svg class="area">{box}{grid}</svg>{"".join(self._behind)}'
            f"{box}{''.join(self._lines)}</svg>{''.join(self._front)}</svg>"
            f'<svg class="xticks">{x_ticks}</svg>{x_title}</div>'
        )

    def _px(self, x: float) -> str:
        return _percent(self._x.at(x))

    def _py(self, y: float) -> str:
        return _percent(100 - self._y.at(y))

    def _inside(self, y: float) -> str:
        return _percent(min(max(100 - self._y.at(y), 0), 100))

    @staticmethod
    def _fine(axis: Axis, value: float) -> int:
        return round(axis.at(value) * _FINE / 100)


def _percent(value: float) -> str:
    return f"{value:.1f}%".replace(".0%", "%")


def _x_label(at: float, text: str) -> str:
    anchor = "start" if at < 4 else "end" if at > 96 else "middle"
    return f'<text x="{_percent(at)}" y="12" text-anchor="{anchor}">{escape(text)}</text>'
