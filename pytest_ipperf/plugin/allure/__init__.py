"""Add measurements to the reports of Allure; loaded only where `--alluredir` asks for one.

allure-pytest, an extra, writes a result for each test; these rooms finish those of measurements before that.
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
    """Joins allure-pytest in this process; what stands beside the results is for the main process alone."""
    session = config.stash[SESSION]
    results = Results(session)
    config.pluginmanager.register(results, "ipperf-allure-results")
    # allure-pytest's own register of plugins outlives the session.
    allure_commons.plugin_manager.register(results)
    config.add_cleanup(partial(allure_commons.plugin_manager.unregister, results))
    if not session.is_worker:
        config.pluginmanager.register(EnvironmentFiles(config), "ipperf-allure-environment")
        config.pluginmanager.register(SessionResult(config), "ipperf-allure-session")
