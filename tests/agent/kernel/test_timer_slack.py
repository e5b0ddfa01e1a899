"""Timer slack and garbage collection while a process measures, and afterwards."""

import gc
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.timer_slack import low_jitter


def now():
    """Return whether garbage is collected, and the slack in ns."""
    return gc.isenabled(), int(Path("/proc/self/timerslack_ns").read_text())


def test_nothing_disturbs_it_while_it_lasts_and_all_is_as_before_after_an_error_too():
    before, found = now(), []

    def measure():
        with low_jitter():
            found.append(now())
            raise KeyError

    with pytest.raises(KeyError):
        measure()
    assert found == [(False, 1)]
    assert now() == before == (True, before[1])
