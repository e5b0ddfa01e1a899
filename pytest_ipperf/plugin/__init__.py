"""The pytest plugin: thin hooks, each a call into a module of this package.

The plugin must be invisible where it is merely installed. Modules that only a measuring session needs are therefore
imported, and the session is started, at the first test that measures (`activation`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.plugin import activation, hookspecs
from pytest_ipperf.plugin.collect import hooks
from pytest_ipperf.plugin.distribution import workers
from pytest_ipperf.plugin.fixtures import compared_level, compared_with, factors, margin, measured, server_state
from pytest_ipperf.plugin.options import aliases, declarations
from pytest_ipperf.plugin.session.invocation import from_controller
from pytest_ipperf.plugin.session.stash import SESSION, STARTER, session_of

__all__ = ["compared_level", "compared_with", "factors", "margin", "measured", "server_state"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and their ini twins."""
    declarations.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Rewrite the short names of options in the arguments."""
    return (yield from aliases.rewrite_aliases(early_config, parser, args))


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hook that this plugin offers to reporters."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options given; start the session if they concern the session itself."""
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
            from pytest_ipperf.plugin.options.settings import check  # noqa: PLC0415 - needed only when an option is given

            check(config, given)
        if declarations.ABOUT_THE_SESSION & set(given):
            session_of(config)
    except IpperfError as error:
        raise pytest.UsageError(aliases.spell_options(config, str(error))) from None


def _start(config: pytest.Config) -> None:
    """Start the measuring session of this process."""
    from pytest_ipperf.plugin.start import start  # noqa: PLC0415 - needed only by a measuring session

    start(config)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of workers for `-n auto`.

    First, since the order of installed plugins' hooks is undefined otherwise. xdist asks before it is configured.
    """
    return workers.auto_workers(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let fixtures of other plugins override ours."""
    activation.allow_overrides(session)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Answer an option that asks for information instead of a session."""
    if not config.getoption(declarations.ANSWER):
        return None
    from pytest_ipperf.plugin.session.testbed_query import answer_testbeds  # noqa: PLC0415 - see above

    return answer_testbeds(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that measures with its cells."""
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
    """Plan the items left after all deselection; first, since the terminal asks for the forecast in this hook."""
    measuring = any(map(activation.measures, session.items)) and not activation.unsupported_platform()
    if measuring or SESSION in session.config.stash:
        from pytest_ipperf.plugin.collect.collection import finish  # noqa: PLC0415 - see above

        finish(session)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Return the header lines of the measurement and the plan with its forecast."""
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
    """Turn this plugin's exceptions into its outcomes."""
    report = yield
    if activation.measures(item) and SESSION in item.config.stash:
        from pytest_ipperf.plugin.measure.outcome import make_report  # noqa: PLC0415 - see above

        make_report(item, call, report)
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport, config: pytest.Config) -> Any:
    """Return the letter and word of an undecided cell."""
    if SESSION not in config.stash:
        return None
    from pytest_ipperf.plugin.measure.outcome import status  # noqa: PLC0415 - see above

    return status(report)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """Write the tables, and the undecided cells with the reasons."""
    del exitstatus  # the session's own completeness says more
    if SESSION in config.stash:
        from pytest_ipperf.plugin.summary import write_summary  # noqa: PLC0415 - see above

        write_summary(terminalreporter, config)
