"""Known delays: what a wire holds back by d ms makes the phase that waits for it d ms longer, and no other.

Runs with and without a delay take turns. The truth is what the wire itself measured: by how much the phase grew as its
client's side saw it, in which the delay is contained. Medians over the connections of a run, then over the rounds.

At N = 1 a phase with a delay is compared with the phase without any. At N = 100 the client opens all its connections
before it looks for the first answer, so a part of any delay passes while nobody waits for it. Therefore there is a
delay in every phase, longer than the opening, and one of them is made longer still.
"""

from __future__ import annotations

import itertools
import random
import statistics
from dataclasses import dataclass

import pytest

from pytest_ipperf.core.cell import Workload

PHASES = ("dns", "connect", "first_byte", "total")
BASE_S = {1: 0.0, 100: 0.01}
BURSTS = {1: 15, 100: 1}
ATTEMPTS = 3


def tolerance_s(delay_s):
    return max(0.0002, 0.02 * delay_s)


@dataclass(frozen=True)
class Change:
    """Of one phase, because one was delayed: what the wire held and saw, and what the instrument says, in seconds."""

    delayed: str
    phase: str
    held_s: float
    seen_s: float
    said_s: float

    @property
    def error_s(self):
        return self.said_s - self.seen_s


def medians(values):
    return {phase: statistics.median(values[phase]) for phase in PHASES}


def observed(bench, ipver, service, workload, holds):
    """Medians of one run by phase: held, seen, said."""
    bench.wire.hold(**holds)
    rows = bench.measure(ipver, service, workload, BURSTS[workload.connections])
    held, seen = bench.wire.hold(**holds)
    said = {phase: [row[phase] - row.get(before, 0.0) for row in rows]
            for before, phase in itertools.pairwise(("", *PHASES))}  # fmt: skip
    return medians(held), medians(seen), medians(said)


def changes(bench, ipver, connections, *, delay_s, rounds, base_s=None):
    """What each delayed phase did to all phases: medians of the rounds."""
    workload = Workload(testbed="lab", protocol="smtp", client="lean", connections=connections, payload_bytes=1024)
    service = bench.null(workload)
    base = dict.fromkeys(PHASES, BASE_S[connections] if base_s is None else base_s)
    rng = random.Random(f"{ipver} {connections} {delay_s}")
    observed(bench, ipver, service, workload, base)
    found: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(rounds):
        runs = {}
        for delayed in rng.sample(("", *PHASES), 1 + len(PHASES)):
            holds = {phase: each + delay_s * (phase == delayed) for phase, each in base.items()}
            runs[delayed] = observed(bench, ipver, service, workload, holds)
        for delayed, phase in itertools.product(PHASES, PHASES):
            grown = [after[phase] - before[phase] for after, before in zip(runs[delayed], runs[""], strict=True)]
            found.setdefault((delayed, phase), []).append(grown)
    return [
        Change(*pair, *(statistics.median(each) for each in zip(*grown, strict=True))) for pair, grown in found.items()
    ]


def wrong(found, delay_s):
    return [each for each in found if abs(each.error_s) > tolerance_s(delay_s)]


@pytest.mark.parametrize("ipver", [4, 6])
@pytest.mark.parametrize("connections", [1, 100])
def test_a_known_delay_is_found_in_its_phase_and_in_no_other(wired, connections, ipver):
    delay_s = 0.02
    # What else goes on in a machine passes; what an instrument does wrong stays.
    for _ in range(ATTEMPTS):
        found = changes(wired, ipver, connections, delay_s=delay_s, rounds=3)
        if not wrong(found, delay_s):
            break
    assert not wrong(found, delay_s)
    for each in found:
        assert each.phase != each.delayed or each.held_s > delay_s - 0.002


@pytest.mark.evidence
@pytest.mark.parametrize("delay_ms", [1, 5, 20, 100])
@pytest.mark.parametrize("connections", [1, 100])
def test_known_delays_of_many_sizes_are_found(wired, tell, connections, delay_ms):
    delay_s = delay_ms / 1e3
    for ipver in (4, 6):
        found = changes(wired, ipver, connections, delay_s=delay_s, rounds=9)
        for each in found:
            if each.phase == each.delayed:
                others = max((c.error_s for c in found if c.delayed == each.delayed and c.phase != c.delayed), key=abs)
                tell(
                    f"| {each.phase} | {connections} | IPv{ipver} | {1e3 * each.held_s:.3f} | {1e3 * each.seen_s:.3f} "
                    f"| {1e3 * each.said_s:.3f} | {1e3 * each.error_s:+.3f} | {1e3 * others:+.3f} |"
                )
        assert not wrong(found, delay_s)


@pytest.mark.evidence
def test_how_much_of_a_delay_passes_while_a_hundred_connections_are_opened(wired, tell):
    """No fault, but to be known: without a delay in every phase the opening hides a part of one."""
    for ipver in (4, 6):
        for each in changes(wired, ipver, 100, delay_s=0.02, rounds=9, base_s=0.0):
            if each.phase == each.delayed:
                tell(
                    f"| {each.phase} | 100, from nothing | IPv{ipver} | {1e3 * each.held_s:.3f} "
                    f"| {1e3 * each.seen_s:.3f} | {1e3 * each.said_s:.3f} | {1e3 * each.error_s:+.3f} | |"
                )
