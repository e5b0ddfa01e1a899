"""Forest plot, map and provisional means: all cells at one glance, and nothing claimed of those without an answer."""

import dataclasses
import re
from pathlib import Path

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.completeness import Completeness, SessionState
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.page import anchor, page
from pytest_ipperf.report.page.answer.cell_map import cell_map
from pytest_ipperf.report.page.answer.forest import forest
from pytest_ipperf.report.page.figures.strip import common_axis, strip
from pytest_ipperf.report.tables.cell_results import change_text


def grid(factory, **change):
    places = [(protocol, count, arm) for protocol in ("http", "smtp") for count in (1, 10, 100) for arm in ARMS]
    return [factory.application(*place, 1.0, **change) for place in places]


ARMS = ("ipv6", "ipv6-tunnel")


def test_the_forest_has_the_worst_cell_of_each_protocol_and_arm(factory):
    records = grid(factory)
    slow = factory.application("smtp", 10, "ipv6-tunnel", 1.3, spread=0.02)
    records = [slow if each.key == slow.key else each for each in records]
    found = forest(records, Names(records))
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', found)
    assert len(rows) == 4
    assert "SMTP" in rows[0]
    assert "10 connections" in rows[0]
    assert change_text(slow) in rows[0].replace("\N{NO-BREAK SPACE}", " ")
    assert f'href="#{anchor(slow.key)}"' in rows[0]


def test_the_map_has_every_cell_in_its_place(factory):
    records = grid(factory)
    found = cell_map(records, Names(records), None)
    assert len(re.findall(r'class="square good"', found)) == len(records)
    assert {anchor(each.key) for each in records} == set(re.findall(r'href="#([^"]+)"', found))
    first = found[: found.index("</table>")]
    assert re.findall(r'<th scope="col">(\w+)</th>', first) == ["arm", "1", "10", "100"]
    assert re.findall(r'<th scope="row">([^<]+)</th>', first) == ["IPv6", "IPv6 tunnel"]


def test_372_cells_fit_a_map_without_figures(factory):
    records = [factory.application("http", count, arm, 1.0) for count in range(1, 32) for arm in ARMS]
    found = cell_map(records, Names(records), None)
    assert 'class="map dense"' in found
    assert "<span" not in found[found.index("<tbody") :]
    assert 'title="within: ' in found


def test_levels_that_are_wider_than_the_page_have_several_tables(factory):
    records = [factory.application("http", count, "ipv6", 1.0) for count in range(1, 63)]
    found = cell_map(records, Names(records), None)
    captions = re.findall(r"<caption><span>(.*?)</span>", found)
    assert captions == ["HTTP, 1 to 31 (part 1 of 2)", "HTTP, 32 to 62 (part 2 of 2)"]
    assert len(set(re.findall(r'href="#([^"]+)"', found))) == 62


def test_an_interval_is_drawn_where_its_figures_are(factory):
    record = factory.application("smtp", 10, "ipv6", 1.05)
    axis = common_axis([record])
    drawn = strip(record, axis)
    (low, high), (dot,) = (
        re.findall(r'"thick" x1="([\d.]+)%" x2="([\d.]+)%"', drawn)[0],
        re.findall(r'cx="([\d.]+)%', drawn),
    )
    assert record.lower_bound is not None
    assert abs(float(low) - axis.at(record.lower_bound)) < 0.1
    assert abs(float(high) - axis.at(record.upper_bound)) < 0.1
    assert abs(float(dot) - axis.at(record.estimate)) < 0.1
    (limit,) = re.findall(r'"limit" x1="([\d.]+)%"', drawn)
    assert float(limit) > float(high), "the bar of a cell that is within its margin does not cross it"


def test_an_interval_beyond_the_axis_ends_in_an_arrow(factory):
    record = dataclasses.replace(factory.application("smtp", 10, "ipv6", 1.0), lower_bound=-5.0, upper_bound=900.0)
    drawn = strip(record, common_axis([record]))
    assert "&gt;</text>" in drawn
    assert "&lt;</text>" not in drawn


def test_the_axis_reaches_a_change_of_several_margins_but_none_of_hundreds(factory):
    some = dataclasses.replace(factory.application("smtp", 10, "ipv6", 1.45), upper_bound=900.0)
    assert common_axis([some]).holds(some.estimate)
    many = dataclasses.replace(some, estimate=400.0)
    assert not common_axis([many]).holds(400.0)


def test_a_margin_of_rates_lies_to_the_left(made):
    record = made.record("tcp", "throughput", "ipv6", [1.0, 1.01] * 3, [1.0] * 6, levels={"window": 65536})
    axis = common_axis([record])
    drawn = strip(record, axis)
    (limit,) = re.findall(r'"limit" x1="([\d.]+)%"', drawn)
    assert float(limit) < axis.at(0.0)


def test_a_session_that_was_broken_off_shows_the_means_so_far_and_judges_none(factory):
    record = factory.application("http", 1, "ipv6", 1.0)
    broken = Completeness(state=SessionState.BROKEN_OFF, measured=1, planned=2, resume="last")
    summary = SessionSummary(
        name="s", folder=Path("/r/s"), began_at=0.0, seconds=None, question={"arguments": ["suites"]},
        records=(record,), completeness=broken,
        provisional={("lab.100mbit-smtp-c1-1k", arm, "response_time"): [0.004, 0.006] for arm in (Arm(4, "native"),)},
    )  # fmt: skip
    text = page(summary)
    assert "<h1>1 of 2 cells measured; go on with --ipperf-resume=last</h1>" in text
    assert "So far: IPv6 is as fast as IPv4 for HTTP, within its margin" in text
    row = text[text.index("lab.100mbit-smtp-c1-1k") :].partition("</tr>")[0]
    assert "5.00 ms" in row
    assert "[" not in row
    assert "pytest suites --ipperf-resume=last" in re.sub("</?span>", "", text)
    assert "lab.100mbit-smtp-c1-1k" not in page(
        dataclasses.replace(summary, completeness=Completeness(state=SessionState.WHOLE))
    )
