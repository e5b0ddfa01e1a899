"""`pytest-ipperf export`: every format, from the records alone."""

from __future__ import annotations

import dataclasses
import json
from array import array

import pytest

from pytest_ipperf import cli
from pytest_ipperf.cli.night.finish import end_night
from pytest_ipperf.core.nightly.session_summary import UNEXPLAINED
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import Archive, EventLog, read_session_summary
from tests.store.kept import BEGAN, facts, keep, name_of, record


@pytest.mark.parametrize("form", FORMATS)
def test_a_session_is_written_in_every_format(history, monkeypatch, capfdbinary, tmp_path, form):
    monkeypatch.chdir(history.parent)
    output = tmp_path / "it"
    assert cli.main(["export", "main", "--format", form]) == 0
    shown = capfdbinary.readouterr().out
    assert cli.main(["export", "main", "--format", form, "--output", str(output)]) == 0
    assert shown == output.read_bytes()
    summary = read_session_summary(history / "runs" / name_of(23))
    archive = Archive(history)
    histories = archive.histories(name_of(23), saved="main")
    archive.close()
    assert {len(course) for course in histories.values()} == {23}
    assert shown == FORMATS[form].render(dataclasses.replace(summary, histories=histories))


def test_without_a_name_it_has_no_course_and_elsewhere_no_archive(history, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    inside, outside = history / "runs" / name_of(26), keep(tmp_path / "x", 0, [record(1)], status=None)
    for folder, resume in ((inside, "last"), (outside, str(outside))):
        assert cli.main(["export", str(folder), "--format", "json", "--records", str(history)]) == 0
        assert capfdbinary.readouterr().out == FORMATS["json"].render(read_session_summary(folder, resume=resume))


def test_a_night_is_written_as_it_was_decided(tmp_path, monkeypatch, capfdbinary):
    root = tmp_path / ".ipperf"
    screening = keep(root, 0, [record(1), record(2, 1.3)], saved="night")
    fresh = keep(root, 1, [record(2, 1.3, seed=9)])
    assert end_night(root, screening, fresh, lost="", saved="night", baseline="night", output=None) == 1
    monkeypatch.chdir(tmp_path)
    capfdbinary.readouterr()
    written = root / "nights" / screening.name
    for name, form in {"report.html": "html", "summary.md": "markdown", "junit.xml": "junit"}.items():
        assert cli.main(["export", screening.name, "--format", form]) == 0
        assert capfdbinary.readouterr().out == (written / name).read_bytes()
    assert cli.main(["export", screening.name, "--format", "json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["night"]["light"] == "red"


@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_a_night_tells_once_that_its_screening_failed_for_no_result(tmp_path, monkeypatch, capfdbinary, ratio):
    """A cell that was only flagged explains no failure, and a second session has its own reasons for its status."""
    root = tmp_path / ".ipperf"
    screening = keep(root, 0, [record(1), record(2, ratio)], saved="night", status=1)
    fresh = keep(root, 1, [record(2)], status=1) if ratio > 1 else None
    assert end_night(root, screening, fresh, lost="", saved="night", baseline="night", output=None) == 1
    monkeypatch.chdir(tmp_path)
    capfdbinary.readouterr()
    for form in ("junit", "markdown", "html"):
        assert cli.main(["export", screening.name, "--format", form]) == 0
        text = capfdbinary.readouterr().out.decode().replace("\\", "")
        assert text.count('name="the session as a whole"') == (form == "junit")
        assert text.count(f"`pytest` | failed |  |  | {UNEXPLAINED}") == (form == "markdown")
        assert UNEXPLAINED in text


def test_the_help_names_all_formats(capsys):
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    assert f"one of {', '.join(FORMATS)}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["main", "--format", "pdf"], 4, f"--format: 'pdf' does not exist; there are {', '.join(FORMATS)}"),
        (
            ["main"],
            4,
            "the following arguments are required: --format; see pytest-ipperf export --help",
        ),
        (["last~99", "--format", "csv"], 4, "session 'last~99' does not exist; there are 27"),
        (
            ["main", "--format", "csv", "-o", "nowhere/x.csv"],
            1,
            "--output: nowhere/x.csv cannot be written (No such file or directory)",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(program, history, arguments, status, sentence):
    found, lines, said = program(history, "export", *arguments)
    assert (found, lines, said.count("\n")) == (status, [], 1)
    assert said.startswith(f"pytest-ipperf: {sentence.rstrip('*')}")


@pytest.mark.parametrize("form", ["samples", "parquet"])
@pytest.mark.parametrize("into_file", [False, True])
def test_samples_that_are_gone_are_blamed_on_no_other_file(program, tmp_path, form, into_file):
    log = EventLog(tmp_path / ".ipperf" / "runs" / name_of(0), "main")
    log.append("session", facts(0))
    cell = record(1)
    log.append("workload", {"workload": cell.workload, "seed": 7, "order": []})
    run = {
        "workload": cell.workload, "arm": "ipv6", "warmup": False, "began_at": BEGAN, "attempted": 1, "failed": {},
        "values": {"response_time": 0.005}, "columns": ["total"], "rows": 1,
        "offset": log.append_samples(array("d", [0.005]).tobytes()),
    }  # fmt: skip
    log.append("run", run)
    log.append("record", cell.to_plain())
    log.append("end", {"status": 0, "seconds": 61.5})
    log.close()
    output, file = tmp_path / "x.out", tmp_path / ".ipperf" / "runs" / name_of(0) / "main.f64"
    arguments = ["export", "last", "--format", form, *(["--output", output] if into_file else [])]
    file.unlink()
    sentence = f"pytest-ipperf: samples: {file} cannot be read (No such file or directory)\n"
    assert program(tmp_path / ".ipperf", *arguments) == (1, [], sentence)
    assert not output.exists()
