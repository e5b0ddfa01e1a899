"""What disagrees in every attempt counts, and nothing else."""

from __future__ import annotations

import pytest

from tests.support.attempts import lasting

pytestmark = pytest.mark.unit


def test_a_disturbance_of_another_comparison_in_each_attempt_passes():
    attempts = iter([{"dns": 300, "total": 250}, {"connect": 900}, {"never made": 1}])
    assert lasting(attempts) == {}
    assert next(attempts) == {"never made": 1}


def test_the_comparison_that_every_attempt_fails_stays_with_its_values():
    assert lasting([{"dns": 300, "total": 250}, {"total": 260}, {"total": -270, "dns": 300}]) == {
        "total": [250, 260, -270]
    }


def test_an_attempt_without_a_disagreement_is_the_last():
    attempts = iter([{}, {"total": 250}])
    assert lasting(attempts) == {}
    assert next(attempts) == {"total": 250}


def test_no_attempt_is_no_agreement():
    with pytest.raises(AssertionError, match="no attempt was made"):
        lasting([])
