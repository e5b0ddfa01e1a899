"""Reports of cells that have ended: smaller, and as they were for everybody who reads them."""

import gc
import json
import pickle
import tracemalloc
import xml.etree.ElementTree as ET
from typing import Literal

import pytest

from pytest_ipperf.plugin.measure.kept_reports import KeptReports
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
        kept = [each for reports in terminalreporter.stats.values() for each in reports if hasattr(each, "ipperf")]
        found = {}
        for each in kept:
            found.setdefault(each.nodeid, {})[each.when] = each
        facts = [
            {
                "mappings": len({id(each.keywords) for each in phases.values()}),
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


def decoded(facts):
    """Return a report with these attributes."""
    report = pytest.TestReport.__new__(pytest.TestReport)
    vars(report).update(facts)
    return report


def properties_of(number):
    """Return the properties of a cell, which differ as those of a session do."""
    return [(f"ipperf_{name}", f"{number}.{number:04d}" if at % 2 else "the same") for at, name in enumerate(NAMES)]


def cell_text(nodeid):
    """Return the text of the cell of an item of `reports_of`."""
    return nodeid.partition("[")[2].removesuffix("]")


def kept_bytes(first, last, *, compacted):
    """Return the bytes that reports of the items `first` to `last` take, and what KeptReports keeps of them."""
    plugin, kept = KeptReports(cell_text), []
    encoded = [pickle.dumps(reports_of(number, properties_of(number))) for number in range(last)]
    for number, text in enumerate(encoded):
        if number == first:
            gc.collect()
            tracemalloc.start()
        reports = [decoded(facts) for facts in pickle.loads(text)]
        kept += reports
        if compacted:
            for report in reports:
                plugin.pytest_runtest_logreport(report)
            plugin.pytest_runtest_logfinish(reports[0].nodeid)
        del reports
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / (last - first)


def test_a_finished_cell_takes_a_fraction_of_the_bytes_of_its_reports():
    """It is .57; without shared mappings it is .74, without shared words .70, and without shared node ids .65."""
    whole, compact = (kept_bytes(50, 250, compacted=each) for each in (False, True))
    assert compact < 0.62 * whole


def test_reports_say_what_they_said():
    plugin = KeptReports(cell_text)
    facts = reports_of(1, [*properties_of(1), ("own", {"a", "b"}), ["of", "a list"], ("of", "three", "words")])
    reports = [decoded({**each, "user_properties": [*each["user_properties"]]}) for each in facts]
    for report in reports:
        plugin.pytest_runtest_logreport(report)
    plugin.pytest_runtest_logfinish(reports[0].nodeid)
    assert [vars(report) for report in reports] == facts
    assert len({id(report.keywords) for report in reports}) == len({id(report.location) for report in reports}) == 1


def test_values_that_are_equal_and_not_the_same_stay_apart():
    plugin = KeptReports(cell_text)
    values = [1, True, 1.0, "1", 0.0, -0.0, None]
    for number, value in enumerate(values):
        reports = [decoded(each) for each in reports_of(number, [("ipperf_epochs", value)])]
        for report in reports:
            plugin.pytest_runtest_logreport(report)
        plugin.pytest_runtest_logfinish(reports[0].nodeid)
        assert repr(reports[-1].user_properties) == repr([("ipperf_epochs", value)])


def test_reports_of_other_items_are_left_alone():
    plugin, report = KeptReports(cell_text), decoded({**reports_of(1, properties_of(1))[-1], "ipperf": False})
    before = dict(vars(report))
    plugin.pytest_runtest_logreport(report)
    plugin.pytest_runtest_logfinish(report.nodeid)
    assert all(vars(report)[name] is value for name, value in before.items())


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
        assert facts["mappings"] == 1
        assert facts["keywords"]
        assert facts["phases"] == sorted(PHASES)
        names = [name for name, _ in facts["properties"]]
        assert names[0] == "note"
        assert {"ipperf_cell", "ipperf_verdict", "ipperf_change"} <= set(names)
    as_written = [[[name, str(value)] for name, value in facts["properties"]] for facts in kept]
    assert sorted(as_written) == sorted(written)
