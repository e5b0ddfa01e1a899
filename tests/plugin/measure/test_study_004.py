"""The suite of paper 004 in a session: its levels, tables, figures and page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_ipperf.core.design.payload_preset import PRESETS
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.sessions.project_settings import GLANCE

SUITE = Path(__file__).parents[3] / "suites" / "traffic" / "test_traffic.py"


@pytest.fixture
def suite(project):
    shutil.copy(SUITE, project.pytester.path / SUITE.name)
    return project


def test_the_grid_has_every_size_of_the_study_and_an_option_has_them_in_any_suite(suite):
    arguments = ("--collect-only", "-q", "-p", "no:randomly", "-k", "tcp_throughput_by_payload")
    for more in (("--design=paper",), ("--payload=kharche",)):
        ids = [line for line in suite.ask(*arguments, *more).outlines if "::" in line]
        assert [each.partition("-tcp-c1-")[2] for each in ids] == [
            f"{bytes_text(size)}-ipv6]" for size in PRESETS["kharche"]
        ]


def test_a_sweep_has_tables_figures_and_a_part_of_the_page(suite):
    suite.pytester.makeconftest(GLANCE)
    result = suite.run(SUITE.name, "--payload=32,2k", "--design=glance", "--ipver=6", "-k", "by_payload")
    assert result.ret == NOTHING_DECIDED
    said = result.stdout.str()
    for line in (
        "Table 1 of paper 004 again: overhead of 32 bytes of data",
        "What paper 004 says of its figures, and ours",
    ):
        assert line in said
    (folder,) = (suite.pytester.path / ".ipperf" / "runs").iterdir()
    tables = {path.name for path in (folder / "tables").iterdir()}
    assert tables >= {f"traffic-figure-{number}.{kind}" for number in (4, 5, 6) for kind in ("png", "svg")}
    page = (folder / "report.html").read_text()
    assert "The figures of paper 004 again" in page
    assert "UDP throughput by payload (paper 004, Fig. 5, again)" in page
