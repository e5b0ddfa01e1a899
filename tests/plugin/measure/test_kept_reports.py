"""Reports of cells that have ended: spooled, and as they were for everybody who reads them."""

import copy
import gc
import json
import pickle
import tracemalloc
import xml.etree.ElementTree as ET
from typing import Literal

import pytest
from _pytest.reports import pytest_report_to_serializable

from pytest_ipperf.plugin.measure.kept_reports import KeptReports, SpooledReport
from pytest_ipperf.store import spool
from tests.support.sessions.xdist_workers import add_hook

PHASES: tuple[Literal["setup", "call", "teardown"], ...] = ("setup", "call", "teardown")
NAMES = ("cell", "metric", "verdict", "design", "change", "interval", "unit", "margin", "p50_s_ipv4", "p50_s_ipv6")
# Appended to the conftest of a session: the reports that pytest's terminal has at the end.
AT_THE_END = """
    import json
    import pytest

    @pytest.fixture(autouse=True)
    def note(record_property):
        record_property("note", "of the test")

    def pytest_terminal_summary(terminalreporter, config):
        types = {id(each): type(each) for reports in terminalreporter.stats.values() for each in reports}
        kept = [each for reports in terminalreporter.stats.values() for each in reports if hasattr(each, "ipperf")]
        found = {}
        for each in kept:
            found.setdefault(each.nodeid, {})[each.when] = each
        facts = [
            {
                "spooled": sorted(when for when, each in phases.items() if types[id(each)] is not pytest.TestReport),
                "keywords": all("smtp" in each.keywords and nodeid.split("::")[1] in each.keywords
                                for each in phases.values()),
                "phases": sorted(phases),
                "properties": phases["teardown"].user_properties,
            }
            for nodeid, phases in found.items()
        ]
        with open("kept.json", "w") as file:
            json.dump(facts, file)
"""


def reports_of(number, properties):
    """Return the reports of an item as the controller of xdist decodes them: they share no object."""
    name = f"test_smtp_response_time[lab-smtp-c{number}-1k-ipv6]"
    reports = [
        pytest.TestReport(
            f"test_large.py::{name}", ("test_large.py", 7, name),
            dict.fromkeys([name, "smtp", "levels", "margin", "arm", "pytestmark", "test_large.py", ".", ""], 1),
            "passed", None, when, user_properties=properties if when == "teardown" else [],
            worker_id="gw0", testrun_uid="0123456789abcdef" * 2, ipperf=True,
        )
        for when in PHASES
    ]  # fmt: skip
    return [pickle.loads(pickle.dumps(vars(each))) for each in reports]


def decoded(facts, kind=pytest.TestReport):
    """Return a report with these attributes."""
    report = kind.__new__(kind)
    vars(report).update(facts)
    return report


def properties_of(number):
    """Return the properties of a cell, which differ as those of a session do."""
    return [(f"ipperf_{name}", f"{number}.{number:04d}" if at % 2 else "the same") for at, name in enumerate(NAMES)]


def finished(facts):
    """Return reports with these attributes after the end of their item."""
    plugin, reports = KeptReports(), [decoded(each) for each in facts]
    for report in reports:
        plugin.pytest_runtest_logreport(report)
    plugin.pytest_runtest_logfinish(reports[0].nodeid)
    return reports


def kept_bytes(first, last, *, spooled):
    """Return the bytes that the reports of each of the items `first` to `last` take, with what keeps them."""
    plugin, kept = KeptReports(), []
    encoded = [pickle.dumps(reports_of(number, properties_of(number))) for number in range(last)]
    for number, text in enumerate(encoded):
        if number == first:
            gc.collect()
            tracemalloc.start()
        reports = [decoded(facts) for facts in pickle.loads(text)]
        kept += reports
        if spooled:
            for report in reports:
                plugin.pytest_runtest_logreport(report)
            plugin.pytest_runtest_logfinish(reports[0].nodeid)
        del reports
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / (last - first)


def test_reports_of_a_finished_cell_take_a_third_of_their_bytes(monkeypatch):
    monkeypatch.setattr(spool, "_IN_MEMORY_BYTES", 0)
    whole, kept = (kept_bytes(50, 250, spooled=each) for each in (False, True))
    assert kept < whole / 3  # a fifth with Python 3.11; with 3.13 objects keep their room for attributes


