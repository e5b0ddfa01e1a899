"""The seal of a line of JSON: a checksum, as its last key, over the line and over all lines before it.

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


def sealed(plain: str, before: int = 0) -> tuple[bytes, int]:
    """The line of a JSON object that has keys, and its checksum; `before` is that of the line before, 0 of none."""
    body = plain.encode()[:-1]
    crc = zlib.crc32(body, before)
    return body + _BEFORE + b"%08x" % crc + _AFTER, crc


def seal_of(line: bytes) -> int | None:
    """The checksum that a whole line says it has; None where it says none."""
    seal = line[-_BYTES:]
    if not seal.startswith(_BEFORE) or not seal.endswith(_AFTER):
        return None
    try:
        return int(seal[len(_BEFORE) : -len(_AFTER)], 16)
    except ValueError:
        return None


def holds(line: bytes, before: int = 0) -> bool:
    """Whether a whole line has the seal that its bytes, and the line before it, give."""
    return len(line) > _BYTES and line[-_BYTES:] == _BEFORE + b"%08x" % zlib.crc32(line[:-_BYTES], before) + _AFTER
