"""Load as a factor of flows: background traffic between the same hosts while a flow is measured.

Without any, the path is idle; with it, it is under working conditions (draft-ietf-ippm-responsiveness). The load is a
TCP stream at full speed, one of the draft's load-generating connections, and the measured flow a probe on a connection
of its own. Travels to hosts: Python 3.10 alone.
"""

from __future__ import annotations

from pytest_ipperf.core.portable.factor import Factor
from pytest_ipperf.core.portable.figure_row import figure_row
from pytest_ipperf.core.portable.units import rate_text

IDLE = "none"
TCP_LOADS = {"tcp.up": "up", "tcp.down": "down"}
"""Loads by a TCP stream, with its direction."""

LEAD_S = 2.0
"""Seconds for which the load is up before the measured flow begins its warm-up."""
TAIL_S = 1.0
"""Seconds after the measured run in which the load goes on, as that run begins a little later than planned."""
SILENCE_S = 0.25
"""Seconds after which each end of the load looks whether hardly anything arrives any more."""
LONGEST_QUEUE_S = 15.0
"""Seconds in which the longest queue of a lab's 1 Mbit/s link drains."""

LOAD = Factor(
    name="load",
    title="load",
    unit="word",
    levels=(IDLE,),
    help=f"background traffic beside the measured flow: {IDLE}, or a TCP stream at full speed ({', '.join(TCP_LOADS)})",
    mark="load",
    words=(IDLE, *TCP_LOADS),
    implicit=IDLE,
    silent=True,
)

LOAD_ROW = figure_row("load beside it", "load_bit_s", lambda figures: rate_text(figures["load_bit_s"]))
"""Row with the payload rate of background traffic in the time of the run."""
