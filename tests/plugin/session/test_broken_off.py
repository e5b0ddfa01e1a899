"""An incomplete session says so first, however it ended and in whichever report."""

import csv
import io
import json
import signal
import textwrap
import xml.etree.ElementTree as ET

import pytest

from pytest_ipperf.core.records.completeness import SessionState
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import read_session_summary
from tests.support.sessions.projects import program

SUITE = """
    import os
    import signal
    import pytest

    def stop(how):
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "exit":
            pytest.exit("enough")
        if how in ("red", "maxfail"):
            pytest.fail("red")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 10, 100, 1000], payload=["1k"])
    def test_smtp(measured, margin):
        if measured.cell.workload.connections == 100:
            stop({how!r})
        assert measured.slowdown <= margin

    def test_of_another_kind():
        pass
"""
BANNER = "BROKEN OFF: 2 of 4 cells measured; go on with --ipperf-resume=last"
SO_FAR = "So far, of 2 measured cells: 2 within their margin"


@pytest.fixture
def stopped(project):
    """Run a suite of four cells whose third ends the session in a given way; return the result and the folder."""

    def run(how, *arguments):
        project.pytester.makepyfile(textwrap.dedent(SUITE).format(how=how))
        project.network()
        result = project.run("-p", "no:cacheprovider", *arguments)
        (folder,) = (project.pytester.path / ".ipperf" / "runs").iterdir()
        return result, folder

    return run


def _section(result):
    """Return the lines of the terminal's section on measurements, without empty ones."""
    lines = [line for line in result.stdout.lines if line]
    return lines[next(at for at, line in enumerate(lines) if line.strip("= ") == "measurements") + 1 :]


def _exports(folder):
    """Return the session in every format."""
    root = ["--ipperf-records", str(folder.parent.parent)]
    names = sorted(set(FORMATS) - {"parquet"})  # which is no text
    outputs = program(*(["export", "last", "--format", name, *root] for name in names))
    assert {status for status, _ in outputs} == {0}
    return dict(zip(names, (text for _, text in outputs), strict=True))


def test_an_interrupted_session_says_so_first_in_every_form(stopped):
    result, folder = stopped("interrupt")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert _section(result)[0] == BANNER
    assert read_session_summary(folder).completeness.state is SessionState.BROKEN_OFF
    page = (folder / "report.html").read_text(encoding="utf-8")
    exports = _exports(folder)
    assert exports["html"].count(BANNER.partition(": ")[2]) >= 2
    for html in (page, exports["html"]):
        assert html.index("BROKEN OFF") == html.index(f"<title>{BANNER}") + len("<title>")
        assert html.index("go on with", html.index("<body>")) < html.index("</h1>")
        assert "So far: IPv6 is as fast as IPv4 for SMTP" in html
        assert "No cell exceeds" not in html
    markdown = exports["markdown"].splitlines()
    assert markdown[2].replace("\\", "") == f"**{BANNER}**"
    assert SO_FAR in exports["markdown"]
    suite = ET.fromstring(exports["junit"]).find("testsuite")
    assert suite is not None
    assert (suite.get("errors"), suite.get("skipped"), suite.get("tests")) == ("1", "2", "5")
    first = suite.find("testcase")
    assert first is not None
    error = first.find("error")
    assert error is not None
    assert (first.get("name"), error.get("message")) == ("the session as a whole", BANNER)
    skipped = [case.get("name") for case in suite.iter("testcase") if case.find("skipped") is not None]
    assert [name.rpartition("-c")[2] for name in skipped if name] == ["100-1k-ipv6]", "1000-1k-ipv6]"]
    rows = list(csv.DictReader(io.StringIO(exports["csv"])))
    assert {row["state"] for row in rows} == {"broken off"}
    assert sum("unmeasured" in row.values() for row in rows) == 2
    known = json.loads(exports["json"])
    assert (known["state"], known["banner"], known["cells_measured"], known["cells_planned"]) == (
        "broken off", BANNER, 2, 4,
    )  # fmt: skip
    root = ["--ipperf-records", str(folder.parent.parent)]
    found = program(["show", "last", *root], ["list", *root], ["compare", "last", "last", *root])
    shown, listed, compared = (text for _, text in found)
    assert shown.splitlines()[0] == BANNER
    assert "  broken off, 2 of 4 cells\n" in listed
    assert compared.splitlines()[0] == f"session {folder.name}: {BANNER}"


