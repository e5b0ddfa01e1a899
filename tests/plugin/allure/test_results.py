"""The results that a session writes for Allure, and the files beside them."""

import json
import re
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.plugin.allure.environment import EnvironmentFiles, executor_of, properties
from pytest_ipperf.plugin.allure.results import history_id, measured_of
from pytest_ipperf.plugin.allure.statuses import Classification, categories
from pytest_ipperf.plugin.measure.outcome import VERDICTS
from pytest_ipperf.plugin.session.session_end import SESSION_END
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.report.allure_result import Category
from tests.support.sessions.forked_python import run_python
from tests.support.sessions.project_settings import STRICT
from tests.support.sessions.projects import SYNTHETIC

theirs = pytest.importorskip("allure_pytest.utils", reason="allure-pytest is not installed (pip install allure-pytest)")

SUITE = """
    import allure
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 16], payload=["384", "6384"])
    @pytest.mark.margin("10%")
    def test_mail(measured, margin):
        assert measured.slowdown <= margin

    @allure.title("What a suite calls it")
    @allure.epic("Where a suite puts it")
    @pytest.mark.http
    @pytest.mark.levels(connections=[1])
    def test_own(measured):
        assert measured.effect is None, "a claim of the suite's own"

    @pytest.fixture
    def lacking():
        raise RuntimeError("the fixture of a suite broke")

    @pytest.mark.http
    @pytest.mark.levels(connections=[10])
    def test_lacking(lacking, measured):
        pass

    def test_plain():
        pass
"""
CAPTURES = """
    import dataclasses

    without = LiveTestbed.run

    def run(self, *arguments, capture=0, **more):
        result = without(self, *arguments, **more)
        packets = {host: bytes(24) + host.encode() for host in ("client", "server")}
        return dataclasses.replace(result, captures=packets if capture else {})

    LiveTestbed.run = run
"""
NIGHT = {
    "loopback-smtp-c1-384": 0.0, "loopback-smtp-c1-6384": 0.3, "loopback-smtp-c16-384": 0.1,
}  # fmt: skip
"""Slow-down of IPv6 by workload: within, beyond, and at the margin; a fourth one breaks."""


class Folder:
    """A suite on a simulated network, and the results of its sessions."""

    said = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "mail_servers").mkdir()
        (path / "mail_servers" / "test_mail.py").write_text(textwrap.dedent(SUITE))
        (path / "pyproject.toml").write_text(STRICT)

    def network(self, **change) -> None:
        known = {"slower": NIGHT, "noise": 0.02, "broken": ("loopback-smtp-c16-6384",), "invalid": "", "from_epoch": 0,
                 "run_s": 0.0, "twin": 0.0, "fresh": None, "log": str(self.path / "log"),
                 "connections": 300}  # fmt: skip
        text = textwrap.dedent(SYNTHETIC).format(**{**known, **change})
        (self.path / "conftest.py").write_text(text + textwrap.dedent(CAPTURES))

    def run(self, *arguments: str) -> str:
        done = run_python(["-m", "pytest", "--testbed=loopback", "-p", "no:randomly", *arguments], cwd=self.path)
        return done.stdout + done.stderr

    def results(self, name: str) -> dict[str, SimpleNamespace]:
        """Return the results by cell, or by the test's name."""
        results = [json.loads(file.read_text()) for file in (self.path / name).glob("*-result.json")]
        return {_cell(each): SimpleNamespace(**each, folder=self.path / name) for each in results}


