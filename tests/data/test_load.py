"""`pytest_ipperf.load`: plain rows and data frames of what a session has stored, and the page that describes them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from array import array

import pandas as pd
import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

import pytest_ipperf
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.data import Rows
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.data.series import mean_name
from pytest_ipperf.report.data.tidy_rows import SCHEMA
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.report.formats.grafana import dashboard
from pytest_ipperf.store import Archive, EventLog, read_session_summary, run_folder
from tests.project.pages import blocks, codes, page, table
from tests.store.kept import BEGAN, facts, keep, name_of, record

COLUMNS = ["start", "dns", "connect", "first_byte", "total", "late", "behind"]
ARMS = {"ipv4": 0.004, "ipv6": 0.005}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A records folder with one session: a cell of two arms, ten epochs of three blocks, and a warm-up of each."""
    root = tmp_path_factory.mktemp("load") / ".ipperf"
    folder = run_folder(root, BEGAN, "0a1b2c")
    log = EventLog(folder, "main")
    log.append("session", facts(0))
    cell, quantiles = record(1, 1.25), {"p50": 0.004, "p95": 0.005, "p99": 0.006, "p99.9": None}
    test, reference = (dataclasses.replace(side, quantiles=quantiles) for side in (cell.test, cell.reference))
    cell = dataclasses.replace(cell, test=test, reference=reference)
    log.append("workload", {"workload": cell.workload, "seed": 7, "order": []})
    for epoch in range(10):
        for block in range(-1, 3):
            for slot, (arm, seconds) in enumerate(ARMS.items()):
                rows = [0.0, 0.1, 0.2, 0.3, seconds, math.nan, 0.0, 0.0, 0.1, 0.2, 0.3, 3 * seconds, 0.0, 0.0]
                run = {
                    "workload": cell.workload, "arm": arm, "epoch": epoch, "block": block, "slot": slot,
                    "warmup": block < 0, "began_at": BEGAN + 60 * epoch + block, "attempted": 3,
                    "failed": {"connect: refused": 1}, "values": {"response_time": 2 * seconds}, "columns": COLUMNS,
                    "rows": 2, "offset": log.append_samples(array("d", rows).tobytes()),
                }  # fmt: skip
                log.append("run", run)
    log.append("record", cell.to_plain())
    log.append("end", {"status": 1, "seconds": 640.0, "missing": []})
    log.close()
    return root


@pytest.fixture(scope="module")
def summary(stored):
    return read_session_summary(pytest_ipperf.load(stored).folder)


def test_a_session_is_loaded_as_plain_rows(stored):
    data = pytest_ipperf.load(stored)
    assert (data.state, data.schema, data.name) == ("whole", SCHEMA, data.folder.name)
    reference, cell = data.cells
    assert [reference["role"], reference["arm"], reference["ipver"], reference["change"]] == [
        "reference", "ipv4", 4, None,
    ]  # fmt: skip
    assert [cell["role"], cell["arm"], cell["transport"], cell["verdict"]] == ["test", "ipv6", "native", "exceeds"]
    assert cell["unit_of_change"] == "%"
    assert cell["effective_margin"] == pytest.approx(10)
    runs = list(data.runs)
    assert len(runs) == 2 * 30  # without warm-ups
    assert {row["arm"]: row["value"] for row in runs} == {arm: 2 * seconds for arm, seconds in ARMS.items()}
    assert {(row["attempted"], row["completed"], row["failed"]) for row in runs} == {(3, 2, 1)}
    assert {(row["connections"], row["payload_bytes"], row["unit"]) for row in runs} == {(1, 10240, "s")}
    samples = list(data.samples)
    assert len(samples) == 2 * len(runs)
    assert statistics.fmean(row["total"] for row in samples if row["arm"] == "ipv6") == pytest.approx(0.01)
    assert [list(rows[0]) for rows in (list(data.cells), runs, samples)] == [
        data.cells.columns, data.runs.columns, data.samples.columns,
    ]  # fmt: skip


def test_the_last_session_is_that_of_the_commands_and_of_a_night_its_screening(tmp_path):
    for number, saved in enumerate(("main", "main.fresh")):
        keep(tmp_path, number, [record(1), record(2)][number:], saved=saved)
    data = pytest_ipperf.load(tmp_path)
    with contextlib.closing(Archive(tmp_path)) as archive:
        assert (data.name, data.folder) == (archive.find("last").name, archive.find("last").folder)
    assert len([row for row in data.cells if row["role"] == "test"]) == 2
    keep(tmp_path, 2, [record(1)])
    assert pytest_ipperf.load(tmp_path).name == name_of(2)


def test_data_frames_have_the_same_rows_and_types(stored):
    data = pytest_ipperf.load(os.fspath(pytest_ipperf.load(stored).folder))
    runs = data.runs.to_pandas()
    assert list(runs.columns) == data.runs.columns
    assert runs.groupby("arm").value.mean().to_dict() == pytest.approx({"ipv4": 0.008, "ipv6": 0.01})
    assert [str(runs[name].dtype) for name in ("epoch", "ipver", "value", "confirms")] == [
        "int64", "int64", "float64", "bool",
    ]  # fmt: skip
    assert data.samples.to_pandas().total.quantile(0.5) > 0
    assert data.cells.to_pandas().query("role == 'test'").verdict.tolist() == ["exceeds"]


