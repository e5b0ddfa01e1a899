import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.nightly.aa_check import AACheck, aa_check_of, by_chance
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS


def metric_of(name):
    return METRICS[name].metric


def tail(cells: int, more_than: int, share: float) -> float:
    return sum(math.comb(cells, n) * share**n * (1 - share) ** (cells - n) for n in range(more_than + 1, cells + 1))


@pytest.mark.parametrize(("cells", "most"), [(1, 1), (2, 2), (3, 2), (6, 3), (10, 3), (20, 5), (40, 7), (100, 13)])
def test_what_chance_gives_is_known_by_heart(cells, most):
    assert by_chance(cells, 0.05) == most


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_of_too_few_twins_no_outcome_fails_the_check(confidence):
    least = AACheck(cells=1, excludes=0, at_most=1, confidence=confidence).fewest
    for cells in range(1, 6):
        found = AACheck(cells=cells, excludes=cells, at_most=by_chance(cells, 1 - confidence), confidence=confidence)
        assert found.can_fail == (not found.stable) == (cells >= least)
        assert found.fewest == least


@given(st.integers(1, 300), st.floats(0.01, 0.2))
def test_more_than_chance_gives_comes_once_in_a_thousand_times(cells, share):
    most = by_chance(cells, share)
    assert tail(cells, most, share) <= 0.0011
    assert most == 0 or tail(cells, most - 1, share) > 0.001


def record(number: int, ratios, *, look=1, blocks=2, twin=True, low: float | None = 0.0) -> Record:
    def side(arm, values):
        return ArmSummary(arm=arm, values=tuple(values), attempted=1, completed=1, failed={}, phases={})

    facts: dict[str, Any] = {
        "cell": f"lab-smtp-c{number}-1k-ipv4-twin", "testbed": "lab", "protocol": "smtp", "connections": number,
        "payload_bytes": 1024, "ipver": 4, "transport": "native", "twin": twin, "client": "lean", "server": "postfix",
        "metric": "response_time", "design": "standard", "judges": True, "seed": 1, "look": look, "looks": 3,
        "epochs": len(ratios) // blocks, "blocks": blocks, "deadline_s": 10.0, "estimate": 0.0, "low": low, "high": 0.0,
        "confidence": 0.95, "sd_epoch": 0.02, "sd_block": 0.03, "margin": "", "margin_fraction": None, "alpha": 0.0221,
        "verdict": "measured", "reasons": (), "sentence": "", "test": side("ipv4-twin", [0.01 * r for r in ratios]),
        "reference": side("ipv4", [0.01] * len(ratios)),
    }  # fmt: skip
    return Record(**facts)


def noise(rng, count, ratio=1.0):
    return [ratio * math.exp(rng.gauss(0, 0.02)) for _ in range(count)]


def test_only_twins_are_watched_and_each_cell_once():
    rng = random.Random(1)
    one, two = record(1, noise(rng, 20)), record(2, noise(rng, 20, 1.2))
    found = aa_check_of([one, two, two, record(3, noise(rng, 20, 1.2), twin=False)], metric_of)
    assert found is not None
    assert (found.cells, found.excludes, found.at_most, found.stable) == (2, 1, 2, True)


def test_without_a_twin_that_has_an_interval_there_is_nothing_to_tell():
    assert aa_check_of([record(1, [1.0, 1.1], twin=False)], metric_of) is None
    assert aa_check_of([record(1, [1.0, 1.1], low=None)], metric_of) is None


def test_an_environment_that_makes_differences_of_its_own_is_unstable():
    rng = random.Random(1)
    found = aa_check_of([record(number, noise(rng, 20, 1.2)) for number in range(1, 5)], metric_of)
    assert found is not None
    assert (found.excludes, found.stable) == (4, False)


def test_the_first_look_counts_whatever_came_later():
    """Two looks of 5 epochs x 2 blocks: the first clearly excludes 0, both together do not."""
    first, second = [1.10, 1.11, 1.12, 1.13, 1.11, 1.12, 1.10, 1.13, 1.12, 1.11], [0.9] * 10
    for ratios, excludes in ((first + second, 1), (second[:5] + first[:5] + first, 0)):
        found = aa_check_of([record(1, ratios, look=2)], metric_of)
        assert found is not None
        assert found.excludes == excludes


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=10), st.sampled_from(["median", "mean"]))
def test_an_interval_is_that_of_the_effect(ratios, location):
    found = aa_check_of([record(1, ratios, blocks=1)], lambda name: replace(metric_of(name), location=location))
    assert found is not None
    assert found.excludes == t_interval([math.log(0.01 * r / 0.01) for r in ratios], 0.95).excludes_zero


@given(st.lists(st.floats(0, 1), min_size=2, max_size=10))
def test_shares_are_compared_by_their_difference(shares):
    lost = replace(record(1, [100 * share for share in shares], blocks=1), metric="loss")
    found = aa_check_of([lost], metric_of)
    assert found is not None
    assert found.excludes == t_interval([share - 0.01 for share in lost.test.values], 0.95).excludes_zero


def test_a_cell_counts_by_the_first_of_its_metrics():
    rng = random.Random(1)
    slow, lossless = record(1, noise(rng, 20, 1.2)), replace(record(1, [1.0] * 20), metric="loss")
    for first, excludes in ((slow, 1), (lossless, 0)):
        found = aa_check_of([first, slow, lossless], metric_of)
        assert found is not None
        assert (found.cells, found.excludes) == (1, excludes)
