"""Compile the package with pytest's assertion rewriting, for sessions that may not write bytecode; run as a module.

pytest rewrites the assertions of plugins, and keeps what came of it beside Python's own bytecode of the same module.
"""

import importlib
import pkgutil
import sys

import pytest


class _All:
    @staticmethod
    def pytest_cmdline_main() -> int:
        package = importlib.import_module("pytest_ipperf")
        for module in pkgutil.walk_packages(package.__path__, "pytest_ipperf."):
            importlib.import_module(module.name)
        return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = False
    sys.exit(pytest.main([], plugins=[_All()]))
