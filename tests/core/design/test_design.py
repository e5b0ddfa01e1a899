"""Sizes of runs, which follow from a design."""

from dataclasses import replace

import pytest

from pytest_ipperf.core.design.design import DESIGNS

QUICK = DESIGNS["quick"]


@pytest.mark.parametrize(
    ("connections", "warmup", "counted"),
    [(1, 60, 300), (10, 6, 30), (100, 2, 3), (150, 2, 2), (300, 1, 1), (1000, 1, 1)],
)
def test_a_warm_up_holds_sixty_connections_and_two_bursts_as_far_as_a_run_does(connections, warmup, counted):
    assert (QUICK.warmup_bursts(connections), QUICK.bursts(connections)) == (warmup, counted)


@pytest.mark.parametrize("design", ["smoke", "paper"])
@pytest.mark.parametrize("connections", [1, 10, 100, 5000])
def test_designs_that_never_judge_have_full_warm_ups(design, connections):
    found = DESIGNS[design]
    assert found.warmup_bursts(connections) == found.bursts(connections)


def test_a_design_may_ask_for_full_warm_ups():
    full = replace(QUICK, warmup_connections=QUICK.run_connections)
    assert full.warmup_bursts(1) == full.bursts(1) == 300
