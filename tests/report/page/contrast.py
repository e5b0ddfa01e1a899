"""Contrast ratio of text and background (WCAG 2.1, relative luminance)."""

from __future__ import annotations


def contrast(one: str, other: str) -> float:
    """Return the ratio of two colours such as `#1b8a5a`, from 1 to 21; text needs 4.5."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
