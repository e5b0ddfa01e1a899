"""Synchronisation and source of the host's clocks."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest

_UNSYNCHRONISED, _ERROR = 0x0040, 5  # sys/timex.h: STA_UNSYNC, TIME_ERROR
_STATUS_AT = 5 * ctypes.sizeof(ctypes.c_long)  # modes (padded), offset, freq, maxerror, esterror, status
_TIMEX_BYTES = 512  # more than any kernel's structure


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts(Facts):
    """Clock facts: `synchronised` of the wall clock, None if unknown; `source` of all clocks, empty if unknown."""

    synchronised: bool | None
    source: str

    @classmethod
    def collect(cls, request: FactsRequest) -> ClockFacts:
        """Ask the kernel."""
        del request
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        return cls(synchronised=_synchronised(), source=source.read_text().strip() if source.exists() else "")


def _synchronised() -> bool | None:
    """Return the synchronisation state of adjtimex(2), which with `modes` 0 changes nothing."""
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    state = ctypes.CDLL(None).adjtimex(timex)
    if state < 0:
        return None
    status = ctypes.c_int.from_buffer(timex, _STATUS_AT).value
    return state != _ERROR and not status & _UNSYNCHRONISED


facts = ClockFacts
