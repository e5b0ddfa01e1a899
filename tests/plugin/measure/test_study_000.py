"""The suite of paper 000 as documented, and a small part of it for real."""

import csv
import json
import re
import statistics
from pathlib import Path

import pytest

from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.report.studies.response_time.printed import MEANS
from tests.support.sessions.project_settings import STRICT

TOP = Path(__file__).parents[3]
SUITE = TOP / "suites" / "response_time" / "test_response_time.py"


def collected(pytester, *arguments):
    """Return the levels of the suite by protocol and payload."""
    pytester.makepyfile(test_response_time=SUITE.read_text())
    result = pytester.runpytest_inprocess(
        "--collect-only", "-q", "--testbed=lab", "--ipver=6", "-p", "no:randomly", *arguments
    )
    found: dict[tuple[str, str], list[int]] = {}
    for protocol, count, payload in re.findall(r"\[lab-(\w+)-c(\d+)-(\w+)-ipv6\]", result.stdout.str()):
        found.setdefault((protocol, payload), []).append(int(count))
    return found


def test_the_grid_is_that_of_the_page_and_holds_all_that_the_study_printed(pytester):
    page = (TOP / "docs" / "paper-000.md").read_text()
    rows = re.findall(r"^\| ([A-Z]+) \| ([\d, ]+) \| `(\w+)` \|", page, re.MULTILINE)
    printed = {(name.lower(), payload): [int(count) for count in counts.split(", ")] for name, counts, payload in rows}
    grid = collected(pytester, "--design=paper")
    assert grid == printed
    assert {protocol for protocol, _ in grid} == {
        name for name in applications() if "; paper 000" in application(name).source
    }
    measured = {(protocol, count) for (protocol, _), counts in grid.items() for count in counts}
    assert {(protocol, count) for protocol, _, count in MEANS} <= measured


def test_everyday_levels_are_few_and_have_the_payload_of_the_grid(pytester):
    everyday = collected(pytester)
    assert {place: len(counts) <= 3 for place, counts in everyday.items()} == dict.fromkeys(everyday, True)
    assert set(everyday) == set(collected(pytester, "--design=paper"))
    assert all(application(protocol).content(parse_bytes(payload)) for protocol, payload in everyday)


def test_a_small_part_of_the_study_is_measured_and_told_as_the_study_did(pytester):
    pytester.makepyfile(test_response_time=SUITE.read_text())
    pytester.makepyprojecttoml(STRICT)
    result = pytester.runpytest_subprocess(
        "--testbed=loopback", "--design=paper", "--connections=2", "--ipperf-server=embedded", "-p", "no:randomly",
        "-m", "http or dns",
    )  # fmt: skip
    assert result.ret == NOTHING_DECIDED
    result.stdout.fnmatch_lines(
        [
            "Table 3-1: HTTP average response times in milliseconds, by connections at once",
            "  study's formula: interval (91.8 %) *",
            "Of the study's table not measured: arm IPv6 tunnel; 1, 10, 100, 500, 1000 connections.",
            "Table 3-2: *",
            "IPv6 against IPv4",
            "  study's formula: confidence * %",
            "Table dns-averages: *",
            "Table 6-1: *",
            "DNS: IPv6 - IPv4",
            "tables: *",
        ]
    )
    (folder,) = (pytester.path / ".ipperf" / "runs").iterdir()
    events = [json.loads(line) for line in (folder / "main.jsonl").read_text().splitlines()]
    with (folder / "tables" / "table-3-1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["arm"], row["connections"], row["completed"], row["failed"]) for row in rows] == [
        (arm, "2", "20", "") for arm in ("ipv4", "ipv6")
    ]
    for row in rows:
        values = [
            event["values"]["response_time"]
            for event in events
            if event["event"] == "run"
            and not event["warmup"]
            and event["arm"] == row["arm"]
            and "http" in event["workload"]
        ]
        assert len(values) == int(row["runs"]) == 10
        assert float(row["mean_ms"]) == pytest.approx(1000 * statistics.fmean(values))
