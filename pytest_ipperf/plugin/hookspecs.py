"""The hooks that other plugins can hear."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.record import Record


@pytest.hookspec
def pytest_ipperf_measured(config: pytest.Config, record: Record) -> None:
    """A cell has been measured and judged.

    Called once for each item, in the main process also under xdist, after the item's report. Reporters and stores
    live on this hook alone.
    """
