"""Replace control characters in texts from hosts, which a terminal would obey.

Process and file names, banners and server logs can hold text chosen by other users of a host.
"""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """Return `text` with unprintable characters replaced by `?`; newlines and tabs are kept."""
    return (
        text if text.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
    )


def printable_values(reply: Any) -> Any:
    """Return `reply` with all of its texts made printable; numbers and bytes are unchanged."""
    if isinstance(reply, str):
        return printable(reply)
    if isinstance(reply, dict):
        return {printable_values(key): printable_values(value) for key, value in reply.items()}
    if isinstance(reply, list | tuple):
        return type(reply)(map(printable_values, reply))
    return reply
