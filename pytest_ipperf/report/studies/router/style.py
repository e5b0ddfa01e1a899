"""The colours of the grades, with texts that can be read on them."""

from __future__ import annotations

from collections.abc import Mapping

COLOURS: Mapping[str, tuple[str, str]] = {
    "dark green": ("#0b5d2a", "#ffffff"),
    "green": ("#4cb866", "#0b0b0b"),
    "yellow": ("#f2cb3c", "#0b0b0b"),
    "red": ("#c9302c", "#ffffff"),
    "dark red": ("#6d0c12", "#ffffff"),
}
"""By the study's word for a colour the ground's and the text's, with a contrast of 4.5 at least (WCAG 2)."""


def class_of(colour: str) -> str:
    """The class of what has a grade's colour."""
    return colour.replace(" ", "-")
