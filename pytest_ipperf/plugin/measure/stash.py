"""Stash keys under which the set-up of `measured` keeps results on its item, for the report of the test."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.records.record import Record

RECORD = pytest.StashKey[Record]()
"""Record of an item's cell, updated by every claim of the test."""
WITHIN = pytest.StashKey[Record | None]()
"""Record of an item's last claim that was within its margin."""
INVALID = pytest.StashKey[bool]()
"""True if the set-up of an item failed because its measurement is invalid, False if for another reason."""
