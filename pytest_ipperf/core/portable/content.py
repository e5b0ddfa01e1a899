"""Sentences about content that differs from the server's. Travels to hosts.

They are short, and the same for the same difference, as failures are counted by them.
"""

from __future__ import annotations

from bisect import bisect_left

_SHOWN_BYTES = 16


def wrong_content(expected: bytes, offset: int, seen: bytes | memoryview) -> str:
    """Describe the first difference of the bytes `seen` at `offset` from the `expected` content.

    Raise ValueError if they do not differ.
    """
    seen = memoryview(seen)
    if expected.startswith(seen, offset):
        raise ValueError(f"{len(seen)} bytes at offset {offset} do not differ from what was expected")
    # The prefixes of `seen` match up to the first difference and none beyond it, so a bisection finds it.
    right = bisect_left(range(len(seen)), 1, key=lambda at: not expected.startswith(seen[: at + 1], offset))
    at, found = offset + right, excerpt(seen[right:])
    if at >= len(expected):
        return f"expected {len(expected)} bytes, seen more that begin with {found}"
    return f"expected {excerpt(memoryview(expected)[at:])} at offset {at} of {len(expected)} bytes, seen {found}"


def wrong_size(expected: bytes, seen_bytes: int, where: str = "") -> str:
    """Describe content that ends too early or is announced with another size; `where` names the source of the size."""
    return f"expected {len(expected)} bytes, seen {seen_bytes}{where and f' {where}'}"


def excerpt(content: bytes | memoryview) -> str:
    """Return the first bytes as printable ASCII in quotes."""
    return repr(bytes(content[:_SHOWN_BYTES])).removeprefix("b")