def _cell(result: dict) -> str:
    parameters = {each["name"]: each["value"] for each in result.get("parameters", [])}
    if "connections" not in parameters:
        return str(result["name"])
    return "-".join(parameters[name] for name in ("protocol", "connections", "payload"))


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Three sessions: in one process, of two workers that flags, and one whose paths are invalid."""
    folder = Folder(tmp_path_factory.mktemp("night"))
    folder.network()
    folder.said = folder.run("--alluredir=one", "--ipperf-capture=5", "--junitxml=junit.xml")
    folder.run("--alluredir=two", "--ipperf-exceeds=flag", "-n", "2")
    folder.network(invalid="the path was not the path")
    folder.run("--alluredir=three", "-k", "c1-384-ipv6")
    return folder


def category(result) -> str:
    """Return the category that Allure finds: the first that matches."""
    rules = json.loads((result.folder / "categories.json").read_text())
    message = getattr(result, "statusDetails", {}).get("message", "")
    found = [rule["name"] for rule in rules if result.status in rule["matchedStatuses"]
             and re.fullmatch(rule.get("messageRegex", ".*"), message, re.DOTALL)]  # fmt: skip
    return found[0] if found else ""


# --- each kind of result ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "cell", "status", "kind", "message"),
    [
        ("one", "smtp-1-384", "passed", "", ""),
        (
            "one",
            "smtp-1-6384",
            "failed",
            "Regression",
            r"regression: IPv6 is slower than IPv4 by .* margin of 10 %; .*",
        ),
        ("one", "smtp-16-384", "skipped", "Inconclusive", r"inconclusive: .*inconclusive.*"),
        ("one", "smtp-16-6384", "broken", "Infrastructure", "infrastructure: host server: the server died"),
        ("one", "http-10-1k", "broken", "Infrastructure", "infrastructure: RuntimeError: the fixture of a suite broke"),
        ("one", "http-1-1k", "failed", "", r"AssertionError: a claim of the suite's own.*"),
        ("two", "smtp-1-6384", "skipped", "Flagged, to be measured again", r"flagged: IPv6 is slower than IPv4 by .*"),
        ("three", "smtp-1-384", "broken", "Invalid", r"invalid: .*the path was not the path.*"),
    ],
)
def test_each_outcome_has_its_status_its_message_and_its_category(  # noqa: PLR0917
    night, session, cell, status, kind, message
):
    result = night.results(session)[cell]
    assert (result.status, category(result)) == (status, kind), night.said
    assert re.fullmatch(message, getattr(result, "statusDetails", {}).get("message", ""), re.DOTALL)


def test_a_regression_shows_the_picture_and_no_source(night):
    trace = night.results("one")["smtp-1-6384"].statusDetails["trace"]
    assert "0 = no change, | = margin 10 %" in trace
    assert "def test_mail" not in trace
    assert "trace" not in night.results("one")["smtp-16-6384"].statusDetails
    assert "def lacking" in night.results("one")["http-10-1k"].statusDetails["trace"]


def test_what_is_no_measurement_is_left_to_allure(night):
    plain = night.results("one")["test_plain"]
    assert plain.status == "passed"
    assert {label["name"] for label in plain.labels}.isdisjoint({"epic", "feature", "story"})


# --- content of a result ----------------------------------------------------------------------------------------------


def test_a_measurement_has_a_title_a_place_and_plain_parameters(night):
    result = night.results("one")["smtp-16-384"]
    assert result.name == "SMTP, IPv6, 16 connections, 384 bytes"
    labels = {label["name"]: label["value"] for label in result.labels}
    assert (labels["epic"], labels["feature"], labels["story"]) == ("Mail servers", "SMTP", "IPv6")
    plain = {each["name"]: each["value"] for each in result.parameters if not each.get("excluded")}
    assert plain == {
        "testbed": "loopback", "protocol": "smtp", "connections": "16", "payload": "384", "ipver": "IPv6",
        "transport": "native",
    }  # fmt: skip
    assert {each["name"] for each in result.parameters if each.get("excluded")} == {"design", "seed", "session"}
    assert result.stop > result.start


def test_a_suites_own_title_and_place_go_before(night):
    result = night.results("one")["http-1-1k"]
    assert result.name == "What a suite calls it"
    assert [label["value"] for label in result.labels if label["name"] == "epic"] == ["Where a suite puts it"]
    assert [label["value"] for label in result.labels if label["name"] == "feature"] == ["HTTP"]


def test_the_answer_is_the_description(night):
    for session, cell in (("one", "smtp-1-384"), ("one", "smtp-16-384"), ("two", "smtp-1-6384")):
        page = night.results(session)[cell].descriptionHtml
        assert page.startswith("<p><b>")
        assert (page.count("data:image/png;base64,"), page.count("<table")) == (2, 1)
        assert "The distribution of all connections and the course of the runs: IPv4 p50 " in page
    lack = night.results("one")["smtp-16-6384"]
    assert lack.descriptionHtml == "<p><b>Infrastructure.</b> Host server: the server died.</p>"


def test_the_picture_of_a_record_is_of_the_runs_that_gave_it():
    """The workload's first runs, or the fresh epochs of its arm."""
    first, fresh, other = object(), object(), object()
    cell = Cell(
        Workload(testbed="lab", protocol="smtp", connections=1, payload_bytes=1024, client="lean"), Arm(6, "native")
    )
    sets = [
        SimpleNamespace(arms=(Arm(6, "tunnel"),), measurement=other),
        SimpleNamespace(arms=(cell.arm,), measurement=fresh),
    ]
    session: Any = SimpleNamespace(results={cell.workload: first}, fresh_epochs={cell.workload: sets})
    record: Any = SimpleNamespace(confirms=None, test=SimpleNamespace(arm=cell.arm))
    assert measured_of(session, cell, record) is first
    record.confirms = object()
    assert measured_of(session, cell, record) is fresh


