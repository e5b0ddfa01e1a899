"""The formats for programs: complete, well-formed, and safe for any names."""

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import re
from array import array
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.nightly.report import CellReport, GateDecision, GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import UNEXPLAINED, WHOLE_SESSION, HostSummary, SessionSummary, Trouble
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.completeness import Completeness, SessionState
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.measured_run import MeasuredRun
from pytest_ipperf.report.answer.sentence import plain_answer
from pytest_ipperf.report.data.json_document import night_document, plain, session_document
from pytest_ipperf.report.data.tidy_rows import sample_rows
from pytest_ipperf.report.formats import FORMATS, parquet
from pytest_ipperf.report.tables.cell_results import ResultKind, cell_results, headline
from pytest_ipperf.report.tables.csv_text import csv_text
from pytest_ipperf.store.history.nights import VERDICT, nights_in

TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs" / "formats.md").read_text(encoding="utf-8")
SUITE = "suites/router/test_udp.py"
OF_MACHINES = ("csv", "json", "junit", "markdown")
NO_WIDTH = "\u200b"
ANY_TEXT = st.text() | st.text(st.characters(categories=["L", "N", "P", "Cs"]))
"""Also surrogates, which Python makes of bytes that are not UTF-8 and st.text() leaves out."""


def summary_of(records=(), troubles=(), night=None, **change):
    session_summary = SessionSummary(
        name="20261122T013000Z-0a1b2c",
        folder=Path(".ipperf/runs/20261122T013000Z-0a1b2c"),
        began_at=1795311000.0,
        seconds=62.5,
        question={"design": {"name": "nightly", "epochs": 10}, "seed": 7, "reference": "ipv4", "arguments": ["suites"]},
        records=tuple(records),
        troubles=tuple(troubles),
        hosts=(
            HostSummary(
                testbed="lab",
                role="client",
                name="alpha",
                addresses=("198.18.0.1",),
                facts={"kernel": "6.1", "cpus": (2, 3)},
            ),
        ),
        night=night,
        saved="main",
        notes=("a note",),
    )
    return dataclasses.replace(session_summary, **change)


@pytest.fixture(scope="module")
def cell(made):
    """A cell of UDP at a rate of its own, with the node id of its test."""

    def make(number=1, ratio=0.99, **change):
        values = [9e6 * ratio * (1 + 0.001 * at) for at in range(6)]
        record = made.record("udp", "throughput", "ipv6", values, [9e6] * 6, levels={"rate": 1e6 * number}, **change)
        own = {
            "nodeid": f"{SUITE}::test_udp[{record.cell}]",
            "workload_version": "1-ipv4-1s-0a1b2c",
            "fingerprint": "f0",
        }
        return dataclasses.replace(record, **(own | change))

    return make


def report(record, decision, **change):
    cell_report = CellReport(key=record.key, decision=decision, sentence=f"{decision.value} indeed", screen=record)
    return dataclasses.replace(cell_report, **change)


def night_of(*cells, gate_status=GateStatus.RED, **change):
    night_report = NightReport(
        cells=cells, aa_check=AACheck(cells=3, excludes=0, at_most=2, confidence=0.95), troubles={},
        gate_status=gate_status,
        headline="one cell is worse", family_alpha=0.04, history_alpha=0.05, warnings=("the hosts changed",),
    )  # fmt: skip
    return dataclasses.replace(night_report, **change)


@pytest.fixture
def session(cell):
    """A session with every kind of answer."""
    records = [
        cell(1), cell(2, 0.8, verdict="exceeds", sentence="IPv6 is slower"),
        cell(3, verdict="inconclusive", sentence="inconclusive"), cell(4, verdict="invalid"),
        cell(5, verdict="measured"),
    ]  # fmt: skip
    troubles = [
        Trouble(nodeid=f"{SUITE}::test_udp[lab-udp-c1-1400-x-ipv6]", kind="inconclusive", sentence="budget spent"),
        Trouble(nodeid=f"{SUITE}::test_udp[lab-udp-c1-1400-y-ipv6]", kind="infrastructure", sentence="host is gone"),
        Trouble(nodeid=f"{SUITE}::TestMore::test_else", kind="failed", sentence="assert 1 == 2"),
    ]
    return summary_of(records, troubles)


