"""Slack: what a process may do at its leisure, and must not while it measures: collect garbage, and sleep for longer.

By how much the kernel may let it sleep longer than asked is its timer slack (prctl(2), PR_SET_TIMERSLACK).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

_SLACK = Path("/proc/self/timerslack_ns")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """While it lasts, no garbage is collected, and timers have as little slack as can be had.

    A collection in one arm's run and not in the other's is noise, and what is due at an instant shall be done then.
    """
    gc.collect()
    gc.disable()
    try:
        _set("1")
        yield
    finally:
        _set("0")  # which is the default again
        gc.enable()


def _set(nanoseconds: str) -> None:
    with contextlib.suppress(OSError):  # where it cannot be had, the column `behind` tells
        _SLACK.write_text(nanoseconds, encoding="ascii")
