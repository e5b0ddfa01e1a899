"""Checksum of a line of JSON, as its last key, over the line and over all lines before it.

A flipped bit, a line that is missing, twice there, or at another place breaks it. It guards against disks and
editors, and not against somebody who computes it anew.
"""

from __future__ import annotations

import zlib

KEY = "crc32"
_BEFORE = f', "{KEY}": "'.encode()
_DIGITS = 8
_AFTER = b'"}\n'
_BYTES = len(_BEFORE) + _DIGITS + len(_AFTER)


def with_checksum(plain: str, before: int = 0) -> tuple[bytes, int]:
    """The line of a JSON object that has keys, and its checksum; `before` is that of the line before, 0 of none."""
    body = plain.encode()[:-1]
    crc = zlib.crc32(body, before)
    return body + _BEFORE + b"%08x" % crc + _AFTER, crc


def checksum_of(line: bytes) -> int | None:
    """The checksum that a whole line says it has; None where it says none."""
    checksum = line[-_BYTES:]
    if not checksum.startswith(_BEFORE) or not checksum.endswith(_AFTER):
        return None
    try:
        return int(checksum[len(_BEFORE) : -len(_AFTER)], 16)
    except ValueError:
        return None


def checksum_matches(line: bytes, before: int = 0) -> bool:
    """Whether the checksum of a whole line is that of its bytes and of the line before it."""
    return len(line) > _BYTES and line[-_BYTES:] == _BEFORE + b"%08x" % zlib.crc32(line[:-_BYTES], before) + _AFTER
