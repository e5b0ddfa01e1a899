"""Start the measuring session of a process: settings, session and plugins, when the first test is met that measures."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.plugin.collect.collection import LeavingOut
from pytest_ipperf.plugin.collect.mistakes import Checking
from pytest_ipperf.plugin.measure.outcome import TALLY, Running, Tally
from pytest_ipperf.plugin.measure.provisioning_teardown import VACATING, Vacating
from pytest_ipperf.plugin.options.settings import read_settings
from pytest_ipperf.plugin.session.baseline import check_night, find_baseline
from pytest_ipperf.plugin.session.invocation import invocation
from pytest_ipperf.plugin.session.journal import KEEPER, Keeper
from pytest_ipperf.plugin.session.resume import find_earlier
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.session_end import ENDING, Ending
from pytest_ipperf.plugin.session.spread_cache import Memory
from pytest_ipperf.plugin.session.stash import SESSION


def start(config: pytest.Config) -> None:
    """Read the settings, and register what depends on being the main process. UsageError where one makes no sense."""
    directory, facts = config.invocation_params.dir, invocation(config)
    settings = read_settings(config, facts.seed)
    if facts.resume:  # the last session is by now the one that has begun
        settings = dataclasses.replace(settings, resume=facts.resume)
    known = Session(config, settings, facts, find_earlier(settings, directory))
    if not known.is_worker:
        if settings.flags:
            check_night(settings)
        known.baseline = find_baseline(settings, directory)
    config.stash[SESSION] = known
    config.pluginmanager.register(LeavingOut(), "ipperf-leaving-out")
    config.pluginmanager.register(Checking(), "ipperf-checking")
    config.pluginmanager.register(Running(), "ipperf-running")
    config.stash[VACATING] = vacating = Vacating(known)
    config.pluginmanager.register(vacating, "ipperf-vacating")
    if not known.is_worker:
        config.stash[TALLY] = tally = Tally(config)
        config.stash[KEEPER] = keeper = Keeper(known)
        config.stash[ENDING] = ending = Ending(known)
        config.pluginmanager.register(Memory(known), "ipperf-memory")
        config.pluginmanager.register(tally, "ipperf-tally")
        # Of two that come last, the later one does.
        config.pluginmanager.register(keeper, "ipperf-keeper")
        config.pluginmanager.register(ending, "ipperf-ending")
    if config.getoption("allure_report_dir", None):
        from pytest_ipperf.plugin.allure import begin as begin_allure  # noqa: PLC0415 - allure-pytest is an extra

        begin_allure(config)
