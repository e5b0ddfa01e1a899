"""Keys of what the set-up of `measured` keeps on its item for the report of the test."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.records.record import Record

RECORD = pytest.StashKey[Record]()
"""On an item: the record of its cell, which every claim of the test brings up to date."""
WITHIN = pytest.StashKey[Record | None]()
"""On an item: the record of the last claim that was within its margin."""
INVALID = pytest.StashKey[bool]()
"""On an item whose set-up failed: whether its measurement is invalid."""
