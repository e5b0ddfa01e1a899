"""The pytest plugin: thin hooks, each a call into a module of this package.

Whoever merely has the plugin installed must not notice it: what only a measuring session needs is loaded, and begun,
when the first test is met that measures (`activation`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.plugin import activation, hookspecs
from pytest_ipperf.plugin.collect import hooks
from pytest_ipperf.plugin.distribution import workers
from pytest_ipperf.plugin.fixtures import factors, margin, measured, server_state
from pytest_ipperf.plugin.options import aliases, declarations
from pytest_ipperf.plugin.session.invocation import from_controller
from pytest_ipperf.plugin.session.stash import SESSION, STARTER, session_of

__all__ = ["factors", "margin", "measured", "server_state"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options and their ini twins."""
    declarations.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Rewrite the short names of options in the arguments."""
    return (yield from aliases.rewrite_aliases(early_config, parser, args))


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hook of this plugin, for reporters."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options that were given; begin where they are about the session itself."""
    declarations.register_markers(config)
    config.stash[STARTER] = _start
    config.pluginmanager.register(hooks.Selection(), "ipperf-selection")
    config.pluginmanager.register(hooks.TestCheck(), "ipperf-test-check")
    workers.register(config)
    given = declarations.given(config)
    if not given or activation.unsupported_platform():
        return
    try:
        if from_controller(config) is None:
            from pytest_ipperf.plugin.options.settings import check  # noqa: PLC0415 - whoever gives one means to measure

            check(config, given)
        if declarations.ABOUT_THE_SESSION & set(given):
            session_of(config)
    except IpperfError as error:
        raise pytest.UsageError(aliases.spell_options(config, str(error))) from None


def _start(config: pytest.Config) -> None:
    """Start the measuring session of this process."""
    from pytest_ipperf.plugin.start import start  # noqa: PLC0415 - what only a measuring session needs

    start(config)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return what `-n auto` means; xdist asks before it configures, and nobody orders hooks of installed plugins."""
    return workers.auto_workers(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let the fixtures of all other plugins override ours."""
    activation.allow_overrides(session)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Answer what is asked in place of a session."""
    if not config.getoption(declarations.ANSWER):
        return None
    from pytest_ipperf.plugin.session.testbed_query import answer_testbeds  # noqa: PLC0415 - see above

    return answer_testbeds(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the cells of a test that measures."""
    if not activation.requests_measured(metafunc):
        return
    activation.mark_measuring(metafunc)
    if activation.unsupported_platform():
        if not metafunc.config.pluginmanager.hasplugin("ipperf-unsupported-platform"):
            metafunc.config.pluginmanager.register(activation.UnsupportedPlatform(), "ipperf-unsupported-platform")
        return
    from pytest_ipperf.plugin.collect.collection import parametrize  # noqa: PLC0415 - see above

    parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan what is left after every deselection; first, since the terminal asks for the forecast in this hook."""
    measuring = any(map(activation.measures, session.items)) and not activation.unsupported_platform()
    if measuring or SESSION in session.config.stash:
        from pytest_ipperf.plugin.collect.collection import finish  # noqa: PLC0415 - see above

        finish(session)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Name what is used and why, and the plan with its forecast."""
    if SESSION not in config.stash:
        return []
    from pytest_ipperf.plugin.summary import plan_lines  # noqa: PLC0415 - see above

    return plan_lines(config)


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed margin."""
    if SESSION not in config.stash:
        return None
    from pytest_ipperf.plugin.measure.outcome import explain  # noqa: PLC0415 - see above

    return explain(op, left, right)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn our exceptions into our outcomes."""
    report = yield
    if activation.measures(item) and SESSION in item.config.stash:
        from pytest_ipperf.plugin.measure.outcome import make_report  # noqa: PLC0415 - see above

        make_report(item, call, report)
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport, config: pytest.Config) -> Any:
    """Return letter and word of an undecided cell."""
    if SESSION not in config.stash:
        return None
    from pytest_ipperf.plugin.measure.outcome import status  # noqa: PLC0415 - see above

    return status(report)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """Show the tables, and what was not decided and why."""
    del exitstatus  # how far the session came tells more
    if SESSION in config.stash:
        from pytest_ipperf.plugin.summary import write_summary  # noqa: PLC0415 - see above

        write_summary(terminalreporter, config)
