"""Under a design that never judges, no report has an interval, and all call the cells `unjudged`."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from pytest_ipperf.report.formats import FORMATS
from tests.store.kept import keep, record
from tests.support.sessions.projects import program

INTERVAL = re.compile(
    r"\[[-+]?\d[\d.e+]*( %)?, *[-+]?\d|\.\.[-+]?\d[\d.]* %|\d+ % (t )?interval|_interval\"", re.IGNORECASE
)
"""Two bounds in brackets or with dots between them, and the words for an interval of so many percent."""
BOUNDS = {"low", "high", "low_percent", "high_percent", "confidence", "p_exceeds"}
STUDY = ("table-3-1", "table-3-2", "table-6-1")
"""Files with the tables of paper 000, labelled with the study's own formulas."""
WITHOUT_VERDICTS = {"grafana", "influx", "openmetrics", "parquet", "runs", "samples"}
"""Formats of measured values alone, and those for monitoring, which name every verdict."""
GLOSSARY = re.compile(r'<section id="glossary">.*?</section>', re.DOTALL)
"""Glossary of a page, which defines the words of all sessions."""


def of_the_study(text):
    """Return a text without the lines that print the study's formulas and say so."""
    text = re.sub(r"calls (them|a) 95 % intervals?", "", text)
    return "\n".join(line for line in text.splitlines() if "study" not in line)


def check_csv(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    for row in rows:
        assert {row[name] for name in BOUNDS & set(row)} <= {""}, row


def check_record(record):
    assert (record["low"], record["high"], record["p_exceeds"], record["verdict"]) == (None, None, None, "unjudged")
    assert record["sentence"] == f"unjudged: design {record['design']} never judges"


def check_exports(folder):
    """Check the session in every format that has verdicts."""
    root = ["--ipperf-records", str(folder.parent.parent)]
    others = (["show", "last"], ["list"], ["compare", "last", "last", "--all"], ["show", "c10-"])
    names = sorted(set(FORMATS) - WITHOUT_VERDICTS)
    exports = program(*(["export", "last", "--format", name, *root] for name in names))
    for name, (status, output) in zip(names, exports, strict=True):
        assert status == 0
        text = GLOSSARY.sub("", output.replace("--ipperf-inconclusive", ""))
        assert not INTERVAL.search(of_the_study(text)), name
        assert "unjudged" in text.lower()
        assert not re.search("inconclusive", text), name
        if name == "csv":
            check_csv(text)
        if name == "junit":
            assert text.count("<skipped message=") == len(re.findall("<testcase ", text))
            assert 'interval"' not in text
        if name == "json":
            for each in json.loads(text)["records"]:
                check_record(each)
    (_, series), (_, points) = program(
        *(["export", "last", "--format", name, *root] for name in ("openmetrics", "influx"))
    )
    assert not re.search("_bound|_margin", series + points)
    for arguments, (_, text) in zip(others, program(*([*each, *root] for each in others)), strict=True):
        assert not INTERVAL.search(of_the_study(text)), arguments
        assert "unjudged" in text.lower()


@pytest.mark.parametrize("design", ["smoke", "paper"])
def test_no_form_of_a_session_that_never_judges_tells_how_sure_it_is(project, design):
    pytest.importorskip("allure_pytest", reason="allure-pytest is not installed (pip install allure-pytest)")
    project.network(slower=0.3, noise=0.05)
    result = project.run(
        f"--design={design}", "-v", "--connections=1,10", "--junitxml=pytest.xml", "--alluredir=allure",
        "--ipperf-inconclusive=fail",
    )  # fmt: skip
    assert result.ret == NOTHING_DECIDED
    said = result.stdout.str()
    assert not INTERVAL.search(of_the_study(said)), said
    result.stdout.fnmatch_lines(
        ["*c10-1k-ipv6[]] UNJUDGED *", f"UNJUDGED *c1-*: design {design} never judges", "*2 unjudged in *"]
    )
    assert "INCONCLUSIVE" not in said
    (folder,) = (project.pytester.path / ".ipperf" / "runs").iterdir()
    kept = [event for event in project.kept() if event["event"] == "record"]
    assert len(kept) == 2
    for each in kept:
        check_record(each)
    own = project.pytester.path
    written = [own / "pytest.xml", *(own / "allure").iterdir(), *folder.rglob("*.txt"), folder / "report.html"]
    written += [path for path in folder.rglob("*.csv") if not path.name.startswith(STUDY)]
    for path in written:
        if path.suffix != ".png":
            assert not INTERVAL.search(of_the_study(path.read_text(encoding="utf-8"))), path
    for path in (folder / "tables").glob("*.csv"):
        if not path.name.startswith(STUDY):
            check_csv(path.read_text(encoding="utf-8"))
    assert (own / "pytest.xml").read_text().count(f'message="unjudged: design {design} never judges"') == 2
    results = [json.loads(path.read_text()) for path in (own / "allure").glob("*-result.json")]
    assert [(each["status"], each["statusDetails"]["message"]) for each in results] == [
        ("skipped", f"unjudged: design {design} never judges")
    ] * 2
    check_exports(folder)


def test_nor_has_one_that_an_earlier_version_wrote(tmp_path: Path):
    """Schema 6 kept the interval of two epochs in every record, and in its sentence."""
    sentence = "IPv6 is slower than IPv4 by 52.1 % [50.6, 53.6] (95 % interval); design 'smoke' never judges"
    old: dict[str, Any] = {
        "epochs": 2,
        "design": "smoke",
        "judges": False,
        "verdict": "inconclusive",
        "sentence": sentence,
    }
    records = [record(number, 1.5, **old) for number in (1, 10)]
    assert all(INTERVAL.search(each.sentence) and each.low is not None for each in records)
    folder = keep(tmp_path, 0, records, schema=6, saved="main", status=10)
    check_exports(folder)
