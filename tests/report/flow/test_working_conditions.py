"""Table of what a load adds to a probe's delay and loss, from runs whose differences are known."""

import dataclasses

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.report.flow.working_conditions import NOTES, tables
from pytest_ipperf.report.workload_kinds import by_kind


def probe(*delays_s, loss=0.0):
    """Return the series of runs with these medians; p95 is twice and p99 three times as long."""
    times = {f"probe_{name}_s": tuple(delays_s) for name in ("p50", "p95", "p99")}
    for times_as_long, name in ((2, "probe_p95_s"), (3, "probe_p99_s")):
        times[name] = tuple(None if each is None else times_as_long * each for each in delays_s)
    return {**times, "probe_loss": (loss,) * len(delays_s)}


def loaded(made, ipver, idle, under, *, planned=None, level="tcp.up", **change):
    """Return the record of round trips in 3 epochs of 2 blocks under a load against the idle path."""
    record = made.record("rtt", "rtt", f"ipv{ipver}", [1.0] * 6, [1.0] * 6, blocks=2, **change)
    arm, reference = (Arm.parse(f"ipv{ipver}-load_{each}") for each in (level, "none"))
    rates = {"load_bit_s": 1.5e6} | ({"load_planned_bit_s": planned} if planned else {})
    test = dataclasses.replace(record.test, arm=arm, probe=under, figures={**record.test.figures, **rates})
    cell = f"home-rtt-c1-64-udp-vs_load_none-{arm}"
    return dataclasses.replace(
        record, cell=cell, test=test, reference=dataclasses.replace(record.reference, arm=reference, probe=idle)
    )


def lines(records):
    return [" ".join(line.split()) for table in tables(records) for line in table.lines()]


def test_added_delay_and_loss_stand_beside_idle_and_loaded_by_ip_version(made):
    idle = probe(*[0.001] * 6)
    # Added medians by epoch: 99, 109 and 119 ms, so that a t interval of 2 degrees of freedom is +- 24.8 ms.
    under = probe(0.1, 0.1, 0.11, 0.11, 0.12, 0.12, loss=0.02)
    found = lines([loaded(made, 6, idle, under, planned=2e6), loaded(made, 4, idle, probe(*[0.051] * 6))])
    assert found[0] == "RTT under working conditions: added delay in ms, added loss"
    assert found[2] == "workload home-rtt-c1-64-udp-vs_load_none, design quick"
    assert found[4:] == [
        "idle loaded added 95 % interval",
        "IPv4 load tcp.up",
        "round-trip time, median 1.00 51.0 +50.0 ms [+50.0, +50.0]",
        "round-trip time, p95 2.00 102 +100 ms [+100, +100]",
        "round-trip time, p99 3.00 153 +150 ms [+150, +150]",
        "loss 0 0 0 pp [0, 0]",
        "load beside it 1.5 Mbit/s",
        "IPv6 load tcp.up",
        "round-trip time, median 1.00 110 +109 ms [+84.2, +134]",
        "round-trip time, p95 2.00 220 +218 ms [+168, +268]",
        "round-trip time, p99 3.00 330 +327 ms [+252, +402]",
        "loss 0 2.00 +2.00 pp [+2.00, +2.00]",
        "load beside it 1.500 of 2.000 Mbit/s",
    ]


def test_where_too_many_packets_were_lost_no_difference_is_made_up(made):
    under = probe(0.1, 0.1, None, 0.1, 0.1, 0.1, loss=0.3)
    assert "round-trip time, median 1.00 lost - -" in lines([loaded(made, 6, probe(*[0.001] * 6), under)])
    short = probe(*[0.1] * 5)
    assert "round-trip time, median 1.00 100 - -" in lines([loaded(made, 6, probe(*[0.001] * 6), short)])


def test_a_design_that_never_judges_has_no_interval(made):
    record = loaded(made, 6, probe(*[0.001] * 6), probe(*[0.1] * 6), judges=False)
    assert "round-trip time, median 1.00 100 +99.0 ms -" in lines([record])


def test_there_is_none_without_an_idle_path_or_without_figures_of_the_probe(made):
    series = probe(*[0.1] * 6)
    record = loaded(made, 6, series, series)
    swapped = dataclasses.replace(record, test=record.reference, reference=record.test)
    assert tables([swapped, loaded(made, 6, {}, series), made.record("rtt", "rtt", "ipv6", [1.0], [1.0])]) == []


def test_terminal_and_page_have_the_table_with_its_notes(made):
    record = loaded(made, 6, probe(*[0.001] * 6), probe(*[0.1] * 6))
    ((reports, own),) = [each for each in by_kind([record]) if each[1]]
    found, notes = reports.tables(own)
    assert "RTT under working conditions: added delay in ms, added loss" in [table.title for table in found]
    assert set(NOTES) <= set(notes)
    assert set(NOTES) <= set(reports.lines(own, None, detail=True))
