"""The terminal's tables, with golden texts where the shape matters."""

import dataclasses
import textwrap

import pytest

from pytest_ipperf.core.design.cell import Arm, load_text, talk_text
from pytest_ipperf.core.measurement.client_load import ClientLoad
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.workload_kinds import tables


def side(arm: str, *values: float, failed: int = 0) -> ArmSummary:
    return ArmSummary(
        arm=Arm.parse(arm), values=values, attempted=60, completed=60 - failed, phases={},
        failed={"connect refused": failed} if failed else {},
    )  # fmt: skip


def record(connections: int, **change) -> Record:
    shown = Record(
        cell=f"lab-smtp-c{connections}-1k-ipv6", testbed="lab", protocol="smtp", connections=connections,
        payload_bytes=1024, ipver=6, transport="native", twin=False, client="lean", server="postfix 3.7.11",
        metric="response_time", design="quick", judges=True, seed=1, look=1, looks=1, epochs=6, blocks=2,
        deadline_s=10.0, test=side("ipv6", 0.0121, 0.0123), reference=side("ipv4", 0.0119, 0.0121), estimate=1.7,
        low=-1.25, high=4.6, confidence=0.95, sd_epoch=0.02, sd_block=0.03,
        margin="10 % (at least 0.5 ms)", margin_fraction=0.1, alpha=0.05, verdict="within", reasons=(), sentence="...",
    )  # fmt: skip
    found = dataclasses.replace(shown, **change)
    talk, load = talk_text(found.protocol, found.client), load_text(1024, found.rate_per_s, found.workers)
    return dataclasses.replace(found, cell=f"{found.testbed}-{talk}-c{connections}-{load}-{found.test.arm}")


def test_a_table_has_a_column_for_each_number_of_connections_and_rows_for_each_arm():
    phases = {"dns": 0.0004, "connect": 0.0007, "first_byte": 0.0051, "total": 0.012}
    records = [
        record(100, estimate=31.6, low=25.0, high=38.9, verdict="exceeds", test=side("ipv6", 0.1571, failed=3)),
        record(10, test=dataclasses.replace(side("ipv6", 0.0121, 0.0123), phases=phases)),
    ]
    assert "\n".join(tables(records)[:15]) == textwrap.dedent(
        """\
        SMTP response time per connection in milliseconds, by connections at once
        testbed lab, server postfix 3.7.11, client lean, payload 1k, timed to '250 ... queued'

                                                      10             100
        IPv4                                        12.0            12.0
          dns / connect / first byte                   -               -
          completed                             60 of 60        60 of 60
        IPv6                                        12.2             157
          change                                  +1.7 %         +31.6 %
          95 % interval                     [-1.2, +4.6]  [+25.0, +38.9]
          margin                                    10 %            10 %
          verdict                                 within         exceeds
          dns / connect / first byte  0.40 / 0.70 / 5.10               -
          completed                             60 of 60        57 of 60
          failed: connect refused                      0               3"""
    )


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_tests_of_a_cell_the_table_has_the_worst_answer(order):
    strict = record(10, nodeid="t.py::strict", margin="0.0001 %", margin_fraction=1e-6, verdict="exceeds")
    loose = record(10, nodeid="t.py::loose", margin="500 %", margin_fraction=5.0)
    shown = [" ".join(line.split()) for line in tables([strict, loose][::order])]
    assert [line for line in shown if line.startswith("margin ")] == ["margin 0.0001 %"]
    assert [line for line in shown if line.startswith("verdict ")] == ["verdict exceeds"]


def test_every_arm_has_its_quantiles_of_which_failed_connections_are_the_slowest():
    quantiles = {"p50": 0.0121, "p95": 0.02, "p99": 0.0305, "p99.9": None}
    shown = [
        " ".join(line.split())
        for line in tables([record(10, test=dataclasses.replace(side("ipv6", 0.0121), quantiles=quantiles))])
    ]
    assert [line for line in shown if line.startswith("p50")] == [
        "p50 / p95 / p99 / p99.9 12.1 / 20.0 / 30.5 / > deadline",
        "p50 / p95 / p99 / p99.9: percentiles of all connections of an arm, failed ones being the slowest.",
    ]
    assert not [line for line in tables([record(10)]) if "p50" in line]


def test_a_design_that_never_judges_shows_neither_intervals_nor_margins():
    shown = [" ".join(line.split()) for line in tables([record(10, design="smoke", judges=False, epochs=2)])]
    assert not [line for line in shown if line.startswith(("95 % interval", "margin"))]
    assert "change +1.7 %" in shown
    assert "Change: median log ratio of an epoch's blocks (2), mean over the epochs (2)." in shown
    assert "Design smoke never judges." in shown
    assert not [line for line in shown if "t interval" in line]


