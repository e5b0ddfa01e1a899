"""Colours of the grades, with legible text colours."""

from __future__ import annotations

from collections.abc import Mapping

COLOURS: Mapping[str, tuple[str, str]] = {
    "dark green": ("#0b5d2a", "#ffffff"),
    "green": ("#4cb866", "#0b0b0b"),
    "yellow": ("#f2cb3c", "#0b0b0b"),
    "red": ("#c9302c", "#ffffff"),
    "dark red": ("#6d0c12", "#ffffff"),
}
"""Background and text colour by the study's word for the colour, with a contrast of at least 4.5 (WCAG 2)."""


def class_of(colour: str) -> str:
    """Return the CSS class of a grade's colour."""
    return colour.replace(" ", "-")
