"""Native: IPv4 or IPv6 straight on the link."""

from pytest_ipperf.transports.base import Transport

transport = Transport(
    name="native", title="native", ipvers=(4, 6), overhead_bytes=0, encapsulated=False, source="RFC 791, RFC 8200"
)
