"""Collection hooks, registered in every session; they import the rest of this package once a test measures."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_ipperf.plugin.activation import requests_measured, resembles_measurement, unsupported_platform
from pytest_ipperf.plugin.session.stash import SESSION


class TestCheck:
    """Plugin that checks every test that measures, or appears to be meant to, once its parameters are known."""

    __test__ = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        """Parametrize the test, then report its first mistake."""
        yield
        if not unsupported_platform() and (
            (requests_measured(metafunc) and SESSION in metafunc.config.stash) or resembles_measurement(metafunc)
        ):
            from pytest_ipperf.plugin.collect.mistakes import check_test  # noqa: PLC0415 - needed only by suites

            check_test(metafunc)


class Selection:
    """Plugin that deselects and orders the items that measure, registered in `pytest_configure`.

    pytest calls hooks in the reverse order of registration, and this one must be called after pytest's own reordering
    by parameters and before `--sw`, which remembers the order that it sees.
    """

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect items by the filters, and group the others by workload."""
        if SESSION in config.stash:
            from pytest_ipperf.plugin.collect.collection import deselect, group_by_workload  # noqa: PLC0415 - as above

            deselect(config, items)
            group_by_workload(config, items)