def _attached(result, name):
    (found,) = [each for each in result.attachments if each["name"] == name]
    return (result.folder / found["source"]).read_bytes(), found["type"]


def test_run_values_record_and_captures_are_attached(night):
    result = night.results("one")["smtp-1-6384"]
    values, kind = _attached(result, "run values and answer")
    assert kind == "text/csv"
    assert len(re.findall(r"^response_time,ipv[46],\d+,", values.decode(), re.MULTILINE)) == 24
    record = json.loads(_attached(result, "record")[0])
    assert (record["cell"], record["verdict"]) == ("loopback-smtp-c1-6384-ipv6", "exceeds")
    names = [f"capture, {arm}, {host}" for arm in ("ipv4", "ipv6") for host in ("client", "server")]
    assert [each["name"] for each in result.attachments][1:] == ["ministat", "record", *names]
    assert "\n+ ipv6\n" in _attached(result, "ministat")[0].decode()
    assert _attached(result, "capture, ipv6, server")[0].startswith(bytes(24) + b"server")
    assert "attachments" not in vars(night.results("one")["smtp-16-6384"])


def test_figures_are_told_always_in_the_same_unit(night):
    result = night.results("one")["smtp-1-6384"]
    change, mean = json.loads((result.folder / f"{result.uuid}-perf.json").read_text())
    assert (change["key"], change["unit"], change["better"]) == (f"{result.historyId}-change", "%", "lower")
    assert (mean["key"], mean["unit"], mean["title"]) == (f"{result.historyId}-mean", "ms", result.name)
    assert 20 < mean["value"] < 30


def test_fixtures_that_are_only_parameters_are_not_listed(night):
    containers = [json.loads(file.read_text()) for file in (night.path / "one").glob("*-container.json")]
    # Containers without a test are not shown.
    befores = {
        each["name"] for container in containers if container.get("children") for each in container.get("befores", [])
    }
    assert befores == {"server_state", "margin", "measured", "lacking"}
    afters = {each["name"] for container in containers for each in container.get("afters", [])}
    assert not [name for name in afters if name.startswith(("measured::", "margin::", "testbed::", "ipver::"))]


def test_the_results_of_a_cell_are_small(night):
    sizes = [file.stat().st_size for file in (night.path / "one").glob("*-result.json")]
    assert max(sizes) < 80_000


def test_a_session_of_12_cells_writes_less_than_2_mb(night):
    """Everything in the folder of results counts: descriptions with plots, attachments, environment."""
    written = sum(file.stat().st_size for file in (night.path / "one").iterdir())
    names = (each["name"] for result in night.results("one").values() for each in vars(result).get("parameters", ()))
    cells = sum(name == "connections" for name in names)
    assert cells >= 5
    assert 12 * written / cells < 2_000_000


