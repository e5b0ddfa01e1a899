"""Rare outages: how much of them pooled runs can have missed, and what is said of it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.nightly.outages import RunCount, missed_share, outage_sentence


@pytest.mark.parametrize(("runs", "percent"), [(12, 22.1), (30, 9.5), (90, 3.3), (412, 0.72)])
def test_the_share_that_can_have_been_missed(runs, percent):
    assert 100 * missed_share(runs) == pytest.approx(percent, abs=0.05)


@given(st.integers(1, 10_000))
def test_an_outage_of_that_share_is_missed_in_one_of_twenty(runs):
    assert (1 - missed_share(runs)) ** runs == pytest.approx(0.05)


def test_an_outage_of_that_share_is_missed_as_often_as_computed():
    """The standard error of 4000 sessions is 0.34 points."""
    rng, share = random.Random(20261122), missed_share(30)
    missed = sum(all(rng.random() >= share for _ in range(30)) for _ in range(4000))
    assert missed / 4000 == pytest.approx(0.05, abs=0.014)


CASES = {
    "one cell": ({"a": (412, 0, 14)}, ("0 of 412 runs over 14 nights lost a connection: an outage that hits fewer "
                 "than 0.72 % of runs can have been missed")),
    "one night": ({"a": (30, 0, 1)}, ("0 of 30 runs over 1 night lost a connection: an outage that hits fewer "
                  "than 9.5 % of runs can have been missed")),
    "cells": ({"a": (412, 0, 14), "b": (30, 0, 1)}, ("0 of 442 runs of 2 cells over 14 nights lost a connection: in a "
              "cell without one, an outage that hits fewer than 9.5 % of its runs can have been missed")),
    "some hit": ({"a": (400, 4, 14), "b": (412, 0, 14), "c": (40, 2, 2)}, ("6 of 852 runs of 3 cells over 14 nights "
                 "lost a connection, most in c (2 of 40): in a cell without one, an outage that hits fewer than 0.72 % "
                 "of its runs can have been missed")),
    "all hit": ({"a": (40, 4, 2)}, "4 of 40 runs over 2 nights lost a connection, most in a (4 of 40)"),
    "nothing counted": ({"a": (0, 0, 0)}, ""),
    "no cell": ({}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_sentence(case):
    counts, sentence = CASES[case]
    found = {cell: RunCount(runs=runs, hit=hit, nights=nights) for cell, (runs, hit, nights) in counts.items()}
    assert outage_sentence(found) == sentence
