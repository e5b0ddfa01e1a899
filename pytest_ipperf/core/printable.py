"""Replace control characters in texts from hosts, which a terminal would obey.

Process and file names, banners and server logs can hold text chosen by other users of a host.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with unprintable characters replaced by `?`; newlines and tabs are kept."""
    return (
        text if text.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
    )
