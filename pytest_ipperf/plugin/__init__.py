"""The door to pytest: thin hooks, each a call into a room of this folder.

What only a measuring session needs (scipy, execnet) is loaded when the first measurement begins: whoever merely has
the plugin installed must not wait for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.core.errors import IpperfError, LabError, UsageError
from pytest_ipperf.plugin import aliases, collection, declaring, hookspecs, options, outcome, summary
from pytest_ipperf.plugin.answering import answer_testbeds
from pytest_ipperf.plugin.baseline import find_baseline
from pytest_ipperf.plugin.effects import check_effects
from pytest_ipperf.plugin.ending import ENDING, Ending
from pytest_ipperf.plugin.fixtures import factors, margin, measured, server_state
from pytest_ipperf.plugin.keeping import KEEPER, Keeper
from pytest_ipperf.plugin.memory import Memory
from pytest_ipperf.plugin.mistakes import Checking
from pytest_ipperf.plugin.outcome import TALLY, Tally
from pytest_ipperf.plugin.resuming import find_earlier
from pytest_ipperf.plugin.session import SESSION, Session
from pytest_ipperf.plugin.vacating import VACATING, Vacating

__all__ = ["factors", "margin", "measured", "server_state"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options and their ini twins."""
    declaring.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Rewrite the short names of options in the arguments."""
    return (yield from aliases.loading(early_config, parser, args))


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declares the hook that reporters hear."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Reads the settings once; registers what depends on being the main process, and on xdist."""
    collection.register_markers(config)
    told: dict[str, Any] | None = getattr(config, "workerinput", {}).get("ipperf")
    try:
        settings = options.read_settings(config, told["seed"] if told else None)
        if told and told["resume"]:  # the last session is by now the one that has begun
            settings = dataclasses.replace(settings, resume=told["resume"])
        earlier = find_earlier(settings, config.invocation_params.dir)
        baseline = None if told else find_baseline(settings, config.invocation_params.dir)
    except IpperfError as error:
        raise pytest.UsageError(aliases.worded(config, str(error))) from None
    config.stash[SESSION] = known = Session(config, settings, told, earlier)
    known.baseline = baseline
    config.pluginmanager.register(collection.Selection(), "ipperf-selection")
    config.pluginmanager.register(collection.LeavingOut(), "ipperf-leaving-out")
    config.pluginmanager.register(Checking(), "ipperf-checking")
    config.stash[VACATING] = vacating = Vacating(known)
    config.pluginmanager.register(vacating, "ipperf-vacating")
    if told is None:
        config.stash[TALLY] = tally = Tally(config)
        config.stash[KEEPER] = keeper = Keeper(known)
        config.stash[ENDING] = ending = Ending(known)
        config.pluginmanager.register(Memory(known), "ipperf-memory")
        config.pluginmanager.register(tally, "ipperf-tally")
        # Of two that come last, the later one does.
        config.pluginmanager.register(keeper, "ipperf-keeper")
        config.pluginmanager.register(ending, "ipperf-ending")
        if config.pluginmanager.hasplugin("xdist") and config.getoption("dist") != "no":
            from pytest_ipperf.plugin.distribution import Distribution  # noqa: PLC0415 - xdist is an extra
            from pytest_ipperf.plugin.following import Following  # noqa: PLC0415 - as above

            config.pluginmanager.register(Distribution(config), "ipperf-distribution")
            config.pluginmanager.register(Following(config, known), "ipperf-following")
    else:
        from pytest_ipperf.plugin.distribution import HandingOver  # noqa: PLC0415 - xdist is an extra

        config.pluginmanager.register(HandingOver(), "ipperf-handing-over")
    if config.getoption("allure_report_dir", None):
        from pytest_ipperf.plugin.allure import begin  # noqa: PLC0415 - allure-pytest is an extra

        begin(config)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """What `-n auto` means; xdist asks before it configures, and of installed plugins nobody orders the hooks."""
    from pytest_ipperf.plugin.distribution import auto_workers  # noqa: PLC0415 - xdist is an extra

    return auto_workers(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Answer what is asked in place of a session."""
    return answer_testbeds(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes the cells."""
    collection.parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Plans what is left after every deselection; first, since the terminal asks for the forecast in this hook."""
    known = session.config.stash[SESSION]
    known.make_plans(collection.asked(session.items))
    known.items = {item.nodeid: str(cell) for item in session.items if (cell := collection.cell_of(item)) is not None}
    try:
        known.check_client()
        known.check_reboot()
        check_effects(known)
        known.check_descriptors()
    except (UsageError, LabError) as error:
        known.mistake = aliases.worded(session.config, str(error))
        if not known.is_worker:
            raise pytest.UsageError(known.mistake) from None
        session.items.clear()  # the main process ends the session when it hears of it


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Names what is used and why."""
    return [aliases.worded(config, line) for line in summary.header(config, __version__)]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """The plan and its forecast."""
    return [aliases.worded(config, line) for line in summary.plan(config)]


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explains a failed margin."""
    return outcome.explain(op, left, right)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns our exceptions into our outcomes."""
    report = yield
    outcome.make_report(item, call, report)
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> Any:
    """Letter and word of an undecided cell."""
    return outcome.status(report)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """The tables, and what was not decided and why."""
    del exitstatus  # how far the session came tells more
    summary.write(terminalreporter, config)
