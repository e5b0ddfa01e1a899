"""File transfers as a session measures them: in parts and in the study's order, resumed, with tables and plots."""

import json
import signal
import statistics
import time

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.sessions.forked_python import ForkedPython
from tests.support.sessions.stopped import stopping

SUITE = """
import pytest

@pytest.mark.file_transfer
@pytest.mark.levels(payload=["1m"])
def test_transfer(measured, margin):
    assert measured.slowdown <= margin
"""
# Parts of 300 ms stand for those of five minutes.
PARTS = """
from pytest_ipperf.protocols import PROTOCOLS

for name, seconds in (("longest_run_s", 0.3), ("longest_warmup_s", 0.1)):
    object.__setattr__(PROTOCOLS["file_transfer"], name, seconds)
"""
# The smallest design that judges.
TINY = """
from pytest_ipperf.core.design.design import DESIGNS, Design

DESIGNS["tiny"] = Design(name="tiny", epochs=5, blocks=1, alpha=0.05, judges=True, purpose="this test")
"""
ARGUMENTS = ("--ipver=6", "--transport=native", "--ipperf-server=embedded", "-p", "no:randomly")


@pytest.fixture
def suite(project):
    project.pytester.makepyfile(SUITE)
    project.pytester.makeconftest(PARTS)
    return project


def events(project, kind):
    return [each for each in project.kept() if each["event"] == kind]


def test_design_paper_measures_ipv4_in_parts_and_then_ipv6_and_says_in_a_log_file_how_far_it_is(suite):
    often = "\nfrom pytest_ipperf.plugin.display import screen\n\nscreen.EVERY_S = 2.0\n"
    suite.pytester.makeconftest(PARTS + often)
    result = suite.run("--design=paper", "--duration=1.2s", *ARGUMENTS)
    assert result.ret == NOTHING_DECIDED
    said = result.stdout.str()
    assert "plan: 1 workload, 1 epochs x 4 blocks (design paper), 10 runs" in said
    runs = [each for each in events(suite, "run") if not each["warmup"]]
    assert [(each["arm"], each["block"]) for each in runs] == [
        (arm, block) for arm in ("ipv4", "ipv6") for block in range(4)
    ]
    seconds = [each["facts"]["seconds"] for each in runs]
    assert min(seconds) >= 0.3
    assert statistics.median(seconds) < 2  # a busy machine may hold up one of them
    assert all(each["facts"]["transfers"] > 1 for each in runs)
    # What the socket holds at the beginning of a run has passed the interface before, on a busy machine several MB.
    passed, payloads = ([each["facts"][name] for each in runs] for name in ("interface_bytes", "payload_bytes"))
    assert sum(passed) > 0.5 * sum(payloads)
    assert max(size / payload for size, payload in zip(passed, payloads, strict=True)) > 0.9
    for each in runs:
        assert each["facts"]["server_bytes"] > 2**20
        assert each["facts"]["server_descriptors"] > 3
    (order,) = [each["order"] for each in events(suite, "workload")]
    assert order[0]["together"] == 4
    (record,) = events(suite, "record")
    assert [len(record[side]["course"]["runs"]) for side in ("test", "reference")] == [4, 4]
    assert "Paper 003, Table 2: throughput by size of the file" in said
    (folder,) = suite.pytester.path.glob(".ipperf/runs/*")
    assert (folder / "tables" / "soak-1m.png").stat().st_size > 5000
    page = (folder / "report.html").read_text()
    assert "Throughput over the time of the measurement, files of 1m" in page
    lines = [line for line in said.splitlines() if line.endswith(" left")]
    assert 2 <= len(lines) < 10
    assert all(line.startswith("  loopback-file_transfer-c1-1m  epoch 1/1  run ") for line in lines)


def test_a_killed_session_goes_on_after_its_last_part(suite):
    arguments = ["-m", "pytest", "--testbed=loopback", "--design=paper", "--duration=1.2s", *ARGUMENTS]
    env = stopping(suite.pytester.path, 5)
    with ForkedPython(arguments, cwd=suite.pytester.path, env=env, start_new_session=True) as inner:
        end = time.monotonic() + 60
        while len(events(suite, "run")) < 5:
            assert inner.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        inner.send_signal(signal.SIGKILL)
        inner.wait()
    kept = events(suite, "run")
    (first,) = [path.name for path in suite.pytester.path.glob(".ipperf/runs/*")]
    result = suite.run("--design=paper", "--duration=1.2s", "--ipperf-resume=last", *ARGUMENTS)
    assert result.ret == NOTHING_DECIDED
    workload = "loopback-file_transfer-c1-1m"
    result.stdout.fnmatch_lines([f"ipperf: {workload} goes on after the {len(kept)} runs of session {first}"])
    journal = next(path for path in suite.pytester.path.glob(".ipperf/runs/*/main.jsonl") if path.parent.name != first)
    runs = [each for each in map(json.loads, journal.read_text().splitlines()) if each["event"] == "run"]
    counted = [each for each in runs if not each["warmup"]]
    assert [(each["arm"], each["block"]) for each in counted] == [
        (arm, block) for arm in ("ipv4", "ipv6") for block in range(4)
    ]
    before = [each["began_at"] for each in kept]
    assert [each["began_at"] for each in runs][: len(kept)] == before
    # The other arm's warm-up had been made, and is made again with its first run; so is that of the arm in flight.
    assert len(runs) == 8 + 4


def test_everyday_runs_alternate_and_are_judged(suite):
    suite.pytester.makeconftest(PARTS + TINY)
    result = suite.run("--design=tiny", "--duration=300ms", *ARGUMENTS)
    said = result.stdout.str()
    assert "measured loopback-file_transfer-c1-1m: 20 runs" in said
    assert "goodput" not in said.partition("File transfer: throughput")[2].partition("IPv6")[0]  # no rate, no ceiling
    (record,) = events(suite, "record")
    assert record["epochs"] == 5
    assert record["verdict"] in ("within", "exceeds", "inconclusive")
    assert [each["metric"] for each in record["components"]] == ["failed_share"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--payload=100"], "payload 100 is not the size of a file of file_transfer, which is 1k to 16g"),
        (["--connections=65"], "65 sessions at once are more than file_transfer supports; take 64 at most"),
        (["--client=library"], "--client: it has no effect on any selected protocol; selected: file_transfer"),
    ],
)
def test_what_cannot_be_is_one_sentence(project, arguments, sentence):
    project.pytester.makepyfile(SUITE)  # without the parts, which would stay in this process
    result = project.ask("--design=smoke", "-p", "no:randomly", *arguments)
    assert sentence in result.stdout.str() + result.stderr.str()
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
