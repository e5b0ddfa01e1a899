"""Properties of all commands of the program: reports of errors, and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.kept import keep, record

PROGRAM = [sys.executable, "-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["list"], ["show", "last"], ["export", "last", "--format", "csv"]])
def test_an_output_that_is_full_is_said_in_one_sentence(tmp_path, arguments):
    keep(tmp_path / ".ipperf", 0, [record(1)])
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    sentence = "pytest-ipperf: the output cannot be read or written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_who_has_seen_enough_is_told_nothing_more(tmp_path):
    keep(tmp_path / ".ipperf", 0, [record(1)])
    with subprocess.Popen(
        [*PROGRAM, "export", "last", "--format", "json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


NIGHT = """
import sys
from pathlib import Path
from pytest_ipperf import cli
from pytest_ipperf.cli.night.run import PytestResult
from pytest_ipperf.cli.commands import night

def run_pytest(arguments):
    if fault:
        raise ValueError("a fault")
    return PytestResult(0, Path(sys.argv[1]), Path(sys.argv[2]))

fault = len(sys.argv) > 3
night.run_pytest = run_pytest
sys.exit(cli.main(["night", f"--ipperf-records={sys.argv[2]}"]))
"""


def ended(program, *arguments, output, cwd):
    """Return the status of a program with its output redirected by a shell."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {output}', "sh", *program, *map(str, arguments)], cwd=cwd, check=False
    ).returncode


@pytest.mark.parametrize("output", [">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>&1"])
def test_a_night_has_its_status_where_its_output_is_closed_or_full(tmp_path, output):
    root = tmp_path / ".ipperf"
    screening = keep(root, 0, [record(1)], saved="night")
    program = [sys.executable, "-c", NIGHT, screening, root]
    assert ended(program, output=output, cwd=tmp_path) == 0
    assert (root / "nights" / screening.name / "verdict.json").exists()
    assert ended(program, "fault", output=output, cwd=tmp_path) == 3
    assert ended(PROGRAM, "night", "--baseline=nope", output=output, cwd=tmp_path) == 4


def test_half_a_character_is_escaped_where_output_takes_text_alone(tmp_path):
    keep(tmp_path / ".ipperf", 0, [record(1)], troubles={"failed": "x\udcff"})
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    argv = [*PROGRAM, "show", "last"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "x\\udcff" in done.stdout
