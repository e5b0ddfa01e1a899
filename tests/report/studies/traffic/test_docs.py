"""The page of paper 004 has the study's figures, and the suite a test for each of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_ipperf.core.design.payload_preset import PRESETS
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.studies.traffic.experiments import CURVES, EXPERIMENTS

TOP = Path(__file__).parents[4]
PAGE = (TOP / "docs" / "paper-004.md").read_text(encoding="utf-8")


def rows():
    table = PAGE[PAGE.index("| figure | test") :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


@pytest.fixture(scope="module")
def marks():
    """Return the marks of the suite's tests, by name of the test."""
    spec = importlib.util.spec_from_file_location("traffic_suite", TOP / "suites" / "traffic" / "test_traffic.py")
    assert spec
    assert spec.loader
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    tests = {name: each for name, each in vars(suite).items() if name.startswith("test_")}
    return {name: {mark.name: mark for mark in each.pytestmark} for name, each in tests.items()}


def test_each_curve_of_the_study_has_a_test_of_the_suite_that_measures_its_cells(marks):
    by_name = {each.name: each for each in EXPERIMENTS}
    assert [row[0] for row in rows()] == [f"Fig. {each.number}" for each in CURVES]
    assert {row[1] for row in rows()} == set(marks)
    for plot, (_, test, metric, *_) in zip(CURVES, rows(), strict=True):
        experiment, found = by_name[plot.experiment], marks[test]
        protocol = PROTOCOLS[experiment.protocol]
        assert experiment.protocol in found
        asked = found["metric"].args[0] if "metric" in found else protocol.metrics[0]
        assert asked == experiment.metric == metric
        levels = found["levels"].kwargs | found["grid"].kwargs if "grid" in found else found["levels"].kwargs
        assert len(levels[plot.dimension]) > 1 or levels[plot.dimension] == ["kharche"]
        assert set(experiment.held) <= set(held(protocol, levels).items())


def held(protocol, levels):
    """Return the single levels that a test holds, those of the protocol where it names none."""
    usual: dict[str, list[Value]] = {factor.name: list(factor.levels) for factor in protocol.factors}
    usual["connections"] = list(protocol.connections)
    named = {**usual, **levels}
    values = {factor.name: [factor.parse(each) for each in named[factor.name]] for factor in protocol.factors}
    values["connections"] = named["connections"]
    return {name: each[0] for name, each in values.items() if len(each) == 1}


def test_the_everyday_levels_are_few_and_of_the_study(marks):
    for found in marks.values():
        for levels in found["levels"].kwargs.values():
            assert len(levels) <= 3
    sizes = {parse_bytes(each) for found in marks.values() for each in found["levels"].kwargs.get("payload", ())}
    assert sizes <= set(PRESETS["kharche"])


def test_fragments_and_overheads_are_those_that_the_page_tells():
    four, six = (HeaderOverhead(ipver=ipver, datagram=True) for ipver in (4, 6))
    assert [each.packets(65496) for each in (six, four)] == [46, 45]
    shares = [f"{100 * each.overhead_share(65496):.2f} %" for each in (six, four)]
    assert "IPv6 has 46 fragments and IPv4 has 45: 3.27 % overhead and" in PAGE
    assert shares == ["3.27 %", "1.37 %"]
    assert "beyond 1472 bytes (IPv6: 1452, in a" in PAGE
    assert [each.max_payload_bytes for each in (four, six)] == [1472, 1452]
    assert HeaderOverhead(ipver=6, overhead_bytes=20, datagram=True).max_payload_bytes == 1432
