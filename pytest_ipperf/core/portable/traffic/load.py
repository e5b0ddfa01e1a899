"""Load as a factor of flows: background traffic between the same hosts while a flow is measured.

Without any, the path is idle; with it, it is under working conditions (draft-ietf-ippm-responsiveness). The load is one
or several of the draft's load-generating connections: TCP streams at full speed, or calls, players or sessions of a
traffic model. The measured flow is a probe on a connection of its own. Travels to hosts: Python 3.10 alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import Figures, figure_row
from pytest_ipperf.core.portable.scaling import four_digits, rate_of
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN
from pytest_ipperf.core.portable.units import rate_text

IDLE = "none"
TCP_LOADS = {"tcp.up": "up", "tcp.down": "down"}
"""Loads by TCP streams, with their direction."""

LEAD_S = 2.0
"""Seconds for which the load is up before the measured flow begins its warm-up."""
TAIL_S = 1.0
"""Seconds after the measured run in which the load goes on, as that run begins a little later than planned."""
SILENCE_S = 0.25
"""Seconds after which each end of the load looks whether hardly anything arrives any more."""
LONGEST_QUEUE_S = 15.0
"""Seconds in which the longest queue of a lab's 1 Mbit/s link drains."""
_MOST_GENERATORS = 1000

LOAD = Factor(
    name="load",
    title="load",
    unit="word",
    levels=(IDLE,),
    help=(
        f"background traffic beside the measured flow: {IDLE}, TCP at full speed ({', '.join(TCP_LOADS)}), or the name "
        "of a traffic model"
    ),
    mark="load",
    words=(IDLE, *TCP_LOADS),
    further=MODEL_NAME_PATTERN,
    implicit=IDLE,
    silent=True,
)

GENERATORS = Factor(
    name="generators",
    title="load-generating connections",
    unit="connection",
    levels=(1,),
    help="the number of connections of the load: TCP streams, or calls, players or sessions of its model",
    mark="lg",
    implicit=1,
    silent=True,
)


def load_of(factors: Mapping[str, Value]) -> str:
    """Return the load at these levels; empty on an idle path."""
    level = str(factors.get(LOAD.name, IDLE))
    return "" if level == IDLE else level


def generators_of(factors: Mapping[str, Value]) -> int:
    """Return the number of load-generating connections at these levels."""
    return int(factors.get(GENERATORS.name, 1))


def check_load(factors: Mapping[str, Value]) -> None:
    """Raise UsageError for a number of load-generating connections that cannot be."""
    if not 1 <= generators_of(factors) <= _MOST_GENERATORS:
        raise UsageError(
            f"{generators_of(factors)} load-generating connections cannot be made; generators takes 1 to "
            f"{_MOST_GENERATORS}"
        )


def _rate(figures: Figures) -> str:
    reached, planned = figures["load_bit_s"], figures.get("load_planned_bit_s")
    return rate_of(reached, planned, four_digits) if planned else rate_text(reached)


LOAD_ROW = figure_row("load beside it", "load_bit_s", _rate)
"""Row with the payload rate of background traffic in the time of the run; of that of a model, by its schedule."""
