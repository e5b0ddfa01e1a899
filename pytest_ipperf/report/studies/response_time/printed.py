"""The figures that paper 000 printed, shown beside ours.

Source: S. Ghazzawi and C. Lee (The MITRE Corporation), "Application Response Times for Internet Protocol Version 4
(IPv4) versus Internet Protocol Version 6 (IPv6)", Tables 3-1 to 3-8 and 6-1. Times are in milliseconds, as printed.
`DOUBTS` lists those that contradict others, and how. The study has no figures for 5000 connections or for ISATAP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm

TABLES = {"http": ("3-1", "3-2"), "ftp": ("3-3", "3-4"), "smtp": ("3-5", "3-6"), "imap": ("3-7", "3-8")}
"""Numbers of each protocol's tables of averages and of increases."""
DIFFERENCES = "6-1"
REFERENCE, _IPV6, _TUNNEL = Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel")
"""The study's reference arm; the others are IPv6 and IPv6 through a configured tunnel."""
Place = tuple[str, Arm, int]
"""Protocol, arm and connections at once."""


@dataclass(frozen=True, slots=True)
class PrintedMean:
    """A cell of the tables of averages: the mean, and the interval that the study calls 95 %."""

    mean_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class PrintedIncrease:
    """A cell of the tables of increases, with the interval of Table 6-1, low to high."""

    increase_ms: float
    percent: float
    level: int
    low_ms: float
    high_ms: float


_HTTP, _FTP, _SMTP, _IMAP = (1, 10, 100, 500, 1000), (1, 10, 100), (1, 10, 100, 500), (1, 10, 100, 200)


def _means(
    protocol: str, arm: Arm, levels: Sequence[int], cells: Sequence[tuple[float, float, float]]
) -> dict[Place, PrintedMean]:
    return {(protocol, arm, level): PrintedMean(*cell) for level, cell in zip(levels, cells, strict=True)}


MEANS: Mapping[Place, PrintedMean] = {
    **_means("http", REFERENCE, _HTTP, [(6.7, 4.7, 8.6), (10.9, 9.8, 12.0), (84.8, 83.1, 86.6), (417.7, 409.0, 426.3),
                                     (813.1, 796.2, 830.1)]),
    **_means("http", _IPV6, _HTTP, [(5.8, 5.7, 5.9), (10.3, 9.0, 11.7), (87.8, 84.1, 91.2), (424.0, 416.8, 431.2),
                                     (816.8, 800.8, 832.8)]),
    **_means("http", _TUNNEL, _HTTP, [(8.7, 5.0, 12.4), (12.1, 10.6, 13.5), (93.5, 88.2, 98.7),
                                            (463.8, 453.9, 473.6), (916.0, 905.0, 927.0)]),
    **_means("ftp", REFERENCE, _FTP, [(107.9, 106.9, 108.9), (1404.8, 1253.5, 1556.0), (9468.9, 7644.7, 11293.0)]),
    **_means("ftp", _IPV6, _FTP, [(108.2, 107.6, 108.8), (1137.1, 982.5, 1291.7), (8229.8, 7234.2, 9225.4)]),
    **_means("ftp", _TUNNEL, _FTP, [(115.1, 107.2, 123.0), (1236.6, 1086.5, 1386.7), (8553.2, 7018.8, 10087.7)]),
    **_means("smtp", REFERENCE, _SMTP, [(104.8, 90.9, 118.7), (689.1, 562.8, 815.4), (9308.6, 8893.9, 9723.3),
                                     (27645.0, 24661.9, 30628.1)]),
    **_means("smtp", _IPV6, _SMTP, [(73.1, 61.0, 85.2), (716.2, 551.6, 880.8), (10823.9, 10604.1, 11043.6),
                                     (37430.9, 37240.8, 37621.0)]),
    **_means("smtp", _TUNNEL, _SMTP, [(80.2, 70.5, 89.8), (709.2, 553.0, 865.5), (11400.6, 11203.4, 11597.8),
                                            (37477.7, 5453.9, 136368.9)]),
    **_means("imap", REFERENCE, _IMAP, [(87.0, 76.3, 97.6), (322.3, 309.1, 335.5), (2276.5, 2080.2, 2472.7),
                                     (3835.2, 3566.4, 4104.1)]),
    **_means("imap", _IPV6, _IMAP, [(78.6, 77.8, 79.4), (331.8, 319.4, 344.2), (2195.6, 2185.4, 2205.8),
                                     (4211.6, 4193.3, 4229.9)]),
    **_means("imap", _TUNNEL, _IMAP, [(82.0, 81.3, 82.8), (344.2, 333.9, 354.4), (2264.2, 2231.7, 2296.7),
                                            (4338.3, 4181.6, 4495.0)]),
}  # fmt: skip