def test_batches_have_the_same_rows_one_part_at_a_time(stored):
    samples = pytest_ipperf.load(stored).samples
    batches = list(samples.iter_batches(batch_size=50))
    assert [len(each) for each in batches] == [50, 50, 20]
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), samples.to_pandas())
    chosen = ["total", "arm"]
    assert list(samples.to_pandas(columns=chosen).columns) == chosen
    assert all(list(each.columns) == chosen for each in samples.iter_batches(columns=chosen))


def test_only_one_batch_is_read_ahead():
    read = []

    def rows():
        for number in range(10):
            read.append(number)
            yield {"number": number}

    frames = Rows(rows, lambda: ["number"]).iter_batches(batch_size=3)
    assert next(frames).number.tolist() == [0, 1, 2]
    assert len(read) <= 4  # the first row once more, for the names of the columns


def test_what_is_no_batch_is_named(stored):
    runs = pytest_ipperf.load(stored).runs
    with pytest.raises(UsageError, match="column 'totl' does not exist; there are session, workload, "):
        runs.to_pandas(columns=["totl"])
    with pytest.raises(UsageError, match="batch_size: 0 is not a number of rows above 0, such as 100_000"):
        next(runs.iter_batches(batch_size=0))


def test_without_pandas_rows_are_there_and_a_frame_says_what_it_needs(stored, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    data = pytest_ipperf.load(stored)
    assert list(data.runs)
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs the package pandas \(pip install pandas\)"):
        data.runs.to_pandas()
    with pytest.raises(ImportError, match=r"iter_batches\(\) needs the package pandas"):
        next(data.runs.iter_batches())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"--format: parquet needs the package pyarrow .*; samples is the same as CSV"):
        FORMATS["parquet"].render(read_session_summary(data.folder))


def test_what_is_no_session_is_named(tmp_path, stored):
    with pytest.raises(UsageError, match="'/nowhere/at/all' is not a folder; give that of a session, or a records"):
        pytest_ipperf.load("/nowhere/at/all")
    with pytest.raises(UsageError, match=r"has no records: no event log in it begins with an event 'session'"):
        pytest_ipperf.load(tmp_path)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in pytest_ipperf.load(stored).folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    packed = bytearray((copy / "main.f64").read_bytes())
    (copy / "main.f64").write_bytes(packed[:-8])
    assert list(pytest_ipperf.load(copy).runs)
    with pytest.raises(DamageError, match="is damaged: these are not the samples that were written"):
        list(pytest_ipperf.load(copy).samples)


def test_samples_that_are_gone_are_damage_of_the_records(tmp_path, stored):
    copy = tmp_path / "copy"
    shutil.copytree(pytest_ipperf.load(stored).folder, copy)
    (copy / "main.f64").unlink()
    data = pytest_ipperf.load(copy)
    assert list(data.runs)
    with pytest.raises(DamageError) as raised:
        list(data.samples)
    assert str(raised.value) == f"samples: {copy / 'main.f64'} cannot be read (No such file or directory)"


def test_exports_are_read_by_pandas_and_pyarrow_as_loaded(stored, summary):
    data = pytest_ipperf.load(stored)
    for name, rows in (("csv", data.cells), ("runs", data.runs), ("samples", data.samples)):
        read = pd.read_csv(io.BytesIO(FORMATS[name].render(summary)))
        assert list(read.columns) == rows.columns
        assert len(read) == len(list(rows))
        assert not [column for column in read.columns if column.endswith(".1")]  # pandas' name of a duplicate
    found = pq.read_table(io.BytesIO(FORMATS["parquet"].render(summary)))
    assert found.to_pylist()[0]["total"] == next(iter(data.samples))["total"]
    assert found.schema.metadata[b"pytest_ipperf_schema"] == f"{SCHEMA}".encode()


@pytest.mark.parametrize("families", [openmetrics_families, prometheus_families])
def test_openmetrics_is_read_by_the_parsers_of_prometheus(families, summary):
    text = FORMATS["openmetrics"].render(summary).decode()
    found = {family.name: family for family in families(text)}
    means = {each.labels["arm"]: each.value for each in found["ipperf_response_time_seconds"].samples}
    cell = summary.records[0]
    assert means == {"ipv4": cell.reference.mean, "ipv6": cell.test.mean}
    (change,) = found["ipperf_change_ratio"].samples
    assert change.value == pytest.approx(cell.estimate / 100)
    assert change.labels["reference"] == "ipv4"
    (margin,) = found["ipperf_margin_ratio"].samples
    assert margin.value == pytest.approx(0.1)
    quantiles = {each.labels["quantile"]: each.value for each in found["ipperf_quantile_seconds"].samples}
    assert quantiles == {"0.5": 0.004, "0.95": 0.005, "0.99": 0.006, "0.999": math.inf}
    verdicts = {each.labels["verdict"]: each.value for each in found["ipperf_verdict"].samples}
    assert [name for name, value in verdicts.items() if value] == ["exceeds"]
    assert all(each.timestamp is None for family in found.values() for each in family.samples)