def test_a_session_with_a_name_is_resumed_by_its_folder(stopped):
    """Without that name in the command, `last` would be another session."""
    result, folder = stopped("interrupt", "--ipperf-save=mine")
    banner = f"BROKEN OFF: 2 of 4 cells measured; go on with --ipperf-resume={folder}"
    assert banner in " ".join(result.stdout.str().split())
    assert banner in (folder / "report.html").read_text(encoding="utf-8")
    root = ["--ipperf-records", str(folder.parent.parent)]
    listed, shown = (text for _, text in program(["list", *root], ["show", "mine", *root]))
    assert banner in listed
    assert shown.splitlines()[0] == banner


@pytest.mark.parametrize(
    ("how", "arguments", "status"),
    [
        ("red", ["-x"], pytest.ExitCode.TESTS_FAILED),
        ("maxfail", ["--maxfail=1"], pytest.ExitCode.TESTS_FAILED),
        ("exit", [], pytest.ExitCode.INTERRUPTED),
    ],
)
def test_however_it_was_stopped_it_is_the_same_word(stopped, how, arguments, status):
    result, folder = stopped(how, *arguments)
    assert result.ret == status
    # A red cell has an answer; those after it have none.
    measured = 3 if how in ("red", "maxfail") else 2
    banner = f"BROKEN OFF: {measured} of 4 cells measured; go on with --ipperf-resume=last"
    assert _section(result)[0] == banner
    assert banner in (folder / "report.html").read_text(encoding="utf-8")
    assert len(read_session_summary(folder).completeness.missing) == 4 - measured


def test_a_red_cell_that_comes_last_leaves_the_session_whole(stopped):
    result, folder = stopped("red", "-x", "-k", "c100-")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert read_session_summary(folder).completeness.is_whole
    assert "BROKEN OFF" not in result.stdout.str()
    assert "BROKEN OFF" not in (folder / "report.html").read_text(encoding="utf-8")


def test_what_was_skipped_is_not_missing(project):
    project.network()
    more = """
        import pytest

        def pytest_itemcollected(item):
            if "-c10-" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="not today"))
    """
    project.pytester.makepyfile(picky=textwrap.dedent(more))
    result = project.run("-p", "picky")
    result.assert_outcomes(passed=1, skipped=1)
    assert "BROKEN OFF" not in result.stdout.str()
    (folder,) = (project.pytester.path / ".ipperf" / "runs").iterdir()
    assert read_session_summary(folder).completeness.is_whole


def test_a_killed_session_is_told_by_who_reads_it_and_gets_its_page_then(stopped):
    result, folder = stopped("kill")
    assert result.ret == -signal.SIGKILL
    assert not (folder / "report.html").exists()
    root = ["--ipperf-records", str(folder.parent.parent)]
    listed, shown = (text.splitlines() for _, text in program(["list", *root], ["show", "last", *root]))
    assert listed[1].endswith("  broken off, 2 of 4 cells")
    assert listed[2] == f"session {folder.name}: {BANNER}"
    assert shown[0] == BANNER
    assert f"page: {folder / 'report.html'}" in shown
    assert BANNER in (folder / "report.html").read_text(encoding="utf-8")
    exports = _exports(folder)
    assert f'<error message="{BANNER}" type="broken off">' in exports["junit"]
    # Of two sessions of one name, --ipperf-resume=last means the later one.
    (folder.parent / "29991231T000000Z-ffffff").mkdir()
    journal = (folder / "main.jsonl").read_bytes()
    (folder.parent / "29991231T000000Z-ffffff" / "main.jsonl").write_bytes(journal.replace(b'"at": 1', b'"at": 9'))
    ((_, text),) = program(["show", folder.name, *root])
    shown = text.splitlines()
    assert shown[0].endswith(f"; go on with --ipperf-resume={folder}")


