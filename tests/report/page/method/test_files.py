"""Files and glossary of a session: links that lead somewhere, and terms that are defined."""

import dataclasses
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.page.method.files import files, size_text
from pytest_ipperf.report.page.method.glossary import _TERMS, glossary, term_id, with_terms


@pytest.fixture
def summary(tmp_path):
    return SessionSummary(name="s", folder=tmp_path, began_at=0.0, seconds=1.0, question={}, records=())


def test_files_are_linked_relative_to_the_page_with_their_sizes(summary):
    (summary.folder / "tables").mkdir()
    (summary.folder / "main.jsonl").write_bytes(b"x" * 1234)
    (summary.folder / "tables" / "odd #1 & <b>.csv").write_bytes(b"x")
    found = files(summary)
    links = re.findall('href="([^"]+)"', found)
    assert [unquote(link.replace("&amp;", "&")) for link in links] == ["main.jsonl", "tables/odd #1 & <b>.csv"]
    assert all((summary.folder / unquote(link)).is_file() for link in links)
    assert "1.23 kB" in found
    assert "<b>" not in found
    assert "pytest-ipperf export s --format csv" in found


def test_many_files_of_a_folder_are_folded(summary):
    (summary.folder / "captures").mkdir()
    for number in range(13):
        (summary.folder / "captures" / f"{number}.pcap").touch()
    assert "<summary>Files in captures (13)</summary>" in files(summary)


def test_a_folder_that_is_gone_has_no_files(summary):
    assert files(summary) == ""
    assert files(dataclasses.replace(summary, folder=Path("/nowhere"))) == ""


def test_sizes_are_those_people_read():
    assert [size_text(count) for count in (0, 999, 1500, 2_500_000, 3_000_000_000)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3 GB",
    ]


def test_every_link_to_a_term_leads_to_its_definition():
    found = with_terms("All epochs of a cell have blocks; an epoch has a twin & Holm <b>.")
    assert re.findall('href="#(term-[^"]+)"', found) == [
        "term-epoch", "term-cell", "term-block", "term-twin", "term-holm",
    ]  # fmt: skip
    assert found.count("term-epoch") == 1, "the first mention alone"
    assert "&lt;b&gt;" in found
    defined = re.findall('id="(term-[^"]+)"', glossary())
    assert len(defined) == len(set(defined)) == len(_TERMS)
    assert {term_id(term) for term in _TERMS} == set(defined)
