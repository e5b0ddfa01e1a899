"""Compile the package and the tests with pytest's assertion rewriting, once for all processes; run as a module.

Sessions that tests start may write no bytecode, nor do the workers of pytest-xdist. pytest keeps rewritten bytecode
beside Python's own of the same module.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

TESTS = Path(__file__).parents[2]


class _All:
    @staticmethod
    def pytest_cmdline_main(config: pytest.Config) -> int:
        package = importlib.import_module("pytest_ipperf")
        for module in pkgutil.walk_packages(package.__path__, "pytest_ipperf."):
            importlib.import_module(module.name)
        for file in [*TESTS.rglob("conftest.py"), *TESTS.rglob("test_*.py")]:
            _compile(file, config)
        return 0


def _compile(file: Path, config: pytest.Config) -> None:
    """Write the rewritten bytecode of a file of tests, unless there is that of its present text."""
    folder = get_cache_dir(file)
    folder.mkdir(exist_ok=True)
    compiled = folder / f"{file.stem}{PYC_TAIL}"
    if _read_pyc(file, compiled) is None:
        status, code = _rewrite_test(file, config)
        _write_pyc(config.stash[assertstate_key], code, status, compiled)


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    sys.exit(pytest.main([], plugins=[_All()]))