def test_tables_come_in_one_order_whatever_the_order_of_the_records():
    records = [
        record(10),
        record(100),
        record(10, testbed="loopback"),
        record(10, protocol="http", server="apache 2.4"),
    ]
    assert tables(records) == tables(records[::-1])


def test_cells_of_different_servers_are_never_in_one_table():
    lines = tables([record(10), record(10, server="aiosmtpd 1.4.6 (embedded)")])
    assert sum(line.startswith("SMTP response time") for line in lines) == 2


def on_links(record: Record, path_bit_s: float) -> Record:
    paces = [
        LinkRate(rate_bit_s=1e8, ceiling_bit_s=ceiling, goodput_bit_s=goodput, path_bit_s=path)
        for ceiling, goodput, path in ((9.155e7, 3.312e7, path_bit_s), (9.415e7, 3.5e7, 1e8))
    ]
    sides = [
        dataclasses.replace(side, pace=pace) for side, pace in zip((record.test, record.reference), paces, strict=True)
    ]
    return dataclasses.replace(record, test=sides[0], reference=sides[1], backend="kernel", rate_bit_s=1e8)


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"rate_bit_s": 1e7, "loss": 0.01, "delay_s": 0.005}, " at 10 Mbit/s, loss 1 %, delay 5 ms, server"),
        ({"delay_s": 0.005}, " with delay 5 ms, server"),
        ({}, ", server"),
    ],
)
def test_what_links_do_stands_beside_the_testbed(links, expected):
    assert tables([dataclasses.replace(record(10), **links)])[1].startswith(f"testbed lab{expected}")


def test_the_rate_and_what_carried_tunnels_stand_beside_the_testbed_and_goodput_beside_its_ceiling():
    tunnel = {"transport": "tunnel", "test": side("ipv6-tunnel", 0.0121)}
    lines = tables([on_links(record(10, **tunnel), 1e8), on_links(record(100, **tunnel), 9.71e7)])
    assert lines[1].startswith("testbed lab at 100 Mbit/s, tunnels by the kernel's sit driver, server postfix 3.7.11, ")
    rows = [line.split()[4:] for line in lines if line.startswith("  goodput, of at most")]
    assert rows == [["35", "of", "94.2", "Mbit/s"] * 2, ["33.1", "of", "91.5", "Mbit/s"] * 2]
    (missed,) = (line for line in lines if line.startswith("  path misses its rate"))
    assert missed.split() == ["path", "misses", "its", "rate", "97.1", "of", "100", "Mbit/s"]
    assert "A path that misses its rate by more than 1 % is not the requested one." in lines
    assert not [line for line in tables([on_links(record(10), 1e8)]) if "misses" in line]


def test_links_without_a_rate_within_one_machine_are_told_as_that():
    note = "Links without a rate, within one machine: its processors bound these figures, and no network."
    assert note in tables([record(10, one_machine=True)])
    assert note not in tables([record(10)])
    assert note not in tables([on_links(record(10, one_machine=True), 1e8)])


def of_standard(connections: int, look: int, **change) -> Record:
    return record(
        connections, design="standard", blocks=3, alpha=0.0221, look=look, looks=3, epochs=10 * look, **change
    )


def test_epochs_have_a_row_where_cells_were_decided_after_different_numbers_of_them():
    twin = {"twin": True, "ipver": 4, "test": side("ipv4-twin", 0.012)}
    first, second = side("ipv4", 0.0119), side("ipv4", 0.0119, 0.0131)
    records = [
        of_standard(10, 1, reference=first), of_standard(10, 2, reference=second, **twin),
        of_standard(100, 1, reference=first), of_standard(100, 1, reference=first, **twin),
    ]  # fmt: skip
    lines = tables(records)
    rows = [line for line in lines if line.startswith(("IPv", "  epochs"))]
    assert [row.split() for row in rows] == [
        ["IPv4", "12.5", "11.9"], ["epochs", "20", "10"],
        ["IPv4", "twin", "12.0", "12.0"], ["epochs", "20", "10"],
        ["IPv6", "12.2", "12.2"], ["epochs", "10", "10"],
    ]  # fmt: skip
    assert "First rows: mean of an arm's runs, 3 in each epoch, warm-ups left out." in lines
    assert "taken after every 10 epochs, 3 times at most; what is decided is measured no further." in lines


