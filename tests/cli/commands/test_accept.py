"""`pytest-ipperf accept`: what it writes and refuses, and what reports show of it later."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math

import pytest

from pytest_ipperf.cli.commands import accept as command
from pytest_ipperf.core.nightly.acceptance import acceptance_of
from pytest_ipperf.store import acceptances
from tests.store.kept import keep, name_of, record

TODAY = dt.date(2026, 12, 20)
SLOW = record(2, 1.25, seed=3)
C1, C2, C3 = (f"lab-http-c{number}-10k-ipv6" for number in (1, 2, 3))


@pytest.fixture(autouse=True)
def today(monkeypatch):
    """Fix the day and the login name."""
    monkeypatch.setattr(command, "_today", lambda: TODAY)
    monkeypatch.setenv("LOGNAME", "ada")


@pytest.fixture
def root(tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(2, 1.6)], saved="main")
    keep(root, 1, [record(1, 1.05), SLOW, record(3, metric="loss", margin="0.5pp")])
    return root


def test_it_is_written_down_with_the_far_end_of_the_interval(program, root):
    status, lines, said = program(root, "accept", C2, "--reason", " a new kernel ")
    assert (status, said) == (0, "")
    assert SLOW.high
    percent = math.ceil(SLOW.high)
    assert lines == [f"accepted for 1 cell: up to {percent} % worse, until 2027-01-19 (a new kernel)"]
    (output,) = acceptances(root)
    assert (output.cell, output.metric, output.reason, output.by) == (C2, "response_time", "a new kernel", "ada")
    assert (output.until, output.up_to) == (dt.date(2027, 1, 19), percent / 100)
    assert acceptance_of(SLOW.key, [output], TODAY) == output


@pytest.mark.parametrize(
    ("more", "up_to", "until"),
    [
        (["--up-to", "40%"], 0.4, "2027-01-19"),
        (["--up-to", "12.5%", "--for", "2w"], 0.125, "2027-01-03"),
        (["--gone", "--until", "2026-12-20"], None, "2026-12-20"),
        (["--session", "main", "--until", "2027-12-21"], math.ceil(record(2, 1.6).high or 0) / 100, "2027-12-21"),
    ],
)
def test_a_person_may_say_more(program, root, more, up_to, until):
    status, lines, _ = program(root, "accept", "*-c2-*", "--reason", "so", *more)
    assert (status, lines[0].split(":")[0]) == (0, "accepted for 1 cell")
    (output,) = acceptances(root)
    assert (output.up_to, output.until.isoformat()) == (up_to, until)


def test_of_several_cells_the_worst_counts_and_shares_are_points(program, root):
    _, lines, _ = program(root, "accept", "*", "--reason", "so", "--metric", "response_time")
    assert lines == [f"accepted for 2 cells: up to {math.ceil(SLOW.high or 0)} % worse, until 2027-01-19 (so)"]
    _, lines, _ = program(root, "accept", "*-c3-*", "--reason", "so", "--up-to", "2pp")
    assert lines == ["accepted for 1 cell: up to 2 pp worse, until 2027-01-19 (so)"]


def test_the_level_of_a_rate_is_how_much_less_it_is(program, tmp_path):
    root = tmp_path / ".ipperf"
    slow = record(1, 0.7, metric="throughput", margin="10%")
    keep(root, 0, [slow])
    _, lines, _ = program(root, "accept", "*", "--reason", "so")
    assert lines == [f"accepted for 1 cell: up to {math.ceil(-(slow.low or 0))} % worse, until 2027-01-19 (so)"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["lab-x", "--reason", "so"],
            f"no cell is called 'lab-x'; there are 3, such as {C1}, {C2}, lab-http-c3-10k-ipv6",
        ),
        ([C2], "--reason is missing; say why, for the readers of reports"),
        ([C2, "--reason", " "], "--reason is missing; say why, for the readers of reports"),
        (["--reason", "so"], "accept needs a CELL, or --list"),
        ([C2, "--reason", "so", "--until", "2026-12-19"], "--until: 2026-12-19 is over; today is 2026-12-20 (UTC)"),
        (
            [C2, "--reason", "so", "--for", "53w"],
            "--until: 2027-12-26 is more than a year from now; accept it again later if need be",
        ),
        ([C2, "--reason", "so", "--until", "soon"], "--until: 'soon' is not a date such as 2027-01-31"),
        ([C2, "--reason", "so", "--for", "a"], "--for: 'a' is not a number of days or weeks, such as 30d or 4w"),
        ([C2, "--reason", "so", "--up-to", "9"], "--up-to: share '9' is not a percentage such as 10%"),
        ([C2, "--reason", "so", "--metric", "loss"], f"--metric: '{C2}' has no 'loss'; there are response_time"),
        (
            ["*", "--reason", "so"],
            "these cells have several metrics (response_time, loss); name the one that is worse by --metric",
        ),
        (
            [C2, "--reason", "so", "--session", "last~7"],
            "session 'last~7' does not exist; there are 2",
        ),
        (
            [C1, "--reason", "so", "--session", "main"],
            "no session has an interval of these cells; give --up-to",
        ),
        (
            [C2, "--reason", "so", "--up-to", "5%"],
            "up to 5 % there is nothing to accept, as the margin of these cells is 10 %; give a larger --up-to",
        ),
        (
            [C2, "--reason", "so", "--up-to", "401%"],
            (
                "up to 401 % cannot be accepted, as response times are capped and could hardly exceed it; accept 400 % "
                "at most, or measure the cell with a larger margin"
            ),
        ),
        (
            [C3, "--reason", "so", "--up-to", "100pp"],
            "up to 100 pp cannot be exceeded; accept less than 100 pp",
        ),
        (["x", "--withdraw", "--reason", "so"], "there is no acceptance of exactly 'x' to withdraw; there are none"),
    ],
)
def test_what_is_refused_is_one_sentence_and_nothing_is_written(program, root, arguments, sentence):
    assert program(root, "accept", *arguments) == (4, [], f"pytest-ipperf: {sentence}\n")
    assert acceptances(root) == []


def test_of_what_is_not_worse_there_is_nothing_to_accept(program, tmp_path):
    root = tmp_path / ".ipperf"
    keep(root, 0, [record(1, 0.8)])
    status, _, said = program(root, "accept", "*", "--reason", "so")
    why = f"none of these cells is worse than its reference in {name_of(0)}, so there is nothing to accept"
    assert (status, said) == (4, f"pytest-ipperf: {why}; give --up-to to accept all the same\n")


def test_a_twin_is_nothing_to_accept(program, tmp_path):
    root = tmp_path / ".ipperf"
    cell = f"{C1}-twin"
    keep(root, 0, [dataclasses.replace(record(1, 1.5), cell=cell, twin=True), record(2, 1.5)])
    status, _, said = program(root, "accept", "*-twin", "--reason", "so")
    why = "'*-twin' are twins of the reference, which are never found worse"
    assert (status, said) == (4, f"pytest-ipperf: {why}\n")
    assert program(root, "accept", "*", "--reason", "so")[1][0].startswith("accepted for 1 cell: ")


def test_an_acceptance_is_superseded_by_a_later_one_that_covers_its_cells(program, root):
    for arguments in ([C2, "--up-to", "40%"], ["*c2*", "--up-to", "30%"], ["*c2*", "--gone"]):
        status, _, said = program(root, "accept", *arguments, "--reason", "so")
        assert status == 0, said
    _, lines, _ = program(root, "accept", "--list")
    words = [line.split() for line in lines[1:]]
    assert [{"superseded", "holds"} & set(each) for each in words] == [{"superseded"}, {"holds"}, {"holds"}]


def test_the_list_tells_what_holds(program, root, monkeypatch):
    assert program(root, "accept", "--list") == (0, ["no acceptances"], "")
    monkeypatch.setattr("time.time", lambda: 1797724800.0)
    for arguments in (
        [C2, "--until", "2026-12-20", "--reason", "one", "--up-to", "30%"],
        [C2, "--until", "2027-01-31", "--reason", "two", "--up-to", "40%"],
        ["*c3*", "--reason", "three", "--gone"],
    ):
        assert program(root, "accept", *arguments)[0] == 0
    _, lines, _ = program(root, "accept", "--list")
    assert [" ".join(line.split()) for line in lines] == [
        "cell metric up to until state by said (UTC) reason",
        f"{C2} response_time 30 % 2026-12-20 superseded ada 2026-12-20 00:00 one",
        f"{C2} response_time 40 % 2027-01-31 holds ada 2026-12-20 00:00 two",
        "*c3* all not measured 2027-01-19 holds ada 2026-12-20 00:00 three",
    ]
    monkeypatch.setattr(command, "_today", lambda: TODAY + dt.timedelta(days=1))
    _, lines, _ = program(root, "accept", "--list")
    assert [line.split()[-5] for line in lines[1:]] == ["expired", "holds", "holds"]
    assert program(root, "accept", C2, "--withdraw", "--reason", "it is mended")[:2] == (0, [f"withdrawn: {C2}"])
    shown = acceptances(root)
    assert [each.until.isoformat() for each in shown] == ["2026-12-19", "2026-12-19", "2027-01-19"]
    assert acceptance_of(SLOW.key, shown, TODAY) is None
    _, lines, _ = program(root, "accept", "--list")
    assert [line.split()[5] for line in lines[1:3]] == ["withdrawn", "withdrawn"]
    assert lines[2].endswith("two; withdrawn: it is mended (ada)")
    status, _, said = program(root, "accept", C2, "--withdraw", "--reason", "again")
    assert (status, said) == (
        4,
        f"pytest-ipperf: there is no acceptance of exactly '{C2}' to withdraw; there are '*c3*'\n",
    )
