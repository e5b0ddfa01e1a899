"""Join wrapped lines to whole texts again, and capitalise sentences."""

from __future__ import annotations

from collections.abc import Iterable


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Lines as a terminal has them as whole texts again: each ends where a line ends with a full stop, or is empty."""
    found: list[str] = []
    open_: list[str] = []
    for line in (*lines, ""):
        open_ += [line.strip()] * bool(line.strip())
        if open_ and (not line.strip() or line.rstrip().endswith(".")):
            found.append(" ".join(open_))
            open_ = []
    return found


def capital(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]
