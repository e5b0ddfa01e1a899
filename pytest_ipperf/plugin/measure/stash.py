"""Stash keys under which the set-up of `measured` keeps results on its item, for the report of the test."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.measure.answers import Answers

ANSWERS = pytest.StashKey[Answers]()
"""Answers that an item's test has got."""
INVALID = pytest.StashKey[bool]()
"""True if the set-up of an item failed because its measurement is invalid, False if for another reason."""
IN_CALL = pytest.StashKey[bool]()
"""True while the body of an item's test runs, and False after it."""


def answers_of(item: pytest.Item) -> Answers:
    """Return the answers of an item, to add one; raise UsageError once its test has ended: its record is complete."""
    if ANSWERS not in item.stash or not item.stash.get(IN_CALL, True):
        raise UsageError(
            f"{item.nodeid}: its measurement was compared after the test had ended, when its record was complete; "
            "compare it in the body of the test"
        )
    return item.stash[ANSWERS]
