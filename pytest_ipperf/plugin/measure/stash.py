"""Stash keys under which the set-up of `measured` keeps results on its item, for the report of the test."""

from __future__ import annotations

import pytest

from pytest_ipperf.plugin.measure.answers import Answers

ANSWERS = pytest.StashKey[Answers]()
"""Answers that an item's test has got."""
INVALID = pytest.StashKey[bool]()
"""True if the set-up of an item failed because its measurement is invalid, False if for another reason."""
