"""Start the measuring session of a process, at the first test that measures: settings, session and plugins."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.collect.collection import UnsupportedItems
from pytest_ipperf.plugin.collect.mistakes import MarkerExpressionCheck
from pytest_ipperf.plugin.measure.finished_fixtures import FinishedFixtures
from pytest_ipperf.plugin.measure.kept_reports import KeptReports
from pytest_ipperf.plugin.measure.outcome import VERDICTS, CallPhase, VerdictCollector
from pytest_ipperf.plugin.measure.provisioning_teardown import PROVISIONING_TEARDOWN, ProvisioningTeardown
from pytest_ipperf.plugin.measure.release import Release
from pytest_ipperf.plugin.options.settings import read_settings
from pytest_ipperf.plugin.session.baseline import check_night, find_baseline
from pytest_ipperf.plugin.session.invocation import invocation
from pytest_ipperf.plugin.session.journal import SESSION_WRITER, SessionWriter
from pytest_ipperf.plugin.session.resume import find_resumed
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.session_end import SESSION_END, SessionEnd
from pytest_ipperf.plugin.session.spread_cache import SpreadCache
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.plugin.summary import Answer


def start(config: pytest.Config) -> None:
    """Read the settings, create the session and register its plugins; some of them only in the main process.

    Raise UsageError for an invalid setting.
    """
    directory, facts = config.invocation_params.dir, invocation(config)
    settings = read_settings(config, facts.seed)
    if settings.inventory_trouble:
        raise UsageError(settings.inventory_trouble)
    if facts.resume:  # "last" would now name the session that has just begun
        settings = dataclasses.replace(settings, resume=facts.resume)
    known = Session(config, settings, facts, find_resumed(settings, directory))
    if not known.is_worker:
        if settings.flags:
            check_night(settings)
        known.baseline = find_baseline(settings, directory)
    config.stash[SESSION] = known
    config.pluginmanager.register(UnsupportedItems(), "ipperf-unsupported-items")
    config.pluginmanager.register(MarkerExpressionCheck(), "ipperf-marker-expression-check")
    config.pluginmanager.register(CallPhase(), "ipperf-call-phase")
    config.pluginmanager.register(Release(known), "ipperf-release")
    config.pluginmanager.register(FinishedFixtures(), "ipperf-finished-fixtures")
    config.stash[PROVISIONING_TEARDOWN] = teardown = ProvisioningTeardown(known)
    config.pluginmanager.register(teardown, "ipperf-provisioning-teardown")
    if not known.is_worker:
        config.stash[VERDICTS] = verdicts = VerdictCollector(config)
        config.stash[SESSION_WRITER] = writer = SessionWriter(known)
        config.stash[SESSION_END] = session_end = SessionEnd(known, verdicts.kept)
        config.pluginmanager.register(SpreadCache(known), "ipperf-spread-cache")
        config.pluginmanager.register(verdicts, "ipperf-verdicts")
        config.pluginmanager.register(KeptReports(), "ipperf-kept-reports")
        # Of two `trylast` hooks the one registered later runs later.
        config.pluginmanager.register(writer, "ipperf-session-writer")
        config.pluginmanager.register(session_end, "ipperf-session-end")
        config.pluginmanager.register(Answer(config), "ipperf-answer")
    if config.getoption("allure_report_dir", None):
        from pytest_ipperf.plugin.allure import begin as begin_allure  # noqa: PLC0415 - allure-pytest is an extra

        begin_allure(config)
