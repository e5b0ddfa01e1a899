"""Low jitter: garbage collection disabled and timer slack minimised while something is measured.

Timer slack is by how much the kernel may let a process sleep longer than asked (prctl(2), PR_SET_TIMERSLACK).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

_SLACK = Path("/proc/self/timerslack_ns")


@contextlib.contextmanager
def low_jitter() -> Iterator[None]:
    """Reduce jitter: disable garbage collection and minimise timer slack.

    A collection in one arm's run and not in the other's is noise, and timers have to fire on time.
    """
    gc.collect()
    gc.disable()
    try:
        _set("1")
        yield
    finally:
        _set("0")  # the default again
        gc.enable()


def _set(nanoseconds: str) -> None:
    with contextlib.suppress(OSError):  # without it, the column `behind` shows the delays
        _SLACK.write_text(nanoseconds, encoding="ascii")
