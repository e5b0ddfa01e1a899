"""A clock that is set, for a process alone: at the end of the package's first file."""

CLOCK_BY_HOURS = """

import time


def _set(clock, unit):
    def shifted(*which):
        hours = 0
        if which in ((), (time.CLOCK_REALTIME,)):
            try:
                with open("{sign}") as sign:
                    hours = int(sign.read() or 0)
            except FileNotFoundError:
                pass
        return clock(*which) + 3600 * hours * unit

    return shifted


time.time, time.time_ns = _set(time.time, 1), _set(time.time_ns, 10**9)
time.clock_gettime, time.clock_gettime_ns = _set(time.clock_gettime, 1), _set(time.clock_gettime_ns, 10**9)
"""
"""By as many hours as stand in the file `sign`, where there is one."""