def _increases(
    protocol: str, arm: Arm, levels: Sequence[int], cells: Sequence[tuple[float, float, int, float, float]]
) -> dict[Place, PrintedIncrease]:
    return {(protocol, arm, level): PrintedIncrease(*cell) for level, cell in zip(levels, cells, strict=True)}


INCREASES: Mapping[Place, PrintedIncrease] = {
    **_increases("http", _IPV6, _HTTP, [(-0.9, -13.4, 80, -2.67, 0.93), (-0.6, -5.2, 73, -2.10, 0.96),
        (2.8, 3.3, 90, -0.81, 6.43), (6.3, 1.5, 85, -3.66, 16.32), (3.7, 0.4, 62, 16.94, 24.28)]),
    **_increases("http", _TUNNEL, _HTTP, [(2.0, 30.4, 82, -1.70, 5.78), (1.2, 10.7, 88, -0.47, 2.81),
        (8.6, 10.1, 99, 3.35, 13.71), (46.1, 11.0, 99, 34.55, 57.71), (102.9, 12.7, 99, 84.79, 120.95)]),
    **_increases("ftp", _IPV6, _FTP, [(0.3, 0.2, 66, -0.80, 1.30), (-267.7, -19.1, 98, -459.08, -76.30),
        (-1239.1, -13.1, 86, -3106.57, 628.45)]),
    **_increases("ftp", _TUNNEL, _FTP, [(7.1, 6.6, 94, -0.30, 14.58), (-168.2, -12.0, 93, -356.69, 20.37),
        (-915.6, -9.7, 76, -3031.3, 1200.06)]),
    **_increases("smtp", _IPV6, _SMTP, [(-31.8, -30.3, 99, -48.07, -15.47), (27.1, 3.9, 59, -156.99, 211.25),
        (1515.2, 16.3, 99, 1093.52, 1936.96), (9785.3, 35.4, 99, 6990.24, 12581.62)]),
    **_increases("smtp", _TUNNEL, _SMTP, [(-24.7, -23.6, 99, -39.74, -9.64), (20.1, 2.9, 57, -158.17, 198.45),
        (2092.0, 22.5, 99, 1677.09, 2506.87), (9832.7, 35.6, 99, 7035.30, 12630.12)]),
    **_increases("imap", _IPV6, _IMAP, [(-8.4, -9.7, 92, -18.32, 1.60), (9.5, 2.9, 84, -6.60, 25.52),
        (-80.8, -3.5, 77, -264.68, 103.00), (376.4, 9.8, 98, 124.35, 628.37)]),
    **_increases("imap", _TUNNEL, _IMAP, [(-4.9, -5.7, 80, -14.88, 5.04), (21.9, 6.8, 98, 7.03, 36.67),
        (-12.3, -0.5, 54, -198.37, 173.81), (503.1, 13.1, 99, 223.44, 782.72)]),
}  # fmt: skip

DOUBTS: Mapping[tuple[str, Arm, int, str], str] = {
    ("3-1", _IPV6, 100, "mean"): "87.8: the middle of its interval and the increase in Table 3-2 give 87.6",
    ("3-5", _TUNNEL, 500, "interval"): "5453.9 - 136368.9 is not around its mean; Table 6-1 gives 37260 - 37695",
    ("3-6", _IPV6, 500, "increase"): "+9785.3: the means and Table 6-1 give 9785.9",
    ("6-1 http", _IPV6, 1000, "interval"): "+16.94 has lost its sign: around the increase of 3.7 it is -16.94",
    ("6-1 http", _TUNNEL, 100, "interval"): "+3.35: the increase and the single intervals give 3.45",
}
"""Contradictions of printed cells, by table (6-1 with the protocol), arm, connections and row."""
