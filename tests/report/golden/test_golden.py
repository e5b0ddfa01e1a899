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


INNER = """\
import pytest
from tests.support.golden import golden

@pytest.mark.parametrize("word", ["one", "two"])
def test_word(golden, word):
    golden(word)

def test_alone(golden):
    golden("alone")
"""
SECTIONS = {"test_alone": "alone", "test_word[one]": "one", "test_word[two]": "two"}


@pytest.mark.parametrize("selected", ["test_inner.py", "test_inner.py::test_alone"])
@pytest.mark.parametrize("stale", ["", "test_gone", "test_word[three]"])
def test_a_section_is_stale_if_no_test_has_its_name_selected_or_not(pytester, monkeypatch, selected, stale):
    monkeypatch.delenv("IPPERF_RENEW_GOLDEN", raising=False)
    pytester.makepyfile(test_inner=INNER)
    sections = SECTIONS | ({stale: "stale"} if stale else {})
    text = "".join(f"=== {name}\n{sections[name]}\n" for name in sorted(sections))
    (pytester.path / "test_inner.txt").write_text(text)
    found = pytester.inline_run("-p", "no:randomly", "-p", "no:ipperf", selected)
    tests = 1 if "::" in selected else 3
    assert found.countoutcomes() == ([0, 0, tests] if stale else [tests, 0, 0])