@pytest.fixture
def night(cell):
    """A session that was the screening of a night, with every decision and a twin."""
    records = [cell(number) for number in range(1, 9)]
    fresh = dataclasses.replace(records[1], seed=8, verdict="exceeds")
    figures = {"p_fresh": 0.0003, "p_adjusted": 0.0006, "nights": 23, "p_history": 0.2, "p_history_adjusted": 0.4}
    gone = [
        CellReport(
            key=HistoryKey(f"lab-gone-{decision.name.lower()}-ipv6", "throughput", "1"),
            decision=decision,
            sentence="gone",
        )
        for decision in (GateDecision.MISSING, GateDecision.GONE)
    ]
    ruled = [
        report(records[0], GateDecision.WITHIN),
        report(records[1], GateDecision.EXCEEDS, flagged=True, fresh=fresh, **figures),
        report(records[2], GateDecision.WORSE, nights=23, p_history=1e-4, p_history_adjusted=8e-4),
        report(
            records[3], GateDecision.ACCEPTED,
            sentence="worse, and accepted: the new router, says Ada, until 2027-01-01",
        ),
        report(records[4], GateDecision.INCONCLUSIVE), report(records[5], GateDecision.TROUBLE, sentence="zero spread"),
    ]  # fmt: skip
    twin = dataclasses.replace(records[6], twin=True, cell="lab-udp-twin")
    troubles = {records[5].nodeid: "zero spread", f"{SUITE}::test_else": "assert False"}
    result = [Trouble(nodeid=f"{SUITE}::test_else", kind="failed", sentence="assert False")]
    return summary_of([*records[:6], twin], result, night_of(*ruled, *gone, troubles=troubles))


# --- the registry -----------------------------------------------------------------------------------------------------


def test_every_format_says_what_it_is():
    assert set(OF_MACHINES) <= set(FORMATS)
    assert all(FORMATS[name].name == name and FORMATS[name].title for name in FORMATS)
    suffixes = [FORMATS[name].suffix for name in FORMATS]
    assert len(set(suffixes)) == len(suffixes)
    assert all(suffix.startswith(".") for suffix in suffixes)
    with pytest.raises(UsageError, match="no report 'pdf'; there are: csv, "):
        FORMATS["pdf"]


@pytest.mark.parametrize("name", OF_MACHINES)
def test_every_format_writes_every_story_the_same_way_each_time(name, session, night):
    for summary in (session, night, summary_of(), summary_of(night=night_of(gate_status=GateStatus.UNSTABLE))):
        assert FORMATS[name].render(summary) == FORMATS[name].render(dataclasses.replace(summary))


@pytest.mark.parametrize("in_night", [False, True])
@pytest.mark.parametrize("name", OF_MACHINES)
def test_no_format_breaks_of_what_is_not_utf_8(cell, name, in_night):
    """Python makes surrogates of such bytes in a command line, a path or a program's output; st.text() has none."""
    bad = "caf\udce4"
    result = cell(1, server=bad, fingerprint=bad, sentence=bad, nodeid=f"a.py::test[{bad}]", taken_from=bad)
    night = night_of(
        report(result, GateDecision.EXCEEDS, sentence=bad), headline=bad, warnings=(bad,), troubles={bad: bad}
    )
    summary = summary_of(
        [result], [Trouble(nodeid=bad, kind="failed", sentence=bad)], night if in_night else None, name=bad, saved=bad,
        folder=Path(bad), notes=(bad,), question={"design": bad, "reference": bad, "arguments": [bad], bad: bad},
        hosts=(HostSummary(testbed=bad, role="client", facts={bad: bad}),),
    )  # fmt: skip
    text = FORMATS[name].render(summary).decode()
    assert "caf" in text
    if name == "json":
        (record,) = json.loads(text)["records"]
        assert (record["sentence"], json.loads(text)["question"]["arguments"]) == ("caf?", ["caf?"])
    elif name == "junit":
        junit(summary)
    elif name == "csv":
        assert [row["sentence"] for row in rows(summary)][:2] == ["", "caf?"]
    else:
        assert "caf?" in text


