"""Report the figures of a long simulation and compare them with those of its page."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest


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
