"""Loss, duplication and reordering of a stream, as shares of the datagrams sent or received."""

from __future__ import annotations

from pytest_ipperf.core.portable.errors import InvalidError


def loss_share(unique: int, sent: int) -> float | None:
    """Return the share (0..1) of sent datagrams that never arrived; None if none was sent.

    `sent` is the sender's own count, as a receiver cannot know of the last datagrams (RFC 7680, section 4.1). Raises
    InvalidError if more arrived than were sent.
    """
    if not 0 <= unique <= sent:
        raise InvalidError(f"{unique} of {sent} datagrams cannot have arrived; there are between none and all")
    return (sent - unique) / sent if sent else None


def reordered_share(reordered: int, unique: int) -> float | None:
    """Return RFC 4737's reordered ratio (section 4.1): reordered arrivals to all arrivals; None if nothing arrived."""
    return reordered / unique if unique else None


def duplicated_share(duplicates: int, unique: int) -> float | None:
    """Return RFC 5560's duplication fraction (section 5.1): extra copies per unique arrival; None without arrivals."""
    return duplicates / unique if unique else None
