"""Strip what a terminal would obey from texts that hosts send.

Their words are of whoever spoke to them: names of processes and files of all users there, banners, logs of servers.
"""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """The same where all of it can be shown, with lines and tabs."""
    return (
        text if text.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
    )


def printable_values(reply: Any) -> Any:
    """Return a reply with all of its texts printable; numbers and bytes are unchanged."""
    if isinstance(reply, str):
        return printable(reply)
    if isinstance(reply, dict):
        return {printable_values(key): printable_values(value) for key, value in reply.items()}
    if isinstance(reply, list | tuple):
        return type(reply)(map(printable_values, reply))
    return reply
