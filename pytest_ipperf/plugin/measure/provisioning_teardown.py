"""Remove provisioned data from servers after the last item that measures; data that stays is an error."""

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
    """Plugin that removes provisioned data, in every process that measures: the main one, or each worker of xdist."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._provisioning: Provisioning | None = None
        self._last: pytest.Item | None = None

    def provisioning(self) -> Provisioning:
        """Return the provisioning of servers' hosts, created at the first call.

        Not a property: pytest 8 reads the properties of every plugin that it registers, which would import execnet.
        """
        if self._provisioning is None:
            from pytest_ipperf.lab.epoch.provisioning import Provisioning  # noqa: PLC0415 - loads execnet

            self._provisioning = Provisioning()
        return self._provisioning

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Find the last item that measures; a worker does not know which items it will be given."""
        if not self._session.is_worker:
            self._last = next((item for item in reversed(session.items) if cell_of(item)), None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        """Remove the data after the last item that measures, or without a next item (also by -x and --maxfail)."""
        yield
        if (nextitem is None or item is self._last) and (sentence := self._close()):
            pytest.fail(sentence, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Remove the data if no item's teardown did, as after Ctrl-C."""
        if sentence := self._close():
            if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
                reporter.write_line(f"ipperf: {sentence}", red=True)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _close(self) -> str:
        """Remove all data; return a message about data that stays on a host, empty if none does."""
        provisioning, self._provisioning = self._provisioning, None
        try:
            if provisioning is not None:
                provisioning.close()
        except RestoreError as error:
            with contextlib.suppress(LabError):  # such as a full disk: the data that stays is reported all the same
                journal_of(self._session).append("left", {"sentence": str(error)})
            return str(error)
        return ""


PROVISIONING_TEARDOWN = pytest.StashKey[ProvisioningTeardown]()
