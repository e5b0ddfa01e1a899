"""The engines' reports of their limits: once for all cells, and as a word after the figures that they bound."""

import dataclasses

import pytest

from pytest_ipperf.report.flow.engine_notes import engine_notes
from pytest_ipperf.report.flow.tables import tables


@pytest.fixture
def cells(made):
    return [
        made.record("tcp", "throughput", arm, [1e6, 1e6], [1e6, 1e6], levels={"window": window})
        for arm in ("ipv6-tunnel", "ipv6")
        for window in (65536, 16384)
    ]


def rows_of(records):
    return [" ".join(line.split()) for line in tables(records)]


def test_engines_say_each_thing_once_whatever_its_numbers(cells):
    notes = [f"the sender reached {97 + at}.1 of 120 Mbit/s, so its own host bounds this figure" for at in range(4)]
    records = [
        dataclasses.replace(record, test=dataclasses.replace(record.test, notes=(note,)))
        for record, note in zip(cells, notes, strict=True)
    ]
    text = " ".join(rows_of(records))
    assert text.count("The sender reached") == 1
    assert "of 120 Mbit/s, so its own host bounds this figure (IPv6, IPv6 tunnel; TCP 16k, 64k)." in text


def test_sentences_that_differ_by_their_units_are_one_kind_and_of_many_levels_the_number_is_told(made):
    rates = [2e7, 6e7, 1e8, 1e9, 1e10]
    notes = [f"the sender reached {text}, so ..." for text in ("1.093 Gbit/s of 10 Gbit/s", "771.2 Mbit/s of 1 Gbit/s")]
    records = [
        made.record("udp", "throughput", "ipv6", [1e6, 1e6], [1e6, 1e6], levels={"rate": rate}) for rate in rates
    ]
    noted = [
        dataclasses.replace(
            each, test=dataclasses.replace(each.test, notes=(notes[1],)),
            reference=dataclasses.replace(each.reference, notes=(notes[0],)),
        )
        for each in records
    ]  # fmt: skip
    first = "The sender reached 1.093 Gbit/s of 10 Gbit/s, so ..."
    assert engine_notes(noted) == [f"{first} (IPv4, IPv6; UDP 20mbit, 60mbit, 100mbit, 1gbit and 1 more)."]
    assert engine_notes(noted[:1]) == [f"{first} (IPv4, IPv6; UDP)."]


def test_of_cells_that_differ_in_two_things_a_level_says_of_what_it_is(made):
    records = [
        made.record("tcp", "throughput", "ipv6", [1e6, 1e6], [1e6, 1e6], connections=count, levels={"window": window})
        for count, window in ((4, "auto"), (1, 8192))
    ]
    noted = [dataclasses.replace(each, test=dataclasses.replace(each.test, notes=("so it is",))) for each in records]
    assert engine_notes(noted) == ["So it is (IPv6; TCP 4 streams window auto, 1 stream window 8k)."]


@pytest.mark.parametrize(
    ("note", "word", "meaning"),
    [
        ("the sender reached 1 of 10 Gbit/s, so its own host or link bounds this figure", "sender-bound", "Sender-b"),
        ("the receiving host had no room for datagrams 3 times, so it bounds this figure", "host-bound", "Host-b"),
    ],
)
def test_a_figure_that_an_end_bounds_says_so_on_that_side_alone(made, note, word, meaning):
    record = made.record("udp", "throughput", "ipv6", [8e9] * 3, [1e10] * 3, levels={"rate": 1e10})
    bound = dataclasses.replace(record, test=dataclasses.replace(record.test, notes=(note,)))
    shown = rows_of([bound])
    assert {"IPv4 10.00", f"IPv6 8.000 {word}"} <= set(shown)
    assert [line for line in shown if line.startswith(f"{meaning}ound: ")]
    assert not [line for line in rows_of([record]) if "-bound" in line]
