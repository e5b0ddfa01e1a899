"""The settings of the project's own tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

INNER = """
import gc
from tests.conftest import {hooks}

def pytest_unconfigure(config):
    print("worker" if hasattr(config, "workerinput") else "controller", "collects" if gc.isenabled() else "does not")
"""


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.skipif(os.geteuid() != 0, reason="root"))])
def test_garbage_is_collected_once_the_tests_are_known(pytester, monkeypatch, workers):
    own = [name for name in vars(__import__("tests.conftest").conftest) if name.startswith("pytest_")]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    pytester.makeconftest(INNER.format(hooks=", ".join(sorted({*own} - {"pytest_plugins"}))))
    pytester.makepyfile("import gc\ndef test_gc(): assert gc.isenabled()")
    result = pytester.runpytest_subprocess("-p", "no:ipperf", "-p", "no:randomly", "-n", str(workers))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("controller collects")
