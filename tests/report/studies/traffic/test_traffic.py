"""The traffic study's figures and tables, from records whose figures are known."""

import csv
import dataclasses
import xml.etree.ElementTree as ET

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.report.flow.curves import Scale, scale_of
from pytest_ipperf.report.studies import traffic
from pytest_ipperf.report.studies.router.summary import summaries
from pytest_ipperf.report.studies.traffic.experiments import EXPERIMENTS
from pytest_ipperf.report.studies.traffic.printed import TABLE_1
from pytest_ipperf.report.studies.traffic.study import studies
from pytest_ipperf.report.workload_kinds import tables

SVG = "{http://www.w3.org/2000/svg}"


def row(found, title):
    """The cells of a row of a table."""
    return next(cells for name, cells in found.rows if name.strip() == title)


def rows_below(found, heading):
    """The rows of a heading, by title."""
    at = next(number for number, (name, _) in enumerate(found.rows) if name == heading)
    below = {}
    for name, cells in found.rows[at + 1 :]:
        if not cells:
            break
        below[name.strip()] = cells
    return below


def test_each_testbed_has_curves_of_its_own_in_one_figure(sweep):
    (study,) = studies([*sweep("lab.100mbit"), *sweep("pair.50mbit"), *sweep("zoo")])
    tcp, udp = study.curves[:2]
    assert [curve.label for curve in tcp.curves] == [
        "IPv4, lab.100mbit", "IPv6, lab.100mbit", "IPv6 tunnel, lab.100mbit",
        "IPv4, pair.50mbit", "IPv6, pair.50mbit", "IPv6 tunnel, pair.50mbit",
    ]  # fmt: skip
    assert [curve.setting for curve in tcp.curves] == [0, 0, 0, 1, 1, 1]
    assert (tcp.plot.number, udp.plot.number) == (4, 5)
    assert tcp.sweep.texts == ["32", "1408", "8k"]
    assert [curve.label for curve in studies(sweep("lab"))[0].curves[0].curves] == ["IPv4", "IPv6", "IPv6 tunnel"]


def test_levels_that_one_testbed_lacks_stay_in_their_place(sweep):
    fewer = [record for record in sweep("pair") if record.payload_bytes != 1408]
    (study,) = studies([*sweep("lab"), *fewer])
    places = [[point.at for point in curve.points] for curve in study.curves[0].curves]
    assert places == [[0, 1, 2]] * 3 + [[0, 2]] * 3


def test_table_1_has_the_papers_figures_and_the_right_ones(sweep):
    found = next(table for table in traffic.tables(sweep("lab"))[0] if table.title.startswith("Table 1"))
    heads, paper, computed = found.rows[0][1], row(found, "paper 004"), row(found, "computed")
    assert heads == ["TCP/IPv4", "TCP/IPv6", "TCP/IPv6 tunnel", "UDP/IPv4", "UDP/IPv6", "UDP/IPv6 tunnel"]
    assert paper == ["55.55 %", "65.21 %", "", "46.67 %", "60 %", ""]
    assert computed == ["55.56 %", "65.22 %", "71.43 %", "46.67 %", "60.00 %", "68.00 %"]
    assert row(found, "computed, TCP with timestamps") == ["61.90 %", "69.23 %", "74.19 %", "", "", ""]
    assert {arm for _, arm in TABLE_1} == {Arm(4, "native"), Arm(6, "native")}


def test_the_largest_loss_of_throughput_is_that_beyond_a_packet(sweep):
    found = traffic.tables([*sweep("lab"), *sweep("pair", ratio=0.5)])[0][-1]
    assert found.rows[0][1] == ["paper, CentOS", "paper, Windows", "lab", "pair"]
    tcp = rows_below(found, "Fig. 4: TCP throughput, most below IPv4's beyond 1500 bytes")
    # 32 bytes lose far more in the records, and fit a packet.
    assert tcp["IPv6"] == ["40.29 %", "30.48 %", "10.00 % at 8k", "50.00 % at 8k"]
    assert tcp["IPv6 tunnel"][:2] == ["", ""]


def test_a_session_of_one_size_has_no_study(sweep):
    one = [record for record in sweep("lab") if record.payload_bytes == 8192]
    assert studies(one) == []
    assert traffic.tables(one) == ([], [])
    assert traffic.plots(one) == []


def test_a_size_that_the_study_does_not_have_is_no_cell_of_it(sweep):
    records = sweep("lab")
    beyond = [
        dataclasses.replace(each, payload_bytes=131072, cell=f"{each.cell}-128k")
        for each in records
        if each.payload_bytes == 8192
    ]
    (study,) = studies([*records, *beyond])
    assert study.curves[0].sweep.values == (32, 1408, 8192)


def test_the_router_study_leaves_these_cells_out(sweep):
    assert summaries(sweep("lab")) == []


