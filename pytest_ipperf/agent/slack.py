"""Timer slack (prctl(2), PR_SET_TIMERSLACK): by how much the kernel may let this process sleep longer than asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_SLACK = Path("/proc/self/timerslack_ns")


@contextlib.contextmanager
def no_slack() -> Iterator[None]:
    """While it lasts, as little as can be had: what is to be opened at an instant shall be opened then."""
    _set("1")
    try:
        yield
    finally:
        _set("0")  # which is the default again


def _set(nanoseconds: str) -> None:
    with contextlib.suppress(OSError):  # where it cannot be had, the column `behind` tells
        _SLACK.write_text(nanoseconds, encoding="ascii")
