"""The figures that paper 001 printed, for our own to stand beside.

Source: A. Jaha, "Performance Evaluation of IPv4, IPv6, and ISATAP Routers on Windows Server 2008", section IV and
Table V. Rates are printed as a percentage of IPv4's and the others as a multiple; all are multiples here. Its six
figures are pictures whose values the text does not tell, and it measured no configured tunnel.
"""

from __future__ import annotations

from collections.abc import Mapping

REFERENCE = "ipv4"
"""The arm that the study compared the others with."""

RATIOS: Mapping[tuple[str, str], float] = {
    ("tcp_throughput", "ipv6"): 0.985,
    ("tcp_throughput", "ipv6-isatap"): 0.962,
    ("rtt", "ipv6"): 1.04,
    ("rtt", "ipv6-isatap"): 1.09,
    ("udp_throughput", "ipv6"): 0.946,
    ("udp_throughput", "ipv6-isatap"): 0.925,
    ("jitter", "ipv6"): 1.13,
    ("jitter", "ipv6-isatap"): 1.18,
    ("loss", "ipv6"): 1.225,
    ("loss", "ipv6-isatap"): 1.45,
}
"""Of Table V, by column and arm."""


def printed(experiment: str, arm: str) -> float | None:
    """What the study printed there, if it did."""
    return 1.0 if arm == REFERENCE else RATIOS.get((experiment, arm))
