"""Read the page of the simulations, report the figures of a long one and compare them with the page's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "simulations.md"


def rows_between(start: str, end: str = "") -> dict[str, dict[str, str]]:
    """Return the rows of a part of the page by simulation, each by its column; "" is the page's beginning or end."""
    text = PAGE.read_text(encoding="utf-8")
    text = text[text.index(start) : text.index(end) if end else len(text)]
    found: dict[str, dict[str, str]] = {}
    header: Sequence[str] = ()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "simulation":
            header = cells
        elif line.startswith("| `"):
            found[cells[0].strip("`")] = dict(zip(header, cells, strict=True))
    return found


def held_to_the_page(
    capsys: pytest.CaptureFixture[str],
    name: str,
    target: str,
    outside: tuple[Mapping[str, float], Collection[object]],
    row: Mapping[str, str],
) -> None:
    """Print the figures; fail if one is outside its target, or the page's row shows other figures."""
    found, wrong = outside
    figures = ", ".join(f"{label} {mean:.2f}" for label, mean in found.items())
    with capsys.disabled():
        print(f"\n{name} ({target}): {figures}", end=" ")  # noqa: T201 - the figures are the point
    assert not wrong, target
    # The same seed gives the same figures, but for a case in thousands on a machine that rounds otherwise.
    shown = {label: float(row[label].removesuffix(" %")) for label in found}
    assert shown == pytest.approx(found, abs=0.05), "docs/simulations.md shows other figures"
