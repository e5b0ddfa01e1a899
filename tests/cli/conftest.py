"""An archive with a history, and the program to read it."""

from __future__ import annotations

import pytest

from pytest_ipperf import cli
from tests.store.kept import SUITE, keep, record, single


@pytest.fixture(scope="session")
def history(tmp_path_factory):
    """24 nights saved as `main`, the second cell slower from the thirteenth on, then three sessions.

    One of these is of design paper, one has undecided cells, and the last was broken off.
    """
    root = tmp_path_factory.mktemp("history") / ".ipperf"
    for number in range(24):
        slower = 1.25 if number >= 12 else 1.0
        cells = [record(1, seed=number), record(2, slower, seed=number), record(3, seed=number)]
        troubles = {"failed": f"{SUITE}::test_x", "inconclusive": f"{SUITE}::test_y"} if number == 23 else {}
        keep(root, number, cells, saved="main", status=number // 12, troubles=troubles)
    keep(root, 24, [single(1)], status=10)
    keep(root, 25, [record(1, spread=0.15), record(4, metric="loss", margin="0.5pp")], status=10)
    keep(root, 26, [record(1)], status=None)
    return root


@pytest.fixture
def program(monkeypatch, capsys):
    """A function that runs the program beside the archive; returns status, lines of output and standard error."""

    def run(root, *arguments):
        monkeypatch.chdir(root.parent)
        status = cli.main(list(map(str, arguments)))
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    return run
