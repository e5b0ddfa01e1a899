"""Remove provisioned data from servers after the last item that measures; it is an error if some of it stays."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_ipperf.core.portable.errors import LabError, RestoreError
from pytest_ipperf.plugin.collect.collection import cell_of
from pytest_ipperf.plugin.session.journal import journal_of
from pytest_ipperf.plugin.session.session import Session

if TYPE_CHECKING:
    from pytest_ipperf.lab.epoch.provisioning import Provisioning


class ProvisioningTeardown:
    """Hooks of every process that measures: the main one, or each worker of xdist."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._provisioning: Provisioning | None = None
        self._last: pytest.Item | None = None

    def provisioning(self) -> Provisioning:
        """Open what keeps the servers' state on their hosts, when it is first asked for.

        No property: pytest 8 reads those of every plugin that it registers, and would load execnet for each user.
        """
        if self._provisioning is None:
            from pytest_ipperf.lab.epoch.provisioning import Provisioning  # noqa: PLC0415 - loads execnet

            self._provisioning = Provisioning()
        return self._provisioning

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Which item is the last that measures; a worker does not know which of them it will be given."""
        if not self._session.is_worker:
            self._last = next((item for item in reversed(session.items) if cell_of(item)), None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        """Behind the last item, and behind whichever ends the session before (-x, --maxfail): pytest tells no next."""
        yield
        if (nextitem is None or item is self._last) and (sentence := self._close()):
            pytest.fail(sentence, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Where no item was torn down to its end, as by Ctrl-C."""
        if sentence := self._close():
            if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
                reporter.write_line(f"ipperf: {sentence}", red=True)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _close(self) -> str:
        """Remove everything; return what stays on a host, in a sentence, empty where nothing does."""
        provisioning, self._provisioning = self._provisioning, None
        try:
            if provisioning is not None:
                provisioning.close()
        except RestoreError as error:
            with contextlib.suppress(LabError):  # of a full disk: what stays is reported all the same
                journal_of(self._session).append("left", {"sentence": str(error)})
            return str(error)
        return ""


PROVISIONING_TEARDOWN = pytest.StashKey[ProvisioningTeardown]()
