"""Strip what a terminal would obey from texts that hosts send.

Their words are of whoever spoke to them: names of processes and files of all users there, banners, logs of servers.
"""

from __future__ import annotations

from typing import Any


def printable(said: str) -> str:
    """The same where all of it can be shown, with lines and tabs."""
    return (
        said if said.isprintable() else "".join(each if each.isprintable() or each in "\n\t" else "?" for each in said)
    )


def plain(answer: Any) -> Any:
    """An answer with all of its words printable; numbers and bytes are as they came."""
    if isinstance(answer, str):
        return printable(answer)
    if isinstance(answer, dict):
        return {plain(key): plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return type(answer)(map(plain, answer))
    return answer
