"""What the A/A check found, in one sentence that says first whether it passed."""

import pytest

from pytest_ipperf.core.nightly.aa_check import AACheck, by_chance
from pytest_ipperf.report.answer.aa_check import aa_check_finding, aa_check_text


def check(cells, excludes):
    return AACheck(cells=cells, excludes=excludes, at_most=by_chance(cells, 0.05), confidence=0.95)


@pytest.mark.parametrize(
    ("cells", "excludes", "sentence"),
    [
        (6, 0, "passed: the reference differed from its twin (by a 95 % interval) in 0 of 6 cells, and chance gives 3"),
        (4, 4, "failed: the reference differed from its twin (by a 95 % interval) in 4 of 4 cells, and chance gives 2"),
        (2, 1, ": says nothing, as it needs 3 cells with a twin and there are 2; the reference differed from its twin"),
        (1, 0, ": says nothing, as it needs 3 cells with a twin and there is 1; the reference differed from its twin"),
    ],
)
def test_the_sentence_says_first_whether_it_passed(cells, excludes, sentence):
    found = check(cells, excludes)
    assert aa_check_finding(found).removeprefix("A/A check").lstrip().startswith(sentence)
    unstable = ": the environment is unstable, and the other differences cannot be trusted"
    assert aa_check_text(found).endswith(unstable) == (cells == 4)


def test_of_too_few_cells_it_says_how_many_differed():
    assert aa_check_finding(check(2, 1)).endswith("(by a 95 % interval) in 1 of 2")


def test_without_twins_there_is_none():
    assert aa_check_text(None) == "A/A check: none, as the reference had no twin"