# --- findings ---------------------------------------------------------------------------------------------------------


def test_a_test_that_broke_after_its_answer_is_told_once_and_as_broken(cell):
    one = cell()
    trouble = Trouble(nodeid=one.nodeid, kind="failed", sentence="assert 1 == 2")
    (found,) = cell_results(summary_of([one], [trouble]))
    assert (found.kind, found.code, found.record) == (ResultKind.RED, "failed", one)


def test_a_cell_within_its_margin_does_not_hide_that_its_test_failed(cell):
    one = cell()
    found = cell_results(
        summary_of([one], night=night_of(report(one, GateDecision.WITHIN), troubles={one.nodeid: "assert 0"}))
    )
    assert [each.code for each in found] == ["within", "infrastructure"]


@pytest.mark.parametrize(
    "verdicts",
    ["", "within within", "within inconclusive", "exceeds within", "exceeds exceeds within", "inconclusive",
     "within invalid"],
)  # fmt: skip
def test_the_answer_of_a_session_is_one_sentence(cell, verdicts, golden):
    summary = summary_of([cell(number, verdict=verdict) for number, verdict in enumerate(verdicts.split(), start=1)])
    results = cell_results(summary)
    assert [each.code for each in results] == verdicts.split()
    golden(headline(summary, results))


# --- JUnit ------------------------------------------------------------------------------------------------------------

# junit-10.xsd of Jenkins' xunit plugin (jenkinsci/xunit-plugin, types/model/xsd), by which pytest checks its family
# xunit2: by element its attributes, the required ones, and its children.
SHAPE = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "file"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name", "classname", "time"}, {"name"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}  # fmt: skip
# Attributes that pytest writes and Jenkins' junit plugin or GitLab reads; see the module of the format.
BESIDES = {"testcase": ({"file"}, {"properties"})}


