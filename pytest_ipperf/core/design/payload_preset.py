"""Presets of payloads: the sizes that a study measured, under one name that markers and `--payload` take as a level."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_bytes

PRESETS: Mapping[str, tuple[int, ...]] = {
    # Paper 004, section 4: from 32 to 1408 bytes, which fit a packet on Ethernet, and from 1536 to 65496, which do not.
    # Its text names all of them that are no multiples of 128 up to 640 or 1024, nor 16384, which its steps include.
    "kharche": (32, *range(128, 2049, 128), 4096, 8192, 16384, 32768, 65496),
}
"""Sizes in bytes by the name of their preset."""


def expanded(level: object) -> tuple[object, ...]:
    """Return the sizes of a preset; any other level alone."""
    return PRESETS.get(str(level), (level,))


def parse_payload(text: str | int) -> tuple[int, ...]:
    """Return the sizes in bytes of a preset, or of a text such as `64k`; raise UsageError for any other text."""
    try:
        return PRESETS.get(str(text)) or (parse_bytes(text),)
    except UsageError as error:
        if not str(text).isalpha():
            raise
        raise UsageError(
            f"{error}, and no preset of sizes such as {', '.join(PRESETS)}{did_you_mean(str(text), PRESETS)}"
        ) from None
