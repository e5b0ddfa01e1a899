"""The hooks that other plugins can implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # the specification is loaded in every session
    from pytest_ipperf.core.records.record import Record


@pytest.hookspec
def pytest_ipperf_measured(config: pytest.Config, record: Record) -> None:
    """Called with the record of a cell that has been measured, and judged if its test asked for that.

    It is called in the main process, also under xdist, after the item's report. A cell that was not measured or whose
    proof failed has no record; its report says why. Reporters and stores need no other hook.
    """
