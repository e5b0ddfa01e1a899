"""Each report of one fixed set of records is, as a whole, its golden file in `expected/`.

After a change of a report, `IPPERF_RENEW_GOLDEN=1 pytest tests/report/golden` renews the files, and fails for each one
that has changed. Read what `git diff` shows before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.report.golden.reports import Reports, rounded

EXPECTED = Path(__file__).parent / "expected"
NAMES = sorted(name for name in vars(Reports) if not name.startswith("_"))


@pytest.fixture(scope="module")
def reports(factory, made):
    return Reports(factory, made)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_its_golden_file(reports, name):
    text = rounded(getattr(reports, name)()).replace("\r\n", "\n").rstrip("\n") + "\n"
    path = EXPECTED / f"{name}.txt"
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != expected and "IPPERF_RENEW_GOLDEN" in os.environ:
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was renewed; read its difference and run again without IPPERF_RENEW_GOLDEN")
    assert text.splitlines() == expected.splitlines()


def test_every_golden_file_has_a_report():
    assert sorted(path.name for path in EXPECTED.iterdir()) == [f"{name}.txt" for name in NAMES]
