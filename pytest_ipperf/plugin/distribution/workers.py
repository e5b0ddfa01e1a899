"""Exchange facts between controller and workers of xdist before it is known whether anything is measured.

xdist distributes as it always does until a worker has collected something of ours; nothing of xdist is loaded here.
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
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.protocols import PROTOCOLS

# What no node id of a cell lacks; which testbeds there are, only a measuring session reads.
_LIKE_A_CELL = re.compile(rf"[\[-].+-(?:{'|'.join(PROTOCOLS)})-.*\bc\d+-.*\bipv[46]\b")


def register(config: pytest.Config) -> None:
    """Register what this process needs under xdist; nothing without it."""
    if from_controller(config):
        config.pluginmanager.register(WorkerHandoff(), "ipperf-worker-handoff")
    elif (
        config.pluginmanager.hasplugin("xdist")
        and config.getoption("dist", "no") != "no"
        and not unsupported_platform()
    ):
        config.pluginmanager.register(ControllerHooks(config), "ipperf-controller")


def auto_workers(config: pytest.Config) -> int | None:
    """Return how many workers `-n auto` means; None leaves it to xdist, which counts the processors.

    Nothing is collected yet. Only testbeds that were named for this very session say that it is for measuring; those of
    the ini file hold for unit tests of the project, too.
    """
    if unsupported_platform() or not config.getoption(long_of("--testbed")):
        return None
    if config.getoption("numprocesses") != "auto" or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    from pytest_ipperf.plugin.distribution.scheduler import count_independent  # noqa: PLC0415 - see above

    return count_independent(config)


class ControllerHooks:
    """The hooks of the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._decided = False
        self._left_out: list[str] = []

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Hand over what a worker must know: it must make the same plan and write to the same folder."""
        session = self._config.stash.get(SESSION, None)
        resume = str(session.resumed.kept.folder) if session and session.resumed else ""
        node.workerinput["ipperf"] = list(invocation(self._config)._replace(resume=resume))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Take the distribution over from xdist where the first worker has collected something that measures."""
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
        """Learn from a worker that ended in order which arms were left out, as all do, and what it had to measure anew.

        pytest.UsageError for a mistake that it found: then none of them has selected anything.
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
        """Say why nothing was selected; where something was, the summary of the session says what was left out."""
        if SESSION not in self._config.stash:
            for line in self._left_out:
                terminalreporter.write_line(f"ipperf: {line}")


class WorkerHandoff:
    """The hook of a worker: what the controller cannot know, as it collects nothing."""

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over which arms were left out, and what could not be reused."""
        config: Any = session.config  # xdist has put the attribute there
        known = config.stash.get(SESSION, None)
        if known is not None:
            not_reused = known.resumed.not_reused_texts() if known.resumed else {}
            config.workeroutput["ipperf"] = {
                "left_out": known.left_out_lines,
                "not_reused": not_reused,
                "mistake": known.mistake,
            }
