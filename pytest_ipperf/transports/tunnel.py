"""Tunnel: IPv6 in IPv4 between two configured ends (6in4, RFC 4213)."""

from pytest_ipperf.transports.base import Transport

transport = Transport(
    name="tunnel", title="6in4 tunnel", ipvers=(6,), overhead_bytes=20, encapsulated=True, source="RFC 4213, section 3"
)