class Word(str):
    """A text that is more than a text."""

    __slots__ = ()


def facts_of_an_item():
    """Return the attributes of reports, with values that a file cannot give back."""
    numbers = [1, True, 1.0, "1", 0.0, -0.0, None, float("inf")]
    own = [("own", {"a", "b"}), ["of", "a list"], ("of", "three", "words"), ("word", Word("a"))]
    facts = reports_of(1, [*properties_of(1), *own])
    facts[0]["user_properties"] = [("number", each) for each in numbers]
    facts[1] |= {"node": object(), "longrepr": ("test_large.py", 7, "undecided"), "wasxfail": Word("a")}
    return facts


def test_reports_say_what_they_said_and_are_of_their_class_again():
    facts = facts_of_an_item()
    reports = finished([dict(each) for each in facts])
    assert all(isinstance(report, SpooledReport) for report in reports)
    assert [report.outcome for report in reports] == ["passed"] * 3
    assert all(type(report) is pytest.TestReport for report in reports)
    assert [repr(vars(report)) for report in reports] == list(map(repr, facts))
    assert type(reports[1].wasxfail) is Word
    assert reports[1].node is facts[1]["node"]


@pytest.mark.parametrize(
    "read",
    [
        lambda report: report._to_json()["user_properties"],
        lambda report: (pytest_report_to_serializable(report) or {})["user_properties"],
        lambda report: copy.copy(report).user_properties,
        lambda report: copy.deepcopy(report).user_properties,
        lambda report: next(vars(report)["user_properties"] for _ in [report.passed]),
    ],
    ids=["json", "serializable", "copy", "deepcopy", "mapping_after_a_property"],
)
def test_properties_are_there_however_they_are_read(read):
    report = finished(reports_of(1, properties_of(1)))[-1]
    assert list(map(tuple, read(report))) == properties_of(1)


def test_a_report_that_is_reported_twice_is_spooled_once():
    plugin, report = KeptReports(), decoded(reports_of(1, properties_of(1))[-1])
    for _ in range(2):
        plugin.pytest_runtest_logreport(report)
    plugin.pytest_runtest_logfinish(report.nodeid)
    assert report.user_properties == properties_of(1)


def test_what_a_spooled_report_lacks_it_lacks_and_what_is_set_on_it_stays():
    first, second, third = finished(reports_of(1, properties_of(1)))
    assert not hasattr(first, "wasxfail")
    second.outcome = "failed"
    assert (second.failed, second.when) == (True, "call")
    third.extra = [1]
    assert (third.extra, third.when) == ([1], "teardown")


class OwnReport(pytest.TestReport):
    """A report of another plugin."""


def test_reports_of_other_items_and_other_classes_are_left_alone():
    ours, other = reports_of(1, properties_of(1))[:2]
    other["ipperf"] = False
    plugin, reports = KeptReports(), [decoded(other), decoded(ours, OwnReport)]
    before = [dict(vars(report)) for report in reports]
    for report in reports:
        plugin.pytest_runtest_logreport(report)
    plugin.pytest_runtest_logfinish(reports[0].nodeid)
    assert [type(report) for report in reports] == [pytest.TestReport, OwnReport]
    assert [vars(report) for report in reports] == before


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_junit_counts_and_durations_are_those_of_whole_reports(project, workers):
    project.network()
    add_hook(project, AT_THE_END)
    outcome = project.run("--junitxml=report.xml", "--durations=0", "-vv", *workers)
    outcome.assert_outcomes(passed=2)
    lines = outcome.outlines
    assert sum(" teardown " in line and "test_smtp_response_time" in line for line in lines) == 2
    cases = list(ET.parse(project.pytester.path / "report.xml").iter("testcase"))
    written = [[[each.get("name"), each.get("value")] for each in case.iter("property")] for case in cases]
    kept = json.loads((project.pytester.path / "kept.json").read_text())
    assert len(kept) == len(written) == 2
    for facts in kept:
        assert facts["spooled"] == sorted(PHASES)
        assert facts["keywords"]
        assert facts["phases"] == sorted(PHASES)
        names = [name for name, _ in facts["properties"]]
        assert names[0] == "note"
        assert {"ipperf_cell", "ipperf_verdict", "ipperf_change"} <= set(names)
    as_written = [[[name, str(value)] for name, value in facts["properties"]] for facts in kept]
    assert sorted(as_written) == sorted(written)
