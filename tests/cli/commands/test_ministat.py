"""`pytest-ipperf ministat`: numbers in files, compared as ministat does."""

from __future__ import annotations

import dataclasses
import io

import pytest

from pytest_ipperf.report.studies.ministat import DataSet, comparison_reports, ministat_lines
from pytest_ipperf.store import read_session_summary
from tests.store.kept import keep, name_of, record

NEAR, FAR = (50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0), (150.0, 400.0, 720.0, 500.0, 930.0)
"""The numbers of the manual's example."""


@pytest.fixture
def files(tmp_path):
    for name, values in (("iguana", NEAR), ("chameleon", FAR)):
        (tmp_path / name).write_text("".join(f"{value:g} 7\n" for value in values))
    (tmp_path / "bad").write_text("1\n2x\n3\n")
    return tmp_path / "iguana"


def expected(**options):
    return [*ministat_lines([DataSet("iguana", NEAR), DataSet("chameleon", FAR)], **options)]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["-sw", "60"], {"separate": True, "width": 60}),
        (["-Ac80"], {"plots": False, "confidence": 80.0}),
        (["-q"], {"plots": False}),
        (["-n"], {"compares": False}),
    ],
)
def test_files_are_compared_with_the_options_of_the_program(program, files, arguments, options):
    status, lines, said = program(files, "ministat", *arguments, "iguana", "chameleon")
    assert (status, lines, said) == (0, expected(**options), "")


def test_the_manual_s_example_is_reproduced(program, files):
    _, lines, _ = program(files, "ministat", "-s", "-w", "60", "-c", "80", "iguana", "chameleon")
    assert lines[-4:] == [
        "Difference at 80.0% confidence", "\t240 +/- 212.215", "\t80% +/- 70.7384%",
        "\t(Student's t, pooled s = 264.159)",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [["-"], []])
def test_standard_input_is_a_file_too(program, files, monkeypatch, name):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n2\n3\n"))
    _, lines, _ = program(files, "ministat", "-n", *name)
    assert lines == [*ministat_lines([DataSet("<stdin>", (1.0, 2.0, 3.0))], compares=False)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-C", "0", "iguana"], "-C 0 is not a column; the first one is 1"),
        (["-C", "3", "iguana"], "data set iguana has 0 values; ministat needs at least 3"),
        (["gone"], "file gone cannot be read: No such file or directory"),
        (["iguana"] * 8, "ministat compares up to 7 files, not 8"),
        (["bad"], "line 2 of bad: '2x' is not a number"),
    ],
)
def test_what_is_wrong_is_named(program, files, arguments, sentence):
    assert program(files, "ministat", *arguments) == (4, [], f"pytest-ipperf: {sentence}\n")


def test_a_session_s_runs_are_compared_with_those_of_the_reference(program, tmp_path):
    root = tmp_path / ".ipperf"
    folder = keep(root, 0, [record(1), record(2, 1.3)])
    status, lines, _ = program(root, "show", "last", "--ministat")
    assert status == 0
    reports = [*comparison_reports(read_session_summary(folder).records)]
    assert lines[3:] == [line for report in reports for line in ("", *report)]
    assert lines[4] == "lab-http-c1-10k: response time per connection of each run, in ms"
    assert lines[5:7] == ["x ipv4", "+ ipv6"]
    assert sum(line == "Difference at 95.0% confidence" for line in lines) == 1
    _, some, _ = program(root, "show", name_of(0), "c2-", "--ministat")
    assert some[4].startswith("lab-http-c2-10k: ")
    assert program(root, "show", "c2-", "--ministat")[::2] == (
        4, "pytest-ipperf: --ministat shows the runs of a session, and 'c2-' is not one; use last\n"
    )  # fmt: skip


def test_arms_with_too_few_runs_are_named():
    whole = record(1)
    short = dataclasses.replace(whole, test=dataclasses.replace(whole.test, values=whole.test.values[:2]))
    assert [*comparison_reports([short])] == [[
        "lab-http-c1-10k: response time per connection of each run, in ms",
        "ministat needs at least 3 runs of an arm, and there are fewer of ipv6",
    ]]  # fmt: skip
