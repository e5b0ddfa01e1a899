"""Figures that the file-transfer study prints (paper 003, Tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Printed(NamedTuple):
    """Two figures of an IP version: average and maximum in Mbit/s (Table 2), jitter in ms and loss in % (Table 3)."""

    first: str
    second: str


TABLE_2: Mapping[tuple[int, int], Printed] = {
    (size, ipver): Printed(*pair)
    for size, pairs in {
        100: (("96.0", "97.4"), ("95.8", "96.7")),
        200: (("96.5", "97.7"), ("96.0", "97.7")),
        300: (("96.8", "98.1"), ("96.3", "98.0")),
        400: (("97.8", "98.2"), ("97.8", "98.2")),
        500: (("97.9", "98.2"), ("97.9", "98.2")),
        600: (("98.0", "98.4"), ("98.0", "98.4")),
        700: (("98.1", "98.4"), ("98.0", "98.4")),
        800: (("98.1", "98.4"), ("98.1", "98.4")),
        900: (("98.2", "98.4"), ("98.1", "98.4")),
        1000: (("98.2", "98.4"), ("98.3", "98.5")),
    }.items()
    for ipver, pair in zip((4, 6), pairs, strict=True)
}
"""Average and maximum throughput by size of the file in MB and IP version."""

TABLE_3: Mapping[tuple[int, int], Printed] = {
    (rate, ipver): Printed(*pair)
    for rate, pairs in {
        10: (("0.000", "0.003"), ("0.000", "0.230")),
        20: (("0.000", "0.009"), ("0.073", "0.130")),
        30: (("0.000", "0.000"), ("0.000", "0.140")),
        40: (("0.000", "0.001"), ("0.043", "0.230")),
        50: (("0.000", "0.006"), ("0.000", "0.062")),
    }.items()
    for ipver, pair in zip((4, 6), pairs, strict=True)
}
"""Jitter and loss by rate in Mbit/s and IP version."""
