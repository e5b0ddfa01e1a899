"""Figures that paper 004 prints in its text and in Table 1; its plots show their values in no other way.

Source: S. Kharche and P. B. Patil, "Performance Test Comparison of Internet Layer Protocols on CentOS and 2007 for
Data, DNS and Voice Traffic", sections 4.1 to 4.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.traffic.carrier import TCP, UDP

SYSTEMS = ("CentOS", "Windows")
"""The study's two operating systems."""
_IPV4, _IPV6 = Arm(4, "native"), Arm(6, "native")

TABLE_1: Mapping[tuple[str, Arm], str] = {
    (TCP, _IPV4): "55.55 %",
    (TCP, _IPV6): "65.21 %",
    (UDP, _IPV4): "46.67 %",
    (UDP, _IPV6): "60 %",
}
"""Overhead of 32 bytes of data, by carrier and arm."""


class Printed(NamedTuple):
    """What the text says of a figure for each operating system; empty where it says nothing."""

    centos: str
    windows: str


MOST_BELOW: Mapping[str, Printed] = {
    "tcp_throughput": Printed("40.29 %", "30.48 %"),
    "udp_throughput": Printed("38.5 %", "17.77 %"),
    "dns_tcp": Printed("7.5 %", "2.04 %"),
    "dns_udp": Printed("4.05 %", "4.09 %"),
}
"""Most by which IPv6's throughput is below IPv4's, of payloads beyond the MTU, by experiment."""

RANGES: Mapping[str, Printed] = {
    "tcp_jitter": Printed("0.7 to 20 ms", "190.1 to 1525.94 s"),
    "udp_jitter": Printed("0.8 to 20 ms", "281.34 to 1409.93 s"),
}
"""Smallest to largest jitter of both IP versions, by experiment."""

MOST_APART: Mapping[str, Printed] = {
    "tcp_jitter": Printed("106.02 % at 32768", ""),
    "udp_jitter": Printed("at 1664", "11.01 % at 32"),
    "games": Printed("1.26 % at quake3", "12.5 % at cs.inactive"),
    "voice_vad": Printed("", "0.001 % at g729.3"),
    "voice_crtp": Printed("0.006 % at g729.2", "0.0017 % at g729.3"),
    "voice_both": Printed("6.24 % at g729.2", "0.00167 %"),
}
"""Largest difference between the IP versions, with its payload, game or codec, by experiment."""
