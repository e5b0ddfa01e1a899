"""Checksum of a line of JSON, stored as its last key, over the line and all lines before it.

It detects flipped bits and lines that are missing, repeated or moved. It protects against faulty disks and against
editors, not against somebody who recomputes it.
"""

from __future__ import annotations

import zlib

KEY = "crc32"
_BEFORE = f', "{KEY}": "'.encode()
_DIGITS = 8
_AFTER = b'"}\n'
_BYTES = len(_BEFORE) + _DIGITS + len(_AFTER)


def with_checksum(plain: str, before: int = 0) -> tuple[bytes, int]:
    """Return the line of a non-empty JSON object with its checksum; `before` is the previous line's, 0 if none."""
    body = plain.encode()[:-1]
    crc = zlib.crc32(body, before)
    return body + _BEFORE + b"%08x" % crc + _AFTER, crc


def checksum_of(line: bytes) -> int | None:
    """Return the checksum that a whole line states; None if it states none."""
    checksum = line[-_BYTES:]
    if not checksum.startswith(_BEFORE) or not checksum.endswith(_AFTER):
        return None
    try:
        return int(checksum[len(_BEFORE) : -len(_AFTER)], 16)
    except ValueError:
        return None


def checksum_matches(line: bytes, before: int = 0) -> bool:
    """Return whether the checksum of a whole line matches its bytes and the line before it."""
    return len(line) > _BYTES and line[-_BYTES:] == _BEFORE + b"%08x" % zlib.crc32(line[:-_BYTES], before) + _AFTER
