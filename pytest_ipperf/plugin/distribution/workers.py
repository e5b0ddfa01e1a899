"""Exchange facts between controller and workers of xdist, before it is known whether anything is measured.

xdist distributes as usual unless a worker collects a test that measures. This module does not import xdist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.plugin.activation import unsupported_platform
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.options.declarations import long_of
from pytest_ipperf.plugin.session.invocation import from_controller, invocation
from pytest_ipperf.plugin.session.stash import MISTAKE, SESSION
from pytest_ipperf.protocols import PROTOCOLS

# Matches every node id of a cell; names of testbeds are not checked, as only a measuring session reads them.
_LIKE_A_CELL = re.compile(rf"[\[-].+-(?:{'|'.join(PROTOCOLS)})-.*\bc\d+-.*\bipv[46]\b")


def register(config: pytest.Config) -> None:
    """Register the hooks that this process needs under xdist; none without xdist."""
    if from_controller(config):
        config.pluginmanager.register(WorkerHandoff(), "ipperf-worker-handoff")
    elif (
        config.pluginmanager.hasplugin("xdist")
        and config.getoption("dist", "no") != "no"
        and not unsupported_platform()
    ):
        config.pluginmanager.register(ControllerHooks(config), "ipperf-controller")


def auto_workers(config: pytest.Config) -> int | None:
    """Return the number of workers for `-n auto`; None leaves it to xdist, which counts the processors.

    Nothing is collected yet, so only testbeds named on the command line show that the session measures; those of the
    ini file hold for the project's unit tests too.
    """
    if unsupported_platform() or not config.getoption(long_of("--testbed")):
        return None
    if config.getoption("numprocesses") != "auto" or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    from pytest_ipperf.plugin.distribution.scheduler import count_independent  # noqa: PLC0415 - see above

    return count_independent(config)


class ControllerHooks:
    """Hooks of the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._decided = False
        self._left_out: list[str] = []

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Pass on the invocation, so that a worker makes the same plan and writes to the same folder."""
        session = self._config.stash.get(SESSION, None)
        resume = str(session.resumed.kept.folder) if session and session.resumed else ""
        node.workerinput["ipperf"] = list(invocation(self._config)._replace(resume=resume))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Take over the distribution from xdist if the first worker has collected a test that measures."""
        if self._decided:
            return
        self._decided = True
        if any(map(_LIKE_A_CELL.search, ids)):
            from pytest_ipperf.plugin.distribution.scheduler import replace_scheduler  # noqa: PLC0415 - see above

            try:
                replace_scheduler(self._config, ids)
            except IpperfError as error:
                raise pytest.UsageError(spell_options(self._config, str(error))) from None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take from a worker that ended normally the cells left out, and the workloads that it measured anew.

        Raise pytest.UsageError for a mistake that it found: then no worker has selected anything.
        """
        found = getattr(node, "workeroutput", {}).get("ipperf")
        if found is None:
            return
        if found["mistake"]:
            raise pytest.UsageError(found["mistake"])
        self._left_out = found["left_out"]
        session = self._config.stash.get(SESSION, None)
        if session is not None:
            session.left_out_lines = self._left_out
        if session is not None and session.resumed is not None:
            session.resumed.mark_not_reused(found["not_reused"])

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write why nothing was selected; otherwise the session's summary lists the cells left out."""
        if SESSION not in self._config.stash:
            for line in self._left_out:
                terminalreporter.write_line(f"ipperf: {line}")


class WorkerHandoff:
    """Hook of a worker that passes facts to the controller, which collects nothing itself."""

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Pass on the cells left out, the workloads that could not be reused, and a mistake."""
        config: Any = session.config  # xdist adds `workeroutput`
        known, mistake = config.stash.get(SESSION, None), config.stash.get(MISTAKE, "")
        if known is not None or mistake:
            config.workeroutput["ipperf"] = {
                "left_out": known.left_out_lines if known else [],
                "not_reused": known.resumed.not_reused_texts() if known and known.resumed else {},
                "mistake": mistake,
            }
