"""Each report of one fixed set of records is its golden file in `expected/` (see `tests/support/golden.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.golden.reports import Reports, rounded
from tests.support.golden import compare_file

EXPECTED = Path(__file__).parent / "expected"
NAMES = sorted(name for name in vars(Reports) if not name.startswith("_"))


@pytest.fixture(scope="module")
def reports(factory, made):
    return Reports(factory, made)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_its_golden_file(reports, name):
    text = rounded(getattr(reports, name)()).replace("\r\n", "\n").rstrip("\n") + "\n"
    compare_file(EXPECTED / f"{name}.txt", text)


def test_every_golden_file_has_a_report():
    assert sorted(path.name for path in EXPECTED.iterdir()) == [f"{name}.txt" for name in NAMES]
