"""Files of numbers, the figures of ministat's conventions, and what it refuses."""

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.studies.ministat import CONFIDENCES, DataSet, ministat_lines, read_data_set
from pytest_ipperf.report.studies.ministat.student_t import table_value


def lines(*sets, **options):
    return [*ministat_lines([DataSet(f"set{number}", values) for number, values in enumerate(sets)], **options)]


@pytest.mark.parametrize(
    ("text", "options", "values"),
    [
        ("1 2\n2 3\n\n# c\n3 4 # x\n4 5 6\n5 #7\n", {}, [1, 2, 3, 4, 5]),
        ("1 2\n2 3\n\n# c\n3 4 # x\n4 5 6\n5 #7\n", {"column": 2}, [2, 3, 4, 5]),
        ("1,2\n3,4\n5,6\n", {"column": 2, "delimiters": ","}, [2, 4, 6]),
        ("  1\n\t2\n 3 \n4", {}, [1, 2, 3, 4]),
        ("1\r\n2\r\n3\r\n", {}, [1, 2, 3]),
        ("0x10\n1e3\n-5\n+.5\n", {}, [16, 1000, -5, 0.5]),
    ],
)
def test_the_numbers_of_a_column_are_read(text, options, values):
    assert read_data_set("a", text.splitlines(keepends=True), **options).values == values


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1\n2x\n3\n", "line 2 of a: '2x' is not a number"),
        ("1\n2;3\n3\n", "line 2 of a: '2;3' is not a number"),
        ("1\nnan\n3\n", "line 2 of a: 'nan' is not a number"),
        ("1\n2\n", "data set a has 2 values; ministat needs at least 3"),
        ("1\n2\n1e200\n", "data set a: ministat cannot square 1e+200; scale the values"),
    ],
)
def test_what_is_no_data_set_is_refused_with_its_place(text, sentence):
    with pytest.raises(UsageError) as caught:
        read_data_set("a", text.splitlines())
    assert str(caught.value) == sentence


def test_the_variance_is_that_of_one_pass():
    assert DataSet("a", (1e9, 1e9, 1000000000.0001)).deviation == 0
    assert DataSet("a", range(1, 11)).median == 6


def test_the_table_ends_at_a_hundred_degrees_of_freedom():
    assert [table_value(95.0, degrees) for degrees in (4, 58, 100, 101, 10_000)] == [2.776, 2.002, 1.984, 1.96, 1.96]
    assert [table_value(level, 18) for level in CONFIDENCES] == [1.33, 1.734, 2.101, 2.552, 2.878, 3.61]


def test_a_difference_and_none():
    assert lines((1, 2, 3), (11, 12, 13), plots=False)[-4:] == [
        "Difference at 95.0% confidence", "\t10 +/- 2.26659", "\t500% +/- 113.33%", "\t(Student's t, pooled s = 1)"
    ]  # fmt: skip
    assert lines((1, 2, 3), (2, 3, 4))[-1] == "No difference proven at 95.0% confidence"
    assert len(lines((1, 2, 3), (2, 3, 4), compares=False)) == 5


def test_a_lower_set_cuts_off_those_before_it():
    """As in the original: two of three equal values are not seen."""
    alone, both = lines((1, 1, 1, 5), width=9, separate=True), lines((1, 1, 1, 5), (2, 3, 4), width=9, separate=True)
    assert alone[2:5] == ["|  x      |", "|  x      |", "|  x     x|"]
    assert both[3:6] == ["|  x+ ++ x|", "||_MA__|  |", "|   |_A|  |"]


def test_a_plot_without_a_span_says_so():
    assert lines((7, 7, 7), (7, 7, 7))[2] == "[no plot, span is zero width]"


@pytest.mark.parametrize(
    ("count", "options", "sentence"),
    [
        (8, {}, "ministat compares 1 to 7 data sets, not 8"),
        (2, {"confidence": 97.0},
         "ministat has no table for a confidence of 97 %; there are 80, 90, 95, 98, 99, 99.5"),
        (2, {"width": 1}, "a plot of ministat has at least 2 columns, not 1"),
    ],
)  # fmt: skip
def test_what_ministat_cannot_do_is_refused(count, options, sentence):
    with pytest.raises(UsageError) as caught:
        lines(*[(1, 2, 3)] * count, **options)
    assert str(caught.value) == sentence