def junit(summary):
    """Return the document; check its schema, and that its counts are those of its tests."""
    root = ET.fromstring(FORMATS["junit"].render(summary))
    assert root.tag == "testsuites"
    for each in root.iter():
        attributes, needed, children = SHAPE[each.tag]
        more, inside = BESIDES.get(each.tag, (set(), set()))
        assert needed <= set(each.attrib) <= attributes | more, each.tag
        assert {child.tag for child in each} <= children | inside, each.tag
        assert not len(each) or not (each.text or "").strip()
    (suite,) = root
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == int(root.attrib["tests"]) == len(cases)
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[count]) == len(suite.findall(f"testcase/{tag}"))
    assert re.fullmatch(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?", suite.attrib["time"])
    names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
    assert len(set(names)) == len(names)
    return root


def outcomes(summary):
    """Return the outcomes by the end of the tests' names."""
    found = {}
    for case in junit(summary).iter("testcase"):
        (output,) = {child.tag for child in case} - {"properties"}
        found[case.attrib["name"]] = output
    return found


def test_in_junit_red_fails_trouble_is_an_error_and_undecided_is_skipped(session):
    assert list(outcomes(session).values()) == [
        "system-out", "failure", "skipped", "error", "system-out", "skipped", "error", "failure",
    ]  # fmt: skip


def test_a_design_that_never_judges_is_one_state_by_one_name(cell, golden):
    sentence = "unjudged: design smoke never judges"
    result = cell(1, verdict="unjudged", reasons=("never_judges",), judges=False, design="smoke", sentence=sentence)
    summary = summary_of([result, cell(2, verdict="inconclusive"), cell(3, verdict="measured")])
    assert list(outcomes(summary).values()) == ["skipped", "skipped", "system-out"]
    skipped = [*junit(summary).iter("skipped")]
    assert [each.attrib["type"] for each in skipped] == ["unjudged", "inconclusive"]
    assert skipped[0].attrib["message"] == sentence
    _, table, _ = shown(summary)
    assert [row[1] for row in table] == [Verdict.INCONCLUSIVE.value, Verdict.UNJUDGED.value]
    golden(FORMATS["markdown"].render(summary).decode())
    assert "| inconclusive; or unjudged, because the design never judges | `skipped` |" in PAGE


def test_in_junit_the_nights_rulings_are_the_outcomes(night):
    found = outcomes(night)
    assert list(found.values()) == [
        "system-out",  # the night as a whole
        "system-out", "failure", "failure", "system-out", "skipped", "error", "error", "system-out",
        "failure",  # the test that failed for another reason
    ]  # fmt: skip
    assert found["lab-gone-missing-ipv6 throughput"] == "error"
    (accepted,) = (each for each in junit(night).iter("system-out") if "Ada" in (each.text or ""))
    assert (accepted.text or "").startswith("worse, and accepted: the new router, says Ada, until 2027-01-01\n")


@pytest.mark.parametrize("state", [SessionState.WHOLE, SessionState.BROKEN_OFF])
def test_a_session_that_failed_for_none_of_its_results_says_so_in_every_format(cell, state):
    trouble = Trouble(nodeid=WHOLE_SESSION, kind="failed", sentence=UNEXPLAINED)
    completeness = Completeness(state=state, measured=1, planned=1 + (state is SessionState.BROKEN_OFF))
    summary = summary_of([cell()], [trouble], status=1, completeness=completeness)
    assert list(outcomes(summary).values()) == ["error", "system-out"]
    assert next(iter(outcomes(summary))) == "the session as a whole"
    (error,) = junit(summary).iter("error")
    assert f"pytest: {UNEXPLAINED}" in (error.text or "").splitlines()
    assert junit(summary)[0].attrib["errors"] == "1"
    text = FORMATS["markdown"].render(summary).decode()
    assert f"| `pytest` | failed |  |  | {UNEXPLAINED} |" in text.replace("\\", "")
    page = FORMATS["html"].render(summary).decode()
    assert page.count(UNEXPLAINED) == 1
    assert json.loads(FORMATS["json"].render(summary))["troubles"] == [dataclasses.asdict(trouble)]
    sentence = plain_answer(summary.records, summary.troubles).sentence
    assert sentence.endswith("; pytest ended with status 1.")
    assert "no answer" not in sentence


@pytest.mark.parametrize("gate_status", GateStatus)
def test_in_junit_a_night_that_says_nothing_is_an_error(gate_status):
    result = outcomes(summary_of(night=night_of(gate_status=gate_status)))
    assert result == {
        "the night as a whole": "system-out" if gate_status in (GateStatus.GREEN, GateStatus.RED) else "error"
    }


def test_in_junit_tests_have_pytests_names_and_files_and_few_figures(night):
    cases = {case.attrib["name"]: case for case in junit(night).iter("testcase")}
    record = night.night.cells[1].record
    case = cases[f"test_udp[{record.cell}]"]
    assert (case.attrib["classname"], case.attrib["file"]) == ("suites.router.test_udp", SUITE)
    result = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
    assert result == {
        "verdict": "exceeds", "version": "1-ipv4-1s-0a1b2c", "metric": "throughput", "change": "-0.75 %",
        "interval": "[-0.95, -0.56]", "interval_level": "95 %", "margin": "10 %", "epochs": "6", "fingerprint": "f0",
        "p_adjusted": "0.0006", "p_history_adjusted": "0.4",
    }  # fmt: skip
    (failure,) = case.iter("failure")
    assert failure.attrib == {"message": "exceeds, confirmed indeed", "type": "exceeds"}
    assert (failure.text or "").splitlines() == [
        "exceeds, confirmed indeed",
        "",
        "change      -0.75 % [-0.95, -0.56], 95 % interval",
        "margin      10 %",
        "mean        ipv6 8.932 Mbit/s, ipv4 9.000 Mbit/s",
        "epochs      6 of 1 blocks (design quick)",
        "completed   60 of 60 by ipv6, 60 of 60 by ipv4",
        "p           fresh data 0.0003, by Holm 0.0006; against its last 23 nights 0.2, by Holm 0.4",
    ]


def test_in_junit_tests_of_one_name_are_told_apart(cell):
    one = dataclasses.replace(cell(), nodeid="a.py::TestX::test[c::1]")
    names = [
        (case.attrib["classname"], case.attrib["name"])
        for case in junit(summary_of([one, one, dataclasses.replace(one, nodeid="a.py::TestX::test[c::1] (2)")])).iter(
            "testcase"
        )
    ]
    assert names == [("a.TestX", "test[c::1]"), ("a.TestX", "test[c::1] (2)"), ("a.TestX", "test[c::1] (2) (2)")]


@given(nodeid=ANY_TEXT, sentence=ANY_TEXT)
def test_any_text_gives_xml_without_what_xml_forbids(nodeid, sentence):
    summary = summary_of(troubles=[Trouble(nodeid=nodeid, kind="failed", sentence=sentence)], saved=sentence)
    (case,) = junit(summary).iter("testcase")
    (failure,) = case.iter("failure")
    kept = "".join(each for each in sentence if each in "\t\n\r" or " " <= each <= "\ud7ff" or each >= "\ue000")
    kept = kept.replace("\ufffe", "").replace("\uffff", "")
    # An XML parser turns carriage returns in text into line feeds (XML 1.0, section 2.11).
    assert failure.text in {kept.replace("\r\n", "\n").replace("\r", "\n") or None, kept}


# --- CSV --------------------------------------------------------------------------------------------------------------


def rows(summary):
    return list(csv.DictReader(io.StringIO(FORMATS["csv"].render(summary).decode(), newline="")))


def test_csv_has_a_row_for_each_arm_with_all_digits(made):
    records = made.study()
    found = rows(summary_of(records))
    for record, test in zip(records, [row for row in found if row["role"] == "test"], strict=True):
        assert (test["cell"], test["metric"], test["ipver"]) == (record.cell, record.metric, "6")
        assert test["transport"] == record.transport
        assert float(test["mean"]) == record.test.mean
        assert float(test["change"]) == record.estimate
        assert float(test["effective_margin"]) == pytest.approx(10)


def test_csv_has_the_reference_once_for_the_arms_that_share_it(made):
    records = made.study()
    found = rows(summary_of(records))
    references = [row for row in found if row["role"] == "reference"]
    assert len(references) == len({(record.workload, record.metric) for record in records}) == len(records) / 3
    means = {(record.workload, record.metric): record.reference.mean for record in records}
    assert {
        (row["cell"].removesuffix("-ipv4"), row["metric"]): float(row["mean"]) for row in references
    } == means  # fmt: skip
    assert {(row["arm"], row["change"], row["verdict"], row["ruling"]) for row in references} == {("ipv4", "", "", "")}
    assert {(row["session"], row["began_at"], row["saved"]) for row in found} == {
        ("20261122T013000Z-0a1b2c", "2026-11-22T01:30:00+00:00", "main")
    }


def test_csv_tells_the_night_also_of_what_was_not_measured(night):
    found = {(row["cell"] or row["nodeid"], row["role"]): row for row in rows(night)}
    one = night.night.cells[1]
    row = found[one.key.cell, "test"]
    assert [row[name] for name in ("ruling", "data", "flagged", "p_fresh", "p_adjusted", "nights")] == [
        "exceeds", "fresh", "True", "0.0003", "0.0006", "23",
    ]  # fmt: skip
    assert (row["workload_version"], row["fingerprint"]) == ("1-ipv4-1s-0a1b2c", "f0")
    assert found[one.key.cell.replace("-ipv6", "-ipv4"), "reference"]["ruling"] == ""
    assert found["lab-gone-missing-ipv6", ""]["ruling"] == "missing"
    assert found["lab-gone-missing-ipv6", ""]["arm"] == ""
    assert found[f"{SUITE}::test_else", ""]["ruling"] == "failed"
    assert found["lab-udp-twin", "test"]["ruling"] == ""


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_in_csv_no_text_is_a_formula_and_numbers_are_numbers(cell, first):
    result = dataclasses.replace(cell(1, 0.5), sentence=f"{first}cmd|'/c calc'!A0", cell=f"{first}1+1")
    row = rows(summary_of([result]))[1]
    assert (row["sentence"], row["cell"]) == (f"'{first}cmd|'/c calc'!A0", f"'{first}1+1")
    assert result.estimate is not None
    assert float(row["change"]) == result.estimate < 0


@given(ANY_TEXT)
def test_csv_is_read_back_whatever_the_text(text):
    (row,) = rows(summary_of(troubles=[Trouble(nodeid="a.py::test", kind="failed", sentence=text)]))
    result = text.encode("utf-8", "replace").decode()
    assert row["sentence"] in {result, f"'{result}"}
    assert not row["sentence"].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


# --- JSON -------------------------------------------------------------------------------------------------------------


def refuse(word):
    raise AssertionError(word)


def test_json_holds_every_record_and_no_number_that_json_lacks(cell):
    endless = dataclasses.replace(cell(1), estimate=math.inf, low=-math.inf, high=math.nan)
    text = FORMATS["json"].render(summary_of([endless, cell(2)])).decode()
    document = json.loads(text, parse_constant=refuse)
    assert [document["records"][0][name] for name in ("estimate", "low", "high")] == [None, None, None]
    assert document["records"][1]["estimate"] == cell(2).estimate
    host = {"testbed": "lab", "role": "client", "name": "alpha", "addresses": ["198.18.0.1"]}
    assert document["hosts"] == [{**host, "facts": {"kernel": "6.1", "cpus": [2, 3]}}]
    assert document["night"] is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
        lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner) | st.tuples(inner),
    )
)
def test_what_is_made_plain_can_be_written_as_json(value):
    made = plain(value)
    text = json.dumps(made, allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(text, parse_constant=refuse) == made


def keys_told(*header):
    """Return the keys that the page's tables with that heading describe."""
    found: list[str] = []
    inside = False
    for line in PAGE.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[:1] == [*header]:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|-"):
            found += re.findall(r"`([^`]+)`", cells[0])
    return found


def test_the_page_tells_every_key_of_the_documents(night):
    result = night_document(night.night, session=night.name)
    assert keys_told("key of a session") == list(session_document(night))
    assert keys_told("key of a night") == list(result)
    assert keys_told("key of a cell") == list(result["cells"][0])
    assert keys_told("key of a measurement") == list(result["cells"][1]["fresh"])
    assert keys_told("key of an arm") == list(result["cells"][1]["fresh"]["test"])
    assert keys_told("key of the sentinel") == list(result["sentinel"])
    assert keys_told("ruling") == [decision.name.lower() for decision in GateDecision]
    assert keys_told("light") == [gate_status.name.lower() for gate_status in GateStatus]


def test_the_page_tells_every_column_of_the_csv(night, made):
    result = keys_told("column")
    columns = list(rows(night)[0])
    own = [name for name in columns if not name.startswith(("level_", "mean_")) or name == "mean_of_completed_s"]
    assert [name for name in result if not name.endswith("...")] == own
    assert {"level_...", "mean_..."} <= set(result)


def test_the_page_lists_every_format():
    assert set(keys_told("format")) == set(FORMATS)


def test_a_nights_document_is_what_later_nights_read(night, tmp_path):
    folder = tmp_path / "nights" / night.name
    folder.mkdir(parents=True)
    result = night_document(night.night, session=night.name, saved="main")
    (folder / VERDICT).write_text(json.dumps(result, allow_nan=False))
    (found,) = nights_in(tmp_path)
    assert (found.session, found.saved, found.gate_status) == (night.name, "main", GateStatus.RED)
    assert found.red == tuple((cell.key.cell, cell.key.metric) for cell in night.night.cells[1:3])
    assert result["counts"]["within"] == 1
    assert sum(result["counts"].values()) == len(night.night.cells)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def shown(summary):
    """Return the page as readers see it, without zero-width spaces: all texts, and the cells of tables by row."""
    markdown_it = pytest.importorskip("markdown_it", reason="what rich brings")
    text = FORMATS["markdown"].render(summary).decode().replace(NO_WIDTH, "")
    html = markdown_it.MarkdownIt("commonmark").enable("table").render(text)
    page = ET.fromstring(f"<body>{html}</body>")
    table = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    return "".join(page.itertext()), table[1:], page


def test_markdown_tells_the_answer_first_and_all_that_is_not_green_in_full(night, golden):
    text, table, _ = shown(night)
    assert text.split("\n")[:2] == ["Night: red (exit status 1)", "one cell is worse"]
    assert [row[1] for row in table] == [
        *(each.value for each in (GateDecision.EXCEEDS, GateDecision.WORSE)), "failed",
        *(each.value for each in (GateDecision.TROUBLE, GateDecision.MISSING, GateDecision.INCONCLUSIVE,
                                  GateDecision.ACCEPTED, GateDecision.GONE)),
    ]  # fmt: skip
    assert table[0][:4] == [
        f"{night.records[1].cell} throughput", GateDecision.EXCEEDS.value, "-0.75 % [-0.95, -0.56]", "10 %",
    ]  # fmt: skip
    golden(FORMATS["markdown"].render(night).decode())


def test_markdown_of_a_session_says_what_was_found(session):
    text, table, _ = shown(session)
    sentence = plain_answer(session.records, session.troubles).sentence
    assert text.split("\n")[:2] == ["Measurements", sentence]
    assert len(table) == 6
    assert "2 of 8" not in text


def test_markdown_of_a_green_session_has_no_table(cell):
    text, table, _ = shown(summary_of([cell(1), cell(2)]))
    assert not table
    assert f"2 in all: 2 {Verdict.WITHIN.value}." in text


@pytest.mark.parametrize(
    "decision", [GateDecision.WITHIN, GateDecision.EXCEEDS, GateDecision.INCONCLUSIVE, GateDecision.MISSING]
)
def test_markdown_of_thousands_of_cells_is_short_and_loses_none(cell, decision):
    one, count = cell(), 3000  # so many names alone would take more room than there is
    cells = [
        report(dataclasses.replace(one, cell=f"lab-udp-c{number}-1400-ipv6"), decision, sentence="why " * 500)
        for number in range(count)
    ]
    summary = summary_of(
        night=night_of(*cells, report(cell(2), GateDecision.WORSE), warnings=("a warning " * 20,) * 1000)
    )
    assert len(FORMATS["markdown"].render(summary)) <= 60_000
    text, table, _ = shown(summary)
    assert f"{count} {decision.value}" in text
    assert "worse than its history" in text
    left = re.search(rf"And, not shown here: (?:.*; )?(\d+) {decision.value}", text)
    named = sum(row[1] == decision.value for row in table)
    assert named + (int(left[1]) if left else 0) == (0 if decision is GateDecision.WITHIN else count)


HARMFUL = [
    "a|b", "`x`", "a\\|b", "*b*_i_", "<b>x</b>", "[l](http://x)", "![i](x)", "&amp;", "# h", "1. x", "12) x", "- x",
    "~~s~~", "> q", "\\", "``` y", "| a | b |", "--- x", "=== y",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMFUL)
def test_in_markdown_no_name_and_no_sentence_is_markup(text):
    trouble = Trouble(nodeid=text, kind="failed", sentence=text)
    read, table, page = shown(summary_of(troubles=[trouble], night=night_of(headline=text, warnings=(text,))))
    assert [table[0][0], table[0][4]] == [text, text]
    assert read.split("\n")[1] == text
    assert not [each.tag for each in page.iter() if each.tag in {"a", "img", "em", "b", "s", "blockquote", "ol", "h1"}]
    assert [each.text for each in page.iter("li")] == [text]


# GitHub Docs, "Autolinked references and URLs"; the extension "Autolinks" of GFM's specification.
LINKING = [
    "@octocat see https://evil.test/x #12", "www.evil.test", "o/r#12", "ftp://evil.test", "a@evil.test", "GH-12 gh-12",
    "a|b @octocat https://evil.test #12", "&#64;octocat &#12", "(WWW.evil.test)", "_www.evil.test", "\\@octocat \\#12 https\\://evil.test",
]  # fmt: skip


@pytest.mark.parametrize("text", LINKING)
def test_in_markdown_nothing_is_a_link_a_mention_or_a_reference(text):
    trouble = Trouble(nodeid=text, kind="failed", sentence=text)
    summary = summary_of(troubles=[trouble], night=night_of(headline=text, warnings=(text,)))
    outside = re.sub(r"`[^`\n]*`", "", FORMATS["markdown"].render(summary).decode())
    assert not re.findall(rf"@(?!{NO_WIDTH})|://|www\.|#\d|gh-\d", outside, re.IGNORECASE)
    read, table, page = shown(summary)
    assert [table[0][0], table[0][4], read.split("\n")[1]] == [text] * 3
    assert [each.text for each in page.iter("li")] == [text]


@pytest.mark.parametrize("form", ["samples", "parquet"])
def test_samples_are_written_run_by_run_as_there_may_be_more_than_memory_holds(cell, form, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install pyarrow)")
    monkeypatch.setattr(parquet, "_GROUP", 1)
    done = []

    def read(number):
        done.append("read")
        return array("d", [0.001 * number, 0.5, 0.002 * number, 0.6])

    class File(io.BytesIO):
        def write(self, data):
            done.append("write")
            return super().write(data)

        def writelines(self, lines):
            for line in lines:
                self.write(line)

    runs = tuple(
        MeasuredRun(
            session="s", workload="lab-udp-c1-1400", confirms=False, arm=Arm(6, "native"), epoch=number, block=0,
            slot=0, began_at=None, attempted=2, failed={}, values={},
            columns=("total", "more" if number else "other"), samples=functools.partial(read, number),
        )
        for number in range(4)
    )  # fmt: skip
    summary = summary_of([cell(1)], runs=runs)
    file = File()
    FORMATS[form].write(summary, file)
    assert [word for word, _ in itertools.groupby(done) if word == "read"] == ["read"] * 4, "written in between"
    assert FORMATS[form].render(summary) == file.getvalue()
    rows = list(sample_rows(summary))
    assert [(row["epoch"], row["sample"], row["total"], row["other"], row["more"]) for row in rows[:4]] == [
        (0, 0, 0.0, 0.5, None), (0, 1, 0.0, 0.6, None), (1, 0, 0.001, None, 0.5), (1, 1, 0.002, None, 0.6),
    ]  # fmt: skip
    if form == "samples":
        assert file.getvalue().decode() == csv_text(rows)
    else:
        assert pq.read_table(io.BytesIO(file.getvalue())).to_pylist() == rows


def test_without_samples_there_is_a_header(cell):
    assert FORMATS["samples"].render(summary_of([cell(1)])).decode().startswith("session,workload,testbed,protocol,")
