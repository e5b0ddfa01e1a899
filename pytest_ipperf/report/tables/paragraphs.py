"""Join wrapped lines to paragraphs, and capitalise sentences."""

from __future__ import annotations

from collections.abc import Iterable


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Return the paragraphs of wrapped lines; each ends at a line that ends with a full stop, or at an empty one."""
    found: list[str] = []
    open_: list[str] = []
    for line in (*lines, ""):
        open_ += [line.strip()] * bool(line.strip())
        if open_ and (not line.strip() or line.rstrip().endswith(".")):
            found.append(" ".join(open_))
            open_ = []
    return found


def capital(text: str) -> str:
    """Return the text with its first letter capitalised."""
    return text[:1].upper() + text[1:]