def test_other_levels_are_another_setting(sweep, made):
    records = sweep("lab")
    bbr = [
        dataclasses.replace(each, levels={**each.levels, "congestion": "bbr"}, cell=f"{each.cell}-bbr")
        for each in records
        if each.protocol == "tcp"
    ]
    (study,) = studies([*records, *bbr])
    labels = [curve.label for curve in study.curves[0].curves]
    assert len(labels) == 6
    assert sum("congestion control bbr" in label for label in labels) == 3


def test_values_of_a_wide_range_have_a_logarithmic_axis(sweep):
    (study,) = studies(sweep("lab"))
    assert scale_of(study.curves[0].curves) is Scale.LOGARITHMIC


def drawn_once(records, folder):
    """Write a session's files; return its figures, each drawn once, as drawing takes longer than all else here."""
    figures = traffic.plots(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic, "plots", lambda _: figures)
        traffic.write(records, folder)
    return dict(figures)


@pytest.fixture(scope="module")
def drawn(sweep, tmp_path_factory):
    """A folder with the files of a session on two testbeds, and its figures."""
    folder = tmp_path_factory.mktemp("tables")
    return folder, drawn_once([*sweep("lab"), *sweep("pair")], folder)


def test_each_figure_is_written_with_its_curves_units_and_title(drawn):
    written, _ = drawn
    assert {path.suffix for path in written.iterdir()} >= {".svg", ".png"}
    for number in (4, 5, 6):
        root = ET.fromstring((written / f"traffic-figure-{number}.svg").read_text())
        said = " ".join("".join(each.itertext()) for each in root.iter(f"{SVG}text"))
        assert f"(paper 004, Fig. {number}, again)" in said
        assert (" in Mbit/s" in said) if number != 6 else ("in % of the bytes of IP packets" in said)
        assert (written / f"traffic-figure-{number}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    four = (written / "traffic-figure-4.svg").read_text()
    assert all(f"{arm}, {bed}" in four for arm in ("IPv4", "IPv6") for bed in ("lab", "pair"))


def test_figure_6_has_the_computed_overhead_of_every_size(drawn):
    figure = drawn[1]["traffic-figure-6"]
    assert figure.head[:3] == ("Payload", "TCP, IPv4 (%)", "TCP, IPv6 (%)")
    found = {text: cells for text, *cells in figure.rows}
    assert found["32"][0] == "61.90"
    assert found["65496"][3:5] == ["1.37", "3.27"]  # 908 of 66404 bytes in 45 packets, 2216 of 67712 in 46


def test_the_terminal_has_the_study_below_the_tables_of_flows(sweep):
    lines = tables(sweep("lab"))
    assert lines.index("Table 1 of paper 004 again: overhead of 32 bytes of data") > lines.index(
        next(line for line in lines if line.startswith("UDP: throughput"))
    )


def test_what_was_on_the_wire_stands_beside_what_is_computed(sweep, sent_messages, tmp_path):
    records = [*sweep("lab"), *sent_messages("lab", "tcp"), *sent_messages("lab", "udp")]
    found, notes = traffic.tables(records)
    # 28 bytes of a neighbour's discovery more, in 100 messages: 60.28 and 80.28 bytes around 32 of payload.
    assert row(found[0], "on the wire, lab") == ["62.03 %", "69.31 %", "", "46.91 %", "60.14 %", ""]
    assert notes[-1].endswith("furthest from computed: +0.25 pp (UDP of 32, IPv4).")
    figures = drawn_once(records, tmp_path)
    with (tmp_path / "overhead.csv").open() as file:
        rows = {(each["carrier"], each["arm"], each["payload_bytes"]): each for each in csv.DictReader(file)}
    assert len(rows) == 8
    large = rows["udp", "ipv6", "8192"]
    assert (large["computed_packets"], large["packets"], large["fragments"]) == ("6", "6.01", "6.0")
    assert float(large["overhead"]) == pytest.approx(1 - 8192 / 8488.28)
    at = {text: cells for text, *cells in figures["traffic-figure-6"].rows}
    assert at["32"][0] == "61.90 (wire 62.03 in 1.01 packets)"
    assert at["128"][0] == "28.89"


def test_jitter_of_both_carriers_has_figures_of_its_own(sent_messages):
    (study,) = studies([*sent_messages("lab", "tcp"), *sent_messages("lab", "udp")])
    assert [each.plot.number for each in study.curves] == [7, 8]
    found = traffic.tables(study.records)[0][-1]
    assert "no run lasts that long" in found.about[1]
    assert rows_below(found, "Fig. 7: TCP jitter, smallest to largest mean") == {
        "IPv4": ["0.7 to 20 ms", "190.1 to 1525.94 s", "100 us to 100 us"],
        "IPv6": ["0.7 to 20 ms", "190.1 to 1525.94 s", "150 us to 150 us"],
    }
    assert rows_below(found, "Fig. 8: UDP jitter, largest difference from IPv4's") == {
        "IPv6": ["at 1664", "11.01 % at 32", "50.00 % at 32"]
    }


def test_experiments_have_different_cells():
    assert len({(each.protocol, each.metric, each.held) for each in EXPERIMENTS}) == len(EXPERIMENTS)
