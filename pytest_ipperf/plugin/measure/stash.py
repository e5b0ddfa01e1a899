"""Stash keys under which the set-up of `measured` keeps results on its item, for the report of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ipperf.core.records.record import Record

if TYPE_CHECKING:  # imports scipy, which reports of tests do not need
    from pytest_ipperf.core.inference.verdict import Judgement

RECORD = pytest.StashKey[Record]()
"""Record of an item's cell, updated by every claim of the test."""
WITHIN = pytest.StashKey[Record | None]()
"""Record of an item's last claim that was within its margin."""
ASIDE: pytest.StashKey[dict[str, Judgement]] = pytest.StashKey()
"""Judgements of an item's limits and tails by what was asked; every record of the item has them as components."""
INVALID = pytest.StashKey[bool]()
"""True if the set-up of an item failed because its measurement is invalid, False if for another reason."""
