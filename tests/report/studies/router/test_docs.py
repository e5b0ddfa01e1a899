"""The page of paper 001 has the study's figures, its grades and the suite's levels."""

import importlib.util
import re
from pathlib import Path

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead
from pytest_ipperf.core.portable.units import parse_bytes, parse_rate
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS, PLOTS
from pytest_ipperf.report.studies.router.grades import GRADES
from pytest_ipperf.report.studies.router.printed import printed
from pytest_ipperf.report.studies.router.text import ratio_text

TOP = Path(__file__).parents[4]
PAGE = (TOP / "docs" / "paper-001.md").read_text(encoding="utf-8")
ARMS = {"IPv4": "ipv4", "IPv6": "ipv6", "ISATAP": "ipv6-isatap"}


def rows(head):
    """Return the cells of the table whose head begins so."""
    table = PAGE[PAGE.index(head) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.fixture(scope="module")
def grids():
    """Return the levels of the full grid, by test of the suite."""
    path = TOP / "suites" / "router" / "test_router.py"
    spec = importlib.util.spec_from_file_location("router_suite", path)
    assert spec
    assert spec.loader
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    tests = {name: each for name, each in vars(suite).items() if name.startswith("test_")}
    return {name: next(m.kwargs for m in each.pytestmark if m.name == "grid") for name, each in tests.items()}


def test_the_studys_figures_are_those_that_stand_beside_ours():
    for arm, *cells in rows("| | TCP throughput | RTT"):
        for experiment, cell in zip(EXPERIMENTS, cells, strict=True):
            ratio = printed(experiment.name, Arm.parse(ARMS[arm]))
            assert ratio is not None
            assert cell in {ratio_text(ratio, experiment), ratio_text(ratio, experiment, 1)}


def test_the_grades_are_those_that_are_given():
    shown = rows("| grade |")
    assert [(name, colour) for name, *_, colour in shown] == [(each.name, each.colour) for each in GRADES]
    for (_, share, multiple, _), grade in zip(shown[:-1], GRADES, strict=False):
        assert share == f"{100 * float(grade.least):.0f} % or more"
        assert multiple == f"up to {1 / float(grade.least):.4g}"


def test_the_suite_has_a_test_for_each_figure_with_the_levels_that_the_page_tells(grids):
    shown = {number: (test.strip("`"), metric.strip("`")) for number, test, metric, *_ in rows("| figure | test")}
    metrics = {each.name: each.metric for each in EXPERIMENTS}
    assert {f"Fig. {each.number}": metrics[each.experiment] for each in PLOTS} == {
        number: metric for number, (_, metric) in shown.items()
    }
    assert {test for test, _ in shown.values()} == set(grids)
    windows, streams, sizes, rates, *_ = (row[3] for row in rows("| figure | test"))
    grid = [parse_bytes(each) for each in grids["test_tcp_throughput_by_window"]["window"]]
    assert grid == [8192 * 2**power for power in range(len(grid))]
    assert windows.endswith(f"8k to {grid[-1] // 1024}k, in powers of 2")
    counts = grids["test_tcp_throughput_by_streams"]["connections"]
    assert [int(each) for each in re.findall(r"\d+", streams)] == counts
    found = [parse_bytes(each) for each in grids["test_rtt_by_size"]["payload"]]
    assert sizes.endswith(f": {min(found)} to {max(found)} bytes")
    offered = [parse_rate(each) for each in grids["test_udp_throughput"]["rate"]]
    assert rates.startswith("offered rate: 10 to 100 Mbit/s")
    assert offered == [1e7 * number for number in range(1, 11)]
    assert grids["test_udp_throughput"] == grids["test_udp_jitter"] == grids["test_udp_loss"]


def test_only_cells_are_compared_that_hold_what_the_page_says_and_the_suite_measures_such():
    said = PAGE[PAGE.index("Only cells that hold") :].partition("\n\n")[0]
    for experiment in EXPERIMENTS:
        protocol = PROTOCOLS[experiment.protocol]
        usual = {factor.name: factor.levels[0] for factor in protocol.factors}
        usual["payload"] = parse_bytes(protocol.payload[0])
        for name, value in experiment.held:
            assert str(value) in said
            assert usual[name] == value


def test_headers_cost_what_the_page_says():
    full = {
        overhead: HeaderOverhead(ipver=ipver, overhead_bytes=overhead).payload_share()
        for ipver, overhead in ((6, 0), (6, 20))
    }
    costs = [100 * (1 - share / HeaderOverhead(ipver=4).payload_share()) for share in full.values()]
    assert [f"{cost:.1f} %" for cost in costs] == ["1.4 %", "2.8 %"]
    assert "1.4 % and 2.8 %" in PAGE
