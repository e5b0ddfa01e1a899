"""Hooks on the collection, registered in every session; they load the rest of this folder once a test measures."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_ipperf.plugin.activation import requests_measured, resembles_measurement, unsupported_platform
from pytest_ipperf.plugin.session.stash import SESSION


class TestCheck:
    """Checks every test that measures, or seems to want to, once all of its parameters are known."""

    __test__ = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        """Report the first mistake of the test."""
        yield
        if not unsupported_platform() and (
            (requests_measured(metafunc) and SESSION in metafunc.config.stash) or resembles_measurement(metafunc)
        ):
            from pytest_ipperf.plugin.collect.mistakes import check_test  # noqa: PLC0415 - what only a suite needs

            check_test(metafunc)


class Selection:
    """Filters and order of what is measured, as a plugin of its own, registered when pytest is configured.

    pytest calls hooks in the reverse order of registration, and this one must come after pytest's grouping by
    parameters and before `--sw`, which remembers the order that it sees.
    """

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Apply both."""
        if SESSION in config.stash:
            from pytest_ipperf.plugin.collect.collection import deselect, group_by_workload  # noqa: PLC0415 - as above

            deselect(config, items)
            group_by_workload(config, items)