def test_where_all_cells_have_the_same_epochs_the_note_tells_them():
    lines = tables([of_standard(10, 2), of_standard(100, 2)])
    assert not [line for line in lines if line.startswith("  epochs")]
    assert [line for line in lines if "mean over the epochs (20)," in line]
    assert "taken after every 10 epochs, 3 times at most; what is decided is measured no further." in lines


def test_cells_of_different_clients_are_never_in_one_table():
    lines = tables([record(10), record(10, client="library")])
    assert sum(line.startswith("SMTP response time") for line in lines) == 2


def test_design_paper_prints_the_studys_tables():
    lines = tables([record(10, design="paper", epochs=1)])
    assert [line.split(":")[0] for line in lines if line.startswith("Table")] == ["Table 3-5", "Table 3-6", "Table 6-1"]


def test_columns_reused_from_an_earlier_session_are_named():
    lines = tables([record(1, taken_from="20261121T1"), record(10), record(100, taken_from="20261121T1")])
    assert "reused from session 20261121T1: 1, 100 connections" in lines


def test_a_table_that_is_too_wide_goes_on_below():
    records = [record(count) for count in (1, 10, 100, 500, 1000, 5000)]
    for width in range(60, 130):
        lines = tables(records, width)
        shown = lines[: lines.index("First rows: mean of 2 runs for each arm, warm-ups left out.")]
        rows = [line for line in shown if line.startswith("  change")]
        assert max(len(line) for line in shown[3:]) <= width
        assert sum(len(line.split("%")) - 1 for line in rows) == 6


def seen_by_client(share, **changed):
    plain = {"floor_s": 0.012 * share, "share": share, "cpu_share": 0.3, "late_s": 0.0001, "lag_s": 0.004, "peak": 10}
    client_load = ClientLoad(**{**plain, "tcp": {}, **changed})
    return dataclasses.replace(side("ipv6", 0.0121, 0.0123), instrument=client_load)


def rows_of(*records):
    return [" ".join(line.split()) for line in tables(records)]


def test_the_clients_share_is_told_and_called_by_its_name_above_a_fifth():
    lines = rows_of(record(10, test=seen_by_client(0.15)), record(100, test=seen_by_client(0.77, peak=100)))
    assert "client share 15 % 77 % client-bound" in lines
    assert sum(line.startswith("Client share: upper bound on") for line in lines) == 1


def test_a_client_of_which_nothing_is_known_has_no_row():
    assert not [line for line in rows_of(record(10)) if "lient share" in line]


def test_fewer_at_once_than_asked_a_client_held_up_and_counters_that_moved_are_told():
    test = seen_by_client(0.15, peak=7, lag_s=0.25, tcp={"ListenDrops": 3})
    lines = rows_of(record(10, test=test))
    assert {"most at once 7", "client held up for 250 ms", "ListenDrops 3"} <= set(lines)


def test_of_a_client_in_order_there_is_only_the_share():
    lines = rows_of(record(10, test=seen_by_client(0.15, behind_s=0.002)))
    assert not [line for line in lines if line.startswith(("most at once", "client held up", "opened late"))]


def test_a_client_that_could_not_keep_up_with_the_arrivals_is_told():
    lines = rows_of(record(10, test=seen_by_client(0.15, behind_s=0.0031), rate_per_s=200.0, workers=2))
    assert "opened late by 3.10 ms" in lines
    assert any(line.endswith("in milliseconds, by connections") for line in lines)
    assert any("client lean by 2 workers, 200 arrivals a second, payload" in line for line in lines)


def test_failures_do_not_hide_that_it_could_not_keep_up():
    test = dataclasses.replace(seen_by_client(0.15, behind_s=0.0031), values=(3.3, 3.4), completed_values=(0.012,))
    assert "opened late by 3.10 ms" in rows_of(record(10, test=test, rate_per_s=200.0))


def test_other_arrivals_and_other_workers_have_tables_of_their_own():
    lines = rows_of(record(10), record(10, rate_per_s=200.0), record(10, workers=2))
    assert sum(line.startswith("testbed ") for line in lines) == 3


@pytest.mark.parametrize(("protocol", "said"), [("smtp", ", DNS included"), ("dns", ", DNS included"), ("ntp", "")])
def test_a_look_up_is_named_where_there_was_one(protocol, said):
    lines = tables([record(10, protocol=protocol)])
    assert [line for line in lines if line.startswith(f"Timed from the first socket{said}; a failed connection counts")]
