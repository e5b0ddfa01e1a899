"""Sizes that a protocol can have, for tests of every protocol."""

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_bytes


def payload_of(protocol, wanted):
    """Return the wanted size in bytes; the protocol's own where it cannot have that."""
    try:
        protocol.content(wanted)
    except UsageError:
        return parse_bytes(protocol.payload[0])
    return wanted
