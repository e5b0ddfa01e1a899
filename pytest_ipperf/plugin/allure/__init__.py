"""Add measurements to the results for Allure; imported only with `--alluredir`.

allure-pytest, an extra, writes a result for each test; this package completes those of measurements before that.
"""

from __future__ import annotations

from functools import partial

import allure_commons
import pytest

from pytest_ipperf.plugin.allure.environment import EnvironmentFiles
from pytest_ipperf.plugin.allure.results import Results
from pytest_ipperf.plugin.allure.session_result import SessionResult
from pytest_ipperf.plugin.session.stash import SESSION


def begin(config: pytest.Config) -> None:
    """Register with allure-pytest in this process; files beside the results are written by the main process alone."""
    session = config.stash[SESSION]
    results = Results(session)
    config.pluginmanager.register(results, "ipperf-allure-results")
    # allure-pytest's plugin manager outlives the session.
    allure_commons.plugin_manager.register(results)
    config.add_cleanup(partial(allure_commons.plugin_manager.unregister, results))
    if not session.is_worker:
        config.pluginmanager.register(EnvironmentFiles(config), "ipperf-allure-environment")
        config.pluginmanager.register(SessionResult(config), "ipperf-allure-session")
