"""Designs: how much is measured and when it is judged, by name.

Figures and their reasons: docs/statistics.md. A look is one judgement of all data so far; its `alpha` is one-sided.
What is decided at a look is measured no further (docs/decisions/0011-escalation-by-looks.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.portable.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """`epochs` rebuilds of the testbed before each of its `looks`, each with `blocks` that measure every arm once.

    `judges` is False where a verdict would be more than the data can carry, or than the study gave.
    `run_connections` is how many connections a run holds at least: the burst of N is repeated until it does
    (docs/decisions/0003-runs-of-300-connections.md).
    A run of traffic flows for `run_s`, after `warmup_s` in which it counts for nothing.
    `full_grid` measures the levels of the suite's `grid` marker in place of its everyday `levels`.
    """

    name: str
    epochs: int
    blocks: int
    alpha: float
    judges: bool
    purpose: str
    looks: int = 1
    run_connections: int = 300
    warmup_s: float = 0.5
    run_s: float = 1.0
    full_grid: bool = False

    def bursts(self, connections: int) -> int:
        """Bursts of a run of that many connections at once; warm-up runs have as many."""
        return -(-self.run_connections // connections)

    @property
    def most_epochs(self) -> int:
        """Epochs of all looks."""
        return self.epochs * self.looks

    def runs(self, arms: int) -> int:
        """Runs of one workload at most, warm-ups included (one for each arm and epoch)."""
        return self.most_epochs * (self.blocks + 1) * arms

    def size_text(self) -> str:
        """How much it measures: `6 epochs x 2 blocks`, `1 to 3 looks of 10 epochs x 3 blocks`."""
        scale = f"{self.epochs} epochs x {self.blocks} blocks"
        return scale if self.looks == 1 else f"1 to {self.looks} looks of {scale}"


RFC8219 = "rfc8219"
"""The design whose repetitions are reported by their median and percentiles too (RFC 8219, sections 7.2 and 7.3)."""

DESIGNS = {
    design.name: design
    for design in (
        Design(
            name="smoke",
            epochs=2,
            blocks=1,
            alpha=0.05,
            judges=False,
            purpose="does it run at all; never judges",
            run_connections=30,
            warmup_s=0.2,
            run_s=0.3,
        ),
        Design(name="quick", epochs=6, blocks=2, alpha=0.05, judges=True, purpose="a person at a terminal"),
        # Pocock's level for three looks: together they are wrong as often as one look at 5 %.
        Design(
            name="standard",
            epochs=10,
            blocks=3,
            looks=3,
            alpha=0.0221,
            judges=True,
            purpose="a decision",
            run_s=2.0,
        ),
        # All cells are screened; what is flagged is measured again in epochs of its own (core/nightly/gate.py).
        Design(name="nightly", epochs=10, blocks=3, alpha=0.05, judges=True, purpose="the gate of a night"),
        # The study's 11 runs, the first of which is discarded: that is the warm-up. One burst is one run there.
        Design(
            name="paper",
            epochs=1,
            blocks=10,
            alpha=0.05,
            judges=False,
            purpose="re-running a study with its own formulas; never judges",
            run_connections=1,
            # The study of routers does not tell; its tool, iperf, sends for 10 seconds.
            warmup_s=1.0,
            run_s=10.0,
            full_grid=True,
        ),
        # RFC 8219, sections 7.1 to 7.3: trials of 60 s, repeated 20 times; of latency the last 60 s of 120.
        Design(
            name=RFC8219,
            epochs=20,
            blocks=1,
            alpha=0.05,
            judges=True,
            purpose="as RFC 8219 measures transition technologies",
            warmup_s=60.0,
            run_s=60.0,
        ),
    )
}


def never_judges(design: str) -> str:
    """Return the sentence about every cell that was measured under a design of that name which never judges."""
    return f"unjudged: design {design} never judges"


def design_named(name: str) -> Design:
    """The design of that name, or a sentence that lists them."""
    if name not in DESIGNS:
        raise UsageError(f"design {name!r} does not exist; there are {', '.join(DESIGNS)}{did_you_mean(name, DESIGNS)}")
    return DESIGNS[name]
