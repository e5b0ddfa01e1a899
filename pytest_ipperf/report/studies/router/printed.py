"""The figures that paper 001 printed, shown beside ours.

Source: A. Jaha, "Performance Evaluation of IPv4, IPv6, and ISATAP Routers on Windows Server 2008", section IV and
Table V. Rates are printed as a percentage of IPv4's and the others as a multiple; all are multiples here. Its six
figures are pictures whose values are not in the text, and it measured no configured tunnel.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.design.cell import Arm

REFERENCE, _IPV6, _ISATAP = Arm(4, "native"), Arm(6, "native"), Arm(6, "isatap")
"""The study's reference arm; the others are IPv6 and ISATAP."""

RATIOS: Mapping[tuple[str, Arm], float] = {
    ("tcp_throughput", _IPV6): 0.985,
    ("tcp_throughput", _ISATAP): 0.962,
    ("rtt", _IPV6): 1.04,
    ("rtt", _ISATAP): 1.09,
    ("udp_throughput", _IPV6): 0.946,
    ("udp_throughput", _ISATAP): 0.925,
    ("jitter", _IPV6): 1.13,
    ("jitter", _ISATAP): 1.18,
    ("loss", _IPV6): 1.225,
    ("loss", _ISATAP): 1.45,
}
"""Ratios of Table V, by column and arm."""


def printed(experiment: str, arm: Arm) -> float | None:
    """Return the ratio that the study printed; None if it has none."""
    return 1.0 if arm == REFERENCE else RATIOS.get((experiment, arm))