def test_junit_has_a_few_short_properties_of_each_cell(night):
    text = (night.path / "junit.xml").read_text()
    properties_of = re.findall(r'<property name="(\w+)" value="([^"]*)"', text)
    assert {name for name, _ in properties_of} >= {"ipperf_cell", "ipperf_verdict", "ipperf_change"}
    assert max(len(value) for _, value in properties_of) < 100


# --- history ----------------------------------------------------------------------------------------------------------


def test_history_ids_are_those_of_another_session_and_of_workers(night):
    one, two = night.results("one"), night.results("two")
    assert {cell: result.historyId for cell, result in one.items()} == {
        cell: result.historyId for cell, result in two.items()
    }
    assert len({result.historyId for result in one.values()}) == len(one) == 7
    # In Allure 3 the id consists of the test case and the parameters.
    assert all(result.testCaseId == result.historyId for cell, result in one.items() if cell != "test_plain")


def _cell_of(connections, payload, arm="ipv6", protocol="smtp"):
    load = {"testbed": "lab", "client": "lean", "connections": connections, "payload_bytes": payload}
    return Cell(Workload(protocol=protocol, **load), Arm.parse(arm))


def _item(cell, name="test_mail"):
    return SimpleNamespace(nodeid=f"suites/test_mail.py::{name}[{cell}]")


def _parameters(cell):
    values = {"connections": cell.workload.connections, "payload": cell.workload.payload_bytes, "ipver": cell.arm.ipver}
    return [SimpleNamespace(name=name, value=value, excluded=None) for name, value in values.items()], values


def test_cells_that_allure_pytest_takes_for_one_are_two():
    pair = [_cell_of(1, 6384), _cell_of(16, 384)]
    parameters, values = zip(*map(_parameters, pair), strict=True)
    assert len({theirs.get_history_id("suites#test_mail", *each) for each in zip(parameters, values, strict=True)}) == 1
    assert len({history_id(_item(cell), cell, "response_time") for cell in pair}) == 2


ASKED = st.tuples(
    st.builds(
        _cell_of, st.integers(1, 5000), st.integers(1, 70_000), st.sampled_from(["ipv4-twin", "ipv6", "ipv6-tunnel"]),
        st.sampled_from(["smtp", "http"]),
    ),
    st.sampled_from(["response_time", "loss"]), st.sampled_from(["test_a", "test_ab"]),
)  # fmt: skip


@given(st.lists(ASKED, min_size=2, max_size=30, unique_by=str))
def test_no_two_questions_share_a_history(asked):
    found = {history_id(_item(cell, name), cell, metric) for cell, metric, name in asked}
    assert len(found) == len(asked)


# --- beside the results -----------------------------------------------------------------------------------------------


def test_environment_and_executor_are_written_once_by_the_main_process(night):
    for session in ("one", "two"):
        text = (night.path / session / "environment.properties").read_text()
        environment = dict(line.split("=", 1) for line in text.splitlines())
        assert (environment["Testbed"], environment["Server"], environment["Design"], environment["Reference"]) == (
            "loopback", "synthetic 1.0 (embedded)", "quick", "IPv4",
        )  # fmt: skip
        run = night.path / ".ipperf" / "runs" / environment["Session"]
        assert run.is_dir()
        assert json.loads((night.path / session / "executor.json").read_text())["name"]