def test_a_label_is_quoted_whatever_the_server_is_called(summary):
    odd = 'a "b" \\ c\nd'
    (cell,) = summary.records
    strange = [dataclasses.replace(cell, server=odd)]
    text = FORMATS["openmetrics"].render(dataclasses.replace(summary, records=tuple(strange))).decode()
    (family,) = [each for each in prometheus_families(text) if each.name == "ipperf_change_ratio"]
    assert family.samples[0].labels["server"] == odd


LINE = re.compile(r"^(?P<name>\w+)(?P<tags>(?:,\w+=(?:\\.|[^\\ ,=])+)*) (?P<fields>[^ ].*) (?P<at>\d+)$")


def test_influx_has_a_point_for_each_arm_answer_and_run(summary):
    lines = FORMATS["influx"].render(summary).decode().splitlines()
    found = [LINE.match(line) for line in lines]
    assert all(found)
    counts = {name: sum(each["name"] == name for each in found if each) for name in ("ipperf_arm", "ipperf_run")}
    assert counts == {"ipperf_arm": 2, "ipperf_run": 60}
    (answer,) = [each for each in found if each and each["name"] == "ipperf_answer"]
    assert 'verdict="exceeds"' in answer["fields"]
    assert answer["at"] == str(round(BEGAN * 1e9))
    assert all("server=apache\\ 2.4" in each["tags"] for each in found if each and each["name"] == "ipperf_arm")


@pytest.mark.parametrize("order", [1, -1])
def test_where_only_one_answer_of_a_cell_fits_it_is_the_worst(summary, order):
    (strict,) = summary.records
    loose = dataclasses.replace(strict, nodeid="t.py::loose", margin="500 %", margin_fraction=5.0, verdict="within")
    again = dataclasses.replace(loose, nodeid="t.py::again", verdict="exceeds")  # a test that exceeded, and ran again
    passed = dataclasses.replace(again, verdict="inconclusive")
    several = [again, passed, *[strict, loose][::order]]
    asked = dataclasses.replace(summary, records=tuple(several))
    text = FORMATS["openmetrics"].render(asked).decode()
    found = {family.name: family.samples for family in openmetrics_families(text)}
    verdicts = {each.labels["verdict"]: each.value for each in found["ipperf_verdict"]}
    assert [name for name, value in verdicts.items() if value] == ["exceeds"]
    assert [each.value for each in found["ipperf_margin_ratio"]] == [pytest.approx(0.1)]
    lines = FORMATS["influx"].render(asked).decode().splitlines()
    (answer,) = [line for line in lines if line.startswith("ipperf_answer")]
    assert 'verdict="exceeds"' in answer
    assert "margin_ratio=0.1," in answer
    milder = dataclasses.replace(summary, records=(loose, again, passed))
    assert 'verdict="inconclusive"' in FORMATS["influx"].render(milder).decode()


def test_every_metric_has_a_series_of_a_valid_name():
    names = {mean_name(name) for name in METRICS}
    assert len(names) == len(METRICS)
    assert all(re.fullmatch(r"ipperf_[a-z0-9_]+", name) for name in names)
    assert len(dashboard(METRICS)["panels"]) > len(names)


def test_the_dashboard_asks_only_for_series_that_are_written(summary):
    written = {each.name for each in prometheus_families(FORMATS["openmetrics"].render(summary).decode())}
    made = json.loads(FORMATS["grafana"].render(summary))
    assert made == dashboard(["response_time"])
    queries = [target["expr"] for panel in made["panels"] for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"ipperf_\w+", query)}
    assert len(asked) > 6
    assert asked <= written
    places = [tuple(panel["gridPos"].values())[:2] for panel in made["panels"]]
    assert len(set(places)) == len(places)


def test_the_script_of_the_page_plots_a_session(stored, tmp_path):
    code, _ = blocks(page("docs/data.md"), "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / ".ipperf").symlink_to(stored)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"ipv6 +30\.0 +10\.0", done.stdout), done.stdout
    (plot,) = tmp_path.glob("*.png")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_batches_of_the_page_count_slow_samples(stored, tmp_path, monkeypatch, capsys):
    _, code = blocks(page("docs/data.md"), "python")
    (tmp_path / ".ipperf").symlink_to(stored)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/data.md", "exec"), {})
    assert {"'ipv4': 30", "'ipv6': 30"} == set(re.findall(r"'ipv\d': \d+", capsys.readouterr().out))


def test_the_page_tells_every_column_and_gauge(stored, summary):
    told = {code for row in table("docs/data.md", "column of runs") for code in codes(row[0])}
    assert told - {"level_..."} == set(pytest_ipperf.load(stored).runs.columns)
    gauges = {code for row in table("docs/data.md", "gauge") for code in codes(row[0])} - {"ipperf_METRIC_UNIT"}
    written = {each.name for each in prometheus_families(FORMATS["openmetrics"].render(summary).decode())}
    assert written - {"ipperf_response_time_seconds"} <= gauges
    assert f"today {SCHEMA}" in page("docs/data.md")
