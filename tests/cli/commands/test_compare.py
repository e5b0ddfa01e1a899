"""`pytest-ipperf compare`: the lines of the report, and the exit status."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.records.comparison import comparison
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal.comparison import lines
from pytest_ipperf.store import Archive
from tests.store.kept import keep, name_of, record


def wanted(root, then, now, *, margin=None, everything=False):
    archive = Archive(root)
    both = [archive.history_entries(archive.find(name)) for name in (now, then)]
    archive.close()
    found = comparison(both[0], both[1], lambda name: METRICS[name].metric, margin=margin)
    return lines(found, then, now, everything=everything)


def test_what_became_worse_is_told_and_is_status_1(program, history):
    status, output, said = program(history, "compare", name_of(3), "main")
    assert (status, said) == (1, "")
    assert output == wanted(history, name_of(3), name_of(23))
    assert [line.split()[:2] for line in output[:-1]] == [["EXCEEDS", "lab-http-c2-10k-ipv6"]]
    assert output[-1] == f"from {name_of(3)} to {name_of(23)}: 2 within, 1 exceeds"


def test_the_page_is_written_beside_the_answer(program, history, tmp_path):
    page = tmp_path / "compared.html"
    status, lines, said = program(history, "compare", name_of(11), name_of(12), "--page", page)
    assert (status, said, lines[-1]) == (1, "", f"page: {page}")
    text = page.read_text(encoding="utf-8")
    assert f"A is session <b>{name_of(11)}</b> (3 December 2026, 01:30 UTC), B is session <b>{name_of(12)}<" in text
    assert "<h1>B is worse than A in " in text
    nowhere = tmp_path / "nowhere" / "page.html"
    status, _, said = program(history, "compare", "last", "--page", nowhere)
    assert status == 1
    assert f"--page: {nowhere} cannot be written" in said


def test_what_became_better_is_told_and_is_status_0(program, history):
    status, output, _ = program(history, "compare", "main", name_of(3))
    assert status == 0
    assert output[0].startswith("BETTER lab-http-c2-10k-ipv6 response_time: the change was +2")
    assert output[-1].endswith(": 3 within, 1 of those within better by more than its margin")


def test_a_margin_counts_in_place_of_the_cells_own(program, history):
    status, output, _ = program(history, "compare", name_of(3), name_of(23), "--margin", "40%", "--all")
    assert status == 0
    assert output == wanted(history, name_of(3), name_of(23), margin=Margin.parse("40%"), everything=True)
    assert len(output) == 4


def test_where_nothing_could_be_decided_it_is_status_10(program, history):
    status, output, _ = program(history, "compare", name_of(24), name_of(23))
    assert (status, output[0]) == (
        10,
        f"UNJUDGED lab-http-c1-10k-ipv6 response_time: {name_of(24)} has 1 epoch of it, too few to judge",
    )
    assert output[-1].endswith(": 1 unjudged")
    status, output, _ = program(history, "compare", name_of(24), name_of(24))
    assert status == 10


@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_a_twin_alone_decides_nothing(program, tmp_path, ratio):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1, cell="lab-http-c1-10k-ipv4-twin", twin=True), record(1, spread=0.2, seed=1)])
    keep(root, 1, [record(1, ratio, cell="lab-http-c1-10k-ipv4-twin", twin=True), record(1, spread=0.2, seed=2)])
    status, output, _ = program(root, "compare", "last")
    assert (status, output[-1]) == (
        10, f"from {name_of(0)} to {name_of(1)}: 1 inconclusive; 1 twin of the reference not counted",
    )  # fmt: skip


def test_the_later_session_is_the_last_if_none_is_named(program, history):
    status, output, _ = program(history, "compare", "main")
    assert (status, output[-1]) == (0, f"from {name_of(23)} to {name_of(26)}: 1 within")


def test_last_alone_is_compared_with_the_one_before(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)], saved="main")
    keep(root, 1, [record(1, 1.3)], saved="other")
    keep(root, 2, [record(1)], saved="main")
    keep(root, 3, [record(1, 1.3)], saved="other.fresh")
    keep(root, 4, [record(1, 1.3)], saved="main")
    for asked, then, status in (("last", 2, 1), ("main", 2, 1), ("last~1", 2, 1), ("last~2", 1, 0), ("other", 1, 0)):
        found, output, said = program(root, "compare", asked)
        assert (found, said) == (status, "")
        assert output[-1].startswith(f"from {name_of(then)} to {name_of(4)}: "), asked


@pytest.mark.parametrize("asked", ["last", "main", name_of(0)])
def test_a_session_with_none_before_it_is_compared_with_nothing(program, tmp_path, asked):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1)], saved="main")
    status, output, said = program(root, "compare", asked)
    sentence = f"session {name_of(0)} is the last, and {asked!r} names no earlier one to compare it with"
    assert (status, output, said) == (4, [], f"pytest-ipperf: {sentence}\n")


def test_folders_elsewhere_need_no_folder_of_records(program, tmp_path):
    one = keep(tmp_path / "a", 0, [record(1)])
    other = keep(tmp_path / "b", 1, [record(1, 1.3), record(1, 1.3, margin="50%"), record(2)])
    (tmp_path / "x").mkdir()
    status, output, _ = program(tmp_path / "x" / "y", "compare", one, other)
    assert status == 1
    assert output[0].endswith("lies beyond the margin of 10 %")  # the stricter of two questions
    assert output[1:] == [
        f"ONLY IN {name_of(1)}: lab-http-c2-10k-ipv6 response_time",
        f"from {name_of(0)} to {name_of(1)}: 1 exceeds",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mian"], "session 'mian' does not exist in {root}; there are 27, the last is *"),
        (["main", "last~99"], "session 'last~99' does not exist; there are 27"),
        (["main", "last", "--margin", "10"], "--margin: share '10' is not a percentage such as 10%"),
        ([], "the following arguments are required: A; see pytest-ipperf compare --help"),
    ],
)
def test_wrong_usage_is_one_sentence(program, history, arguments, sentence):
    status, output, said = program(history, "compare", *arguments)
    assert (status, output, said.count("\n")) == (4, [], 1)
    assert said.startswith(f"pytest-ipperf: {sentence}".format(root=history).rstrip("*"))
