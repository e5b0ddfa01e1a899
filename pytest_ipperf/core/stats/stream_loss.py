"""Loss, duplication and reordering of a stream, as shares of what was sent or arrived."""

from __future__ import annotations

from pytest_ipperf.core.portable.errors import InvalidError


def loss_share(unique: int, sent: int) -> float | None:
    """The share (0..1) of what was sent that never arrived; None where nothing was sent.

    What was sent is the sender's own count: at the receiver nothing tells of the last ones (RFC 7680, section 4.1).
    InvalidError where more arrived than was sent.
    """
    if not 0 <= unique <= sent:
        raise InvalidError(f"{unique} of {sent} datagrams cannot have arrived; there are between none and all")
    return (sent - unique) / sent if sent else None


def reordered_share(reordered: int, unique: int) -> float | None:
    """RFC 4737's ratio (section 4.1) of what arrived reordered to all that arrived; None where nothing did."""
    return reordered / unique if unique else None


def duplicated_share(duplicates: int, unique: int) -> float | None:
    """RFC 5560's duplication fraction (section 5.1): copies beyond the first ones, for each that arrived once."""
    return duplicates / unique if unique else None
