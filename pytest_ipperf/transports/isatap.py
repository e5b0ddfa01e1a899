"""ISATAP: IPv6 in IPv4 within a site, its ends found in the IPv6 addresses (RFC 5214)."""

from pytest_ipperf.transports.base import Transport

transport = Transport(
    name="isatap", title="ISATAP", ipvers=(6,), overhead_bytes=20, encapsulated=True, source="RFC 5214"
)
