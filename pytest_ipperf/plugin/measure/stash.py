"""Stash keys under which the set-up of `measured` keeps results on its item, for the report of the test."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.records.record import Record

RECORD = pytest.StashKey[Record]()
"""Record of an item's cell, updated by every claim of the test."""
WITHIN = pytest.StashKey[Record | None]()
"""Record of an item's last claim that was within its margin."""
INVALID = pytest.StashKey[bool]()
"""Whether the measurement of an item is invalid, if its set-up failed."""