@pytest.mark.parametrize(
    ("environ", "executor"),
    [
        ({}, {"name": "local", "type": "local", "buildName": "S"}),
        (
            {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://git.test", "GITHUB_REPOSITORY": "o/r",
             "GITHUB_RUN_ID": "77", "GITHUB_RUN_NUMBER": "5", "GITHUB_WORKFLOW": "night"},
            {"name": "GitHub Actions", "type": "github", "url": "https://git.test/o/r", "buildOrder": 5,
             "buildName": "night #5", "buildUrl": "https://git.test/o/r/actions/runs/77"},
        ),
        (
            {"GITLAB_CI": "true", "CI_PROJECT_URL": "https://lab.test/o/r", "CI_JOB_URL": "https://lab.test/o/r/-/jobs/9",
             "CI_PIPELINE_IID": "12", "CI_JOB_NAME": "night"},
            {"name": "GitLab CI", "type": "gitlab", "url": "https://lab.test/o/r", "buildOrder": 12,
             "buildName": "night #12", "buildUrl": "https://lab.test/o/r/-/jobs/9"},
        ),
        (
            {"JENKINS_URL": "https://ci.test/", "BUILD_URL": "https://ci.test/job/night/3/", "BUILD_NUMBER": "3",
             "JOB_NAME": "night"},
            {"name": "Jenkins", "type": "jenkins", "url": "https://ci.test/", "buildOrder": 3, "buildName": "night #3",
             "buildUrl": "https://ci.test/job/night/3/"},
        ),
    ],
)  # fmt: skip
def test_the_executor_is_taken_from_the_variables_of_ci(environ, executor):
    assert executor_of(environ, "S") == executor


def test_a_folder_that_cannot_be_written_is_told_beside_other_troubles_and_ends_no_session(tmp_path):
    (tmp_path / "file").write_text("")
    asked = {"client": "lean", "rate_per_s": 0.0, "workers": 1, "design": DESIGNS["quick"], "seed": 1}
    settings = SimpleNamespace(**asked, reference=Arm(4, "native"), flags=False)
    session = SimpleNamespace(settings=settings, folder=tmp_path / "S", testbeds=[], confirms=False)
    ending = SimpleNamespace(troubles=["tables: the disk is full"])
    config: Any = SimpleNamespace(
        stash={VERDICTS: SimpleNamespace(measurements=1, records=[]), SESSION: session, SESSION_END: ending},
        invocation_params=SimpleNamespace(dir=tmp_path), getoption=lambda name: "file/results",
    )  # fmt: skip
    EnvironmentFiles(config).pytest_sessionfinish()
    assert ending.troubles == [
        "tables: the disk is full", f"allure: {tmp_path}/file/results cannot be written (Not a directory)",
    ]  # fmt: skip


def test_properties_are_such_as_java_reads():
    assert properties({"a b": "x=y: \\ é\n", "#": "\U0001f600"}) == "a\\ b=x=y: \\\\ \\u00e9\\n\n\\#=\\ud83d\\ude00\n"


def test_properties_have_a_question_mark_for_what_was_not_utf_8():
    assert properties({"Server": "caf\udce4 1.0"}) == "Server=caf? 1.0\n"


def test_categories_are_one_for_each_kind():
    assert [rule["name"] for rule in categories()] == [kind.value[1] for kind in Category]
    assert (
        Classification(Category.FLAGGED, "flagged: slower").message
        == Classification(Category.FLAGGED, "slower").message
    )


def test_a_session_that_measures_nothing_is_left_alone(night):
    night.run("--alluredir=none", "-k", "plain")
    names = {file.name.rpartition("-")[2] for file in (night.path / "none").iterdir()}
    assert "result.json" in names
    assert names.isdisjoint({"categories.json", "environment.properties", "executor.json"})


def test_nothing_of_it_is_loaded_where_no_report_is_asked_for(pytester):
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("loaded:", sorted(name for name in sys.modules if "allure" in name))
        """
    )
    pytester.makepyfile(test_one="def test_one(): pass")
    # In a new process: the one from which sessions are forked has imported it.
    without = pytester.run(sys.executable, "-m", "pytest", "-p", "no:allure_pytest", "-p", "no:randomly")
    without.stdout.fnmatch_lines(["loaded: []"])


def test_the_page_of_the_docs_has_all_categories_with_their_statuses():
    page = (Path(__file__).parents[3] / "docs" / "allure.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    assert [tuple(row[:2]) for row in rows if row[1] in {"failed", "skipped", "broken"}] == [
        (kind.value[1], kind.status) for kind in Category
    ]
