"""Style of all plots: curves that differ also in grey, settings of matplotlib, SVG within a page.

matplotlib is imported only where something is drawn.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.report.flow.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Style = tuple[str, str, str]
"""Colour, marker and line of a curve."""
INK, PAPER = "#111111", "#ffffff"
"""Colours of everything except curves; a page replaces them by its own."""
STYLES: Mapping[Arm, Style] = {
    Arm(4, "native"): ("#2f6fd0", "o", "-"),
    Arm(6, "native"): ("#c2560c", "s", "--"),
    Arm(6, "isatap"): ("#1b8a5a", "^", "-."),
    Arm(6, "tunnel"): ("#8b4fc0", "D", ":"),
}
"""Colour, marker and line of each arm; each of the three differs, so that plots can be read in grey."""
OTHER: Style = ("#6b6b6b", "x", "-")


_JOINED = 'stroke-linejoin="round" stroke-linecap="butt"'
"""Ends of lines, which matplotlib sets for all elements by a style element."""
_FONT = re.compile(r"(?P<size>[\d.]+px) (?P<family>.+)")
"""Value of CSS' short form `font`, as older releases of matplotlib write it."""
_WIDE = 8
"""Ratio of the largest to the smallest size from which sizes are placed by their logarithm."""
_ASIDE = 0.005
"""Offset of the outermost arms' dots from their level, as a share of the axis; small enough to read the level."""


def style_of(arm: Arm) -> Style:
    """Return how an arm's curves are drawn."""
    return STYLES.get(arm, OTHER)


@contextmanager
def settings(salt: str, **more: Any) -> Iterator[None]:
    """Apply the settings of matplotlib within the context; the same `salt` and figures give the same file."""
    import matplotlib as mpl  # noqa: PLC0415 - see above

    chosen: Any = {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": salt.encode("ascii", "backslashreplace").decode(),  # a lone surrogate cannot be hashed
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
        "font.family": "DejaVu Sans",  # included in matplotlib
        "text.parse_math": False,  # text from a record is not a formula
        **more,
    }
    with mpl.rc_context(chosen):
        yield


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG, without the date and the program."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return written.getvalue()


def inline(svg: str, prefix: str, title: str) -> str:
    """Return an SVG to embed in a page, with the page's colours and unique ids, and without styles of its own.

    A page's policy forbids `style` attributes, so they become SVG's presentation attributes.
    """
    inner = svg[svg.index("<svg") :]
    inner = re.sub(r"<style.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r'(<[a-z][^<>]*?) style="([^"]*)"', _presentation, inner)
    inner = re.sub(r' xmlns(:xlink)?="[^"]*"', "", inner)
    inner = re.sub(r'\bid="', f'id="{prefix}', inner)
    inner = re.sub(r'href="#', f'href="#{prefix}', inner)
    inner = re.sub(r"url\(#", f"url(#{prefix}", inner)
    inner = inner.replace(INK, "currentColor").replace(PAPER, "none")
    inner = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", inner, count=1)
    return inner.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" {_JOINED}', 1).strip()


def _presentation(found: re.Match[str]) -> str:
    """Return a tag with the declarations of its style as attributes; `font` is none, so it becomes size and family."""
    declarations = (each.partition(":") for each in found[2].split(";") if each.strip())
    shown = {name.strip(): value.strip() for name, _, value in declarations}
    if font := _FONT.fullmatch(shown.pop("font", "")):
        shown |= {"font-size": font["size"], "font-family": font["family"]}
    return found[1] + "".join(f' {name}="{value}"' for name, value in shown.items())


def is_spread(values: Sequence[Value], *, sizes: bool) -> bool:
    """Return whether levels that are `sizes` span so wide a range that they are placed by their logarithm."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    return sizes and len(numbers) > 1 and max(numbers) >= _WIDE * min(numbers)


def places(values: Sequence[Value], *, sizes: bool) -> list[float]:
    """Return the positions of levels: of numbers their value or, for wide `sizes`, the logarithm; words follow."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    found = [math.log2(value) if is_spread(values, sizes=sizes) else value for value in numbers]
    step = (found[-1] - found[0]) / (len(found) - 1) if len(found) > 1 else 1.0
    last = found[-1] if found else 0.0
    return found + [last + step * number for number in range(1, len(values) - len(numbers) + 1)]


def shifts(where: Sequence[float], arms: int) -> list[float]:
    """Return the offset of each arm's dots from their levels, which keeps equal bars visible."""
    most = _ASIDE * (max(where) - min(where))
    return [most * (2 * number / (arms - 1) - 1) if arms > 1 else 0.0 for number in range(arms)]


def ticks(sweep: Sweep) -> list[str]:
    """Return the tick labels of a sweep."""
    if sweep.dimension.unit != "bit/s":
        return sweep.texts
    return [value if isinstance(value, str) else f"{value / 1e6:g}" for value in sweep.values]


def axis(sweep: Sweep) -> str:
    """Return the label of a sweep's axis, with its unit."""
    unit = {"bytes": " in bytes (1k = 1024)", "bit/s": " in Mbit/s of payload"}.get(sweep.dimension.unit, "")
    return f"{sweep.dimension.title}{unit}"
