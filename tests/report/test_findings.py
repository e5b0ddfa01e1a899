"""What came of each cell, in the words that all reports share."""

import dataclasses
from pathlib import Path

import pytest

from pytest_ipperf.core.story import Story
from pytest_ipperf.report.findings import Kind, findings, verdict_name, verdict_of


def story_of(records, **change):
    told = Story(
        name="20261122T010000Z-5eed00", folder=Path("/r"), began_at=1795309200.0, seconds=90.0, question={},
        records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(told, **change)


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "within", "within margin"),
        ({"verdict": "exceeds"}, "exceeds", "exceeds margin"),
        ({"verdict": "measured"}, "measured", "measured, and nothing asked"),
        ({"verdict": "measured", "judges": False}, "measured", "measured, and nothing asked"),
        (
            {"verdict": "inconclusive", "judges": False, "reasons": ("never_judges",)},
            "measured", "measured; the design never judges",
        ),
    ],
)  # fmt: skip
def test_a_verdict_has_one_wording(told, change, name, words):
    record = dataclasses.replace(told.application("smtp", 10, "ipv6", 1.0), **change)
    assert (verdict_name(record), verdict_of(record)) == (name, words)
    assert [each.word for each in findings(story_of([record]))] == [words]


def test_what_a_design_that_never_judges_was_asked_is_undecided(told):
    """As its exit status is, and not as if nothing had been asked."""
    record = dataclasses.replace(told.application("smtp", 10, "ipv6", 1.0), verdict="inconclusive", judges=False)
    (found,) = findings(story_of([record]))
    assert (found.kind, found.code) == (Kind.UNDECIDED, "inconclusive")
