"""Parse the texts of options; UsageError for one that means nothing."""

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
"""The servers of what can be measured."""

_MOST_WORKERS = 64
_MOST_DIGITS = 4000
_MOST_CAPTURED = 10000
_SHORTEST_S, _LONGEST_S = 0.1, 3600.0
_SERVER_WORDS = ("auto", "real", "embedded")
_HALF = 0.5
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """What reads one of these words."""

    def read(text: str) -> str:
        if text not in choices:
            raise UsageError(f"{text!r} does not exist; there are {', '.join(choices)}{did_you_mean(text, choices)}")
        return text

    return read


def _whole(text: str) -> int | None:
    """Return the number of a text of digits; None where it is none, or has more digits than Python reads."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def backend(text: str) -> str:
    """Return a backend's name or `auto`; empty where the testbed's own word counts."""
    return one_of((AUTO, *preferred()))(text) if text else ""


def ip_version(text: str) -> int:
    """4 or 6."""
    if text not in ("4", "6"):
        raise UsageError(f"{text!r} is no IP version; there are 4 and 6")
    return int(text)


def connections(text: str) -> int:
    """How many at once."""
    if (number := _whole(text)) is None or number < 1:
        raise UsageError(f"{text!r} is not a number of connections such as 1, 10 or 100")
    return number


def rate(text: str) -> float:
    """In connections a second; 0 is all at once."""
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
    """How many processes."""
    if (number := _whole(text)) is None or not 1 <= number <= _MOST_WORKERS:
        raise UsageError(f"{text!r} is not a number of processes from 1 to {_MOST_WORKERS}")
    return number


def capture(text: str) -> int:
    """How many packets."""
    if (number := _whole(text)) is None or number > _MOST_CAPTURED:
        raise UsageError(f"{text!r} is not a number of packets from 0 to {_MOST_CAPTURED}")
    return number


def reference(text: str) -> Arm:
    """An arm; never the twin, which is the reference once more."""
    arm = Arm.parse(text)
    one_of(list(TRANSPORTS))(arm.transport)
    if arm.twin:
        raise UsageError(
            f"{text!r} is the reference measured twice and never the reference; name {Arm(arm.ipver, arm.transport)}"
        )
    return arm


def server(text: str) -> str:
    """Names of servers, and a word for the protocols that none of them serves."""
    names = [one_of([*_SERVER_WORDS, *MEASURED])(name.strip()) for name in text.split(",")]
    words = [name for name in names if name in _SERVER_WORDS]
    if len(words) > 1:
        raise UsageError(f"{' and '.join(words)} exclude each other; one of them may stand beside names of servers")
    return ",".join(names)


def duration(text: str) -> float | None:
    """In seconds; None where none is named."""
    seconds = parse_seconds(text) if text else None
    if seconds is not None and not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise UsageError(f"{text!r} is not a time from 100ms to 1h, such as 10s")
    return seconds


def deadline(text: str) -> float:
    """In seconds."""
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise UsageError(f"{text!r} leaves no time for a connection; 10s is usual")
    return seconds


def seed(text: str) -> int:
    """That of the text."""
    if (number := _whole(text)) is None:
        raise UsageError(f"{text!r} is not a whole number of zero or more of at most {_MOST_DIGITS} digits")
    return number


def saved(text: str) -> str:
    """A name for sessions; empty for none."""
    if text and (text == "last" or not re.fullmatch(_NAME, text)):
        raise UsageError(
            f"{text!r} is no name for a session; right are letters, digits, dots, dashes and underlines, but not 'last'"
        )
    return text


def level(text: str) -> float | None:
    """A one-sided level; None where none is named."""
    try:
        found = float(text) if text else None
    except ValueError:
        found = -1.0
    if found is not None and not 0 < found < _HALF:
        raise UsageError(f"{text!r} is not a probability between 0 and 0.5, such as 0.05")
    return found


def listed(directory: Path, text: str) -> frozenset[str] | None:
    """The lines of a file, a path from `directory`; None where no file is named."""
    if not text:
        return None
    try:
        lines = (directory / text).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{text} cannot be read: {error}") from None
    return frozenset(filter(None, lines))
