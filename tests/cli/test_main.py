"""What holds for all orders of the program: how it says that it cannot go on, and with what it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.kept import keep, record

PROGRAM = [sys.executable, "-c", "import sys; from pytest_ipperf.cli import main; sys.exit(main())"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("order", [["list"], ["show", "last"], ["export", "last", "--format", "csv"]])
def test_an_output_that_is_full_is_said_in_one_sentence(tmp_path, order):
    keep(tmp_path / ".ipperf", 0, [record(1)])
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, *order], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
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