@pytest.mark.parametrize(("how", "banner"), [("interrupt", BANNER), ("kill", "RUNNING: 2 of 4 cells measured so far")])
def test_allure_has_a_broken_result_of_a_session_that_is_not_whole(stopped, how, banner):
    pytest.importorskip("allure_pytest", reason="allure-pytest is not installed (pip install allure-pytest)")
    _, folder = stopped(how, "--alluredir=results")
    results = [json.loads(path.read_text()) for path in (folder.parents[2] / "results").glob("*-result.json")]
    (own,) = [each for each in results if each["name"] == "The session as a whole"]
    assert own["status"] == "broken"
    assert own["statusDetails"]["message"].startswith(banner)
    missing = [line for line in own["description"].splitlines() if line.startswith("- ")]
    assert [line.rpartition("-c")[2] for line in missing] == ["100-1k-ipv6]", "1000-1k-ipv6]"]


def test_allure_has_no_such_result_of_a_whole_session(project):
    pytest.importorskip("allure_pytest", reason="allure-pytest is not installed (pip install allure-pytest)")
    project.network()
    project.run("--alluredir=results").assert_outcomes(passed=2)
    assert "The session as a whole" not in "".join(
        path.read_text() for path in (project.pytester.path / "results").glob("*-result.json")
    )


def test_a_running_session_is_called_running_and_never_broken_off(project):
    """Checked by its own test, while its journal is open."""
    script = """
        import subprocess
        import sys
        import pytest

        @pytest.mark.smtp
        @pytest.mark.levels(connections=[1, 10], payload=["1k"])
        def test_smtp(measured, margin):
            if measured.cell.workload.connections == 10:
                for arguments in (["list"], ["show", "last"], ["export", "last", "--format", "junit"],
                                  ["export", "last", "--format", "markdown"]):
                    program = "import sys; from pytest_ipperf import cli; sys.exit(cli.main(sys.argv[1:]))"
                    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
                    print(done.stdout, done.stderr)
            assert measured.slowdown <= margin
    """
    project.pytester.makepyfile(textwrap.dedent(script))
    project.network()
    result = project.run("-s")
    output = result.stdout.str()
    banner = "RUNNING: 1 of 2 cells measured so far"
    assert result.ret == pytest.ExitCode.OK
    assert "  running, 1 of 2 cells" in output
    assert output.count(banner) >= 4
    assert f'<error message="{banner}" type="running">' in output
    assert "BROKEN OFF" not in output
    assert "go on with" not in output
    (folder,) = (project.pytester.path / ".ipperf" / "runs").iterdir()
    assert "RUNNING" not in (folder / "report.html").read_text(encoding="utf-8")


def test_records_that_could_not_all_be_written_are_no_whole_session(project):
    """As on a full disk: from the second answer on nothing can be kept."""
    project.network()
    more = """
        from pytest_ipperf.core.portable.errors import LabError
        from pytest_ipperf.store import EventLog

        append = EventLog.append

        def failing(self, event, facts):
            if event == "record" and "-c10-" in facts["cell"]:
                raise LabError("records: no room")
            append(self, event, facts)

        EventLog.append = failing
    """
    project.pytester.makepyfile(full=textwrap.dedent(more))
    result = project.run("-p", "full")
    assert _section(result)[0] == "BROKEN OFF: 1 of 2 cells measured; go on with --ipperf-resume=last"
    (folder,) = (project.pytester.path / ".ipperf" / "runs").iterdir()
    assert read_session_summary(folder).completeness.banner.startswith("BROKEN OFF: 1 of 2 cells measured")
