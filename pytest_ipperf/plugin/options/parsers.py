"""Parsers of option values; each raises UsageError for an invalid text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_ipperf.agent.tunnels.backends import preferred
from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_seconds
from pytest_ipperf.lab.inventory.model import AUTO
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports import TRANSPORTS

MEASURED = [name for name in SERVERS if SERVERS[name].protocol in PROTOCOLS]
"""Names of the servers whose protocol can be measured."""

_MOST_WORKERS = 64
_MOST_DIGITS = 4000
_MOST_CAPTURED = 10000
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0
_SERVER_WORDS = ("auto", "real", "embedded")
_HALF = 0.5
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser that accepts one of these words."""

    def read(text: str) -> str:
        if text not in choices:
            raise UsageError(f"{text!r} does not exist; there are {', '.join(choices)}{did_you_mean(text, choices)}")
        return text

    return read


def _whole(text: str) -> int | None:
    """Return the number in a text of digits; None for any other text, and for more digits than Python reads."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def backend(text: str) -> str:
    """Return a backend's name or `auto`; empty to use the testbed's setting."""
    return one_of((AUTO, *preferred()))(text) if text else ""


def ip_version(text: str) -> int:
    """Return 4 or 6."""
    if text not in ("4", "6"):
        raise UsageError(f"{text!r} is not an IP version; use 4 or 6")
    return int(text)


def connections(text: str) -> int:
    """Return the number of simultaneous connections, 1 or more."""
    if (number := _whole(text)) is None or number < 1:
        raise UsageError(f"{text!r} is not a number of connections such as 1, 10 or 100")
    return number


def rate(text: str) -> float:
    """Return the arrival rate in connections per second; 0 for `closed` (all at once)."""
    if text == "closed":
        return 0.0
    number, slash, second = text.partition("/")
    try:
        rate_per_s = float(number) if (slash, second) == ("/", "s") else 0.0
    except ValueError:
        rate_per_s = 0.0
    if not 0 < rate_per_s < math.inf:
        raise UsageError(f"{text!r} is neither closed nor a rate such as 200/s")
    return rate_per_s


def workers(text: str) -> int:
    """Return the number of worker processes."""
    if (number := _whole(text)) is None or not 1 <= number <= _MOST_WORKERS:
        raise UsageError(f"{text!r} is not a number of processes from 1 to {_MOST_WORKERS}")
    return number


def capture(text: str) -> int:
    """Return the number of packets to capture."""
    if (number := _whole(text)) is None or number > _MOST_CAPTURED:
        raise UsageError(f"{text!r} is not a number of packets from 0 to {_MOST_CAPTURED}")
    return number


def reference(text: str) -> Arm:
    """Return the reference arm; the twin is refused, as it is the reference measured twice."""
    arm = Arm.parse(text)
    one_of(list(TRANSPORTS))(arm.transport)
    if arm.twin:
        raise UsageError(
            f"{text!r} is the twin of a reference and cannot be the reference; use {Arm(arm.ipver, arm.transport)}"
        )
    return arm


def server(text: str) -> str:
    """Return the comma list of servers; one name may be auto, real or embedded, which is for all other protocols."""
    names = [one_of([*_SERVER_WORDS, *MEASURED])(name.strip()) for name in text.split(",")]
    words = [name for name in names if name in _SERVER_WORDS]
    if len(words) > 1:
        raise UsageError(f"{' and '.join(words)} exclude each other; combine only one of them with names of servers")
    return ",".join(names)


def duration(text: str) -> float | None:
    """Return the duration of a run in seconds; None for an empty text."""
    seconds = parse_seconds(text) if text else None
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise UsageError(f"{text!r} is not a time from 100ms to 1h, such as 10s")
    return seconds


def deadline(text: str) -> float:
    """Return the deadline in seconds."""
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise UsageError(f"{text!r} leaves no time for a connection; 10s is usual")
    return seconds


def seed(text: str) -> int:
    """Return the seed as a whole number."""
    if (number := _whole(text)) is None:
        raise UsageError(f"{text!r} is not a whole number, zero or more, of at most {_MOST_DIGITS} digits")
    return number


def saved(text: str) -> str:
    """Return the name under which a session is saved; empty for none."""
    if text and (text == "last" or not re.fullmatch(_NAME, text)):
        raise UsageError(
            f"{text!r} is not a valid session name; use letters, digits, dots, dashes and underscores, but not 'last'"
        )
    return text


def folder(text: str) -> str:
    """Return the path of a folder; UsageError for an empty one, which would be the rootdir."""
    if not text:
        raise UsageError("'' is not a folder such as .ipperf")
    return text


def level(text: str) -> float | None:
    """Return a one-sided level; None for an empty text."""
    try:
        found = float(text) if text else None
    except ValueError:
        found = -1.0
    if found is not None and not 0 < found < _HALF:
        raise UsageError(f"{text!r} is not a probability between 0 and 0.5, such as 0.05")
    return found


def listed(directory: Path, text: str) -> frozenset[str] | None:
    """Return the lines of a file, relative to `directory`; None for an empty text."""
    if not text:
        return None
    try:
        lines = (directory / text).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{text} cannot be read: {error}") from None
    return frozenset(filter(None, lines))
