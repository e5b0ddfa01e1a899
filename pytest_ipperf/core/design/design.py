"""Designs: how much is measured and when it is judged, by name.

The figures are explained in docs/statistics.md. A look is one judgement of all data so far; its `alpha` is one-sided.
An arm decided at a look is not measured further (docs/decisions/0011-escalation-by-looks.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import StudySize


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Sizes, error rate and durations of a measurement.

    Each of the `looks` comes after `epochs` rebuilds of the testbed; each epoch has `blocks` that measure every arm
    once.
    `judges` is False if the data cannot support a verdict, or if the study gave none.
    `run_connections` is the least number of connections in a run: the burst of N is repeated until the run holds them
    (docs/decisions/0003-runs-of-300-connections.md).
    A warm-up run holds at least `warmup_connections`, or as many as a counted run if that has fewer
    (docs/decisions/0047-warm-ups-end-when-warm.md).
    A run of traffic flows for `run_s`, after `warmup_s` that is not counted.
    With `parts`, each run is made in that many parts: the runs of an arm in so many blocks follow each other. With
    `in_order`, all runs of an arm in an epoch do, and the arms are not in random order. `own_duration` says that the
    user gave `run_s`.
    `full_grid` selects the levels of the suite's `grid` marker instead of its everyday `levels`.
    """

    name: str
    epochs: int
    blocks: int
    alpha: float
    judges: bool
    purpose: str
    looks: int = 1
    run_connections: int = 300
    warmup_connections: int = 60
    warmup_s: float = 0.5
    run_s: float = 1.0
    full_grid: bool = False
    parts: int = 1
    in_order: bool = False
    own_duration: bool = False

    def bursts(self, connections: int) -> int:
        """Return the number of bursts in a run with `connections` at once."""
        return -(-self.run_connections // connections)

    def warmup_bursts(self, connections: int) -> int:
        """Return the number of bursts in a warm-up run: at least two, if a counted run has as many."""
        least = max(_WARMUP_BURSTS, -(-self.warmup_connections // connections))
        return min(least, self.bursts(connections))

    def warmup_run_s(self, longest_s: float) -> float:
        """Return the seconds of a flow in a warm-up run, of which the protocol's last `longest_s` at most."""
        return min(self.run_s, longest_s)

    def for_warmups(self, connections: int, longest_s: float) -> Design:
        """Return the design whose counted runs are as its warm-up runs, with `connections` at once."""
        least = connections * self.warmup_bursts(connections)
        return replace(self, run_connections=least, run_s=self.warmup_run_s(longest_s))

    @property
    def most_epochs(self) -> int:
        """Number of epochs of all looks."""
        return self.epochs * self.looks

    def for_study(self, study: StudySize | None) -> Design:
        """Return the design that repeats a study of that size; itself unless it is `paper`, or without a study."""
        if study is None or self.name != PAPER:
            return self
        run_s = self.run_s if self.own_duration or study.run_s is None else study.run_s
        return replace(self, epochs=study.epochs, blocks=study.blocks, run_s=run_s, in_order=study.in_order)

    def in_parts(self, longest_s: float) -> Design:
        """Return the design with runs of at most `longest_s` seconds, each longer one in parts of equal length."""
        parts = max(1, math.ceil(self.run_s / longest_s))
        if parts == self.parts == 1:
            return self
        return replace(self, blocks=parts * self.blocks, parts=parts, run_s=self.run_s / parts)

    def confirming(self) -> Design:
        """Return the design of the fresh epochs that confirm an excess: one look at runs of the same size.

        It is as large as design `confirmation` at least, except that epochs of a single block keep that.
        """
        least = DESIGNS[CONFIRMATION]
        blocks = max(self.blocks, least.blocks) if self.blocks > 1 else 1
        return replace(self, epochs=max(self.epochs, least.epochs), blocks=blocks, looks=1)

    def size_text(self) -> str:
        """Describe the size of the design: `6 epochs x 2 blocks`, `1 to 5 looks of 6 epochs x 2 blocks`."""
        scale = f"{self.epochs} epochs x {self.blocks} blocks"
        return scale if self.looks == 1 else f"1 to {self.looks} looks of {scale}"


# The first burst starts the processes that a server forks on demand; the second meets them.
_WARMUP_BURSTS = 2

PAPER = "paper"
"""Name of the design that repeats a study."""

RFC8219 = "rfc8219"
"""Name of the design whose repetitions are also reported by median and percentiles (RFC 8219, sections 7.2 and 7.3)."""

CONFIRMATION = "confirmation"
"""Name of the design of fresh epochs, by which a night measures its flagged cells again."""

# All cells are screened; flagged ones are measured again in fresh epochs of the same size (core/nightly/gate.py). The
# median of six blocks tolerates two slow runs, and twice the blocks of half the size tell more in the same time
# (docs/decisions/0042-more-blocks-of-shorter-runs-at-night.md).
_NIGHTLY = Design(
    name="nightly",
    epochs=10,
    blocks=6,
    alpha=0.05,
    judges=True,
    purpose="the gate of a night",
    run_connections=150,
    run_s=0.5,
)

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
        # The level at which five looks with a t test of so few epochs are jointly wrong as often as one look at 5 %;
        # Pocock's own level is for known variances (docs/decisions/0040-five-looks-of-six-epochs.md).
        Design(
            name="standard",
            epochs=6,
            blocks=2,
            looks=5,
            alpha=0.0158,
            judges=True,
            purpose="a decision",
            run_s=2.0,
        ),
        _NIGHTLY,
        replace(_NIGHTLY, name=CONFIRMATION, purpose="the fresh epochs of a night's flagged cells"),
        # The study made 11 runs of one burst and discarded the first, which is the warm-up here.
        Design(
            name=PAPER,
            epochs=1,
            blocks=10,
            alpha=0.05,
            judges=False,
            purpose="re-running a study with its own formulas; never judges",
            run_connections=1,
            # The router study does not state a duration; iperf, its tool, sends for 10 seconds by default.
            warmup_s=1.0,
            run_s=10.0,
            full_grid=True,
        ),
        # RFC 8219, sections 7.1 to 7.3: 20 trials of 60 s each; latency uses the last 60 s of 120.
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
    """Return the sentence about a cell measured under `design`, which never judges."""
    return f"unjudged: design {design} never judges"


def design_named(name: str) -> Design:
    """Return the design called `name`; raise UsageError listing the designs if there is none."""
    if name not in DESIGNS:
        raise UsageError(f"design {name!r} does not exist; there are {', '.join(DESIGNS)}{did_you_mean(name, DESIGNS)}")
    return DESIGNS[name]
