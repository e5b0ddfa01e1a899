"""Presets of payloads, as markers and options name them."""

import re
from pathlib import Path

import pytest

from pytest_ipperf.core.design.payload_preset import PRESETS, expanded, parse_payload
from pytest_ipperf.core.portable.errors import UsageError

# Sizes that the text of paper 004 names (sections 4, 4.1, 4.2, 4.4 and 4.5).
NAMED = {32, 768, 896, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 4096, 8192, 32768, 65496}


def test_the_preset_of_paper_004_has_all_sizes_that_its_text_names_in_even_steps():
    sizes = PRESETS["kharche"]
    assert set(sizes) >= NAMED
    assert list(sizes) == sorted(set(sizes))
    assert {size % 128 for size in sizes[1:-1]} == {0}
    assert {after / before for before, after in zip(sizes[-5:-2], sizes[-4:-1], strict=True)} == {2}


def test_a_preset_stands_for_its_sizes_and_any_other_level_for_itself():
    assert expanded("kharche") == parse_payload("kharche") == PRESETS["kharche"]
    assert (expanded("1k"), expanded(100), expanded([1])) == (("1k",), (100,), ([1],))
    assert (parse_payload("1k"), parse_payload(100)) == ((1024,), (100,))


@pytest.mark.parametrize(
    ("text", "end"),
    [("karche", ", and no preset of sizes such as kharche; did you mean 'kharche'?"), ("1parsec", ""), ("", "")],
)
def test_any_other_text_is_neither(text, end):
    said = f"size {text!r} is not a whole number of bytes such as 512, 1k or 2m{end}"
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        parse_payload(text)


def test_the_page_of_the_study_lists_the_sizes():
    page = (Path(__file__).parents[3] / "docs" / "paper-004.md").read_text(encoding="utf-8")
    listed = re.search(r"`kharche`, the sizes ([\d,\sand]+) bytes", page)
    assert listed
    assert tuple(map(int, re.findall(r"\d+", listed[1]))) == PRESETS["kharche"]
