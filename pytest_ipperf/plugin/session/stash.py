"""Stash keys of a pytest process: its measuring session, which is imported and started on first use, and a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # its imports are needed only by a measuring session
    from pytest_ipperf.plugin.session.session import Session

SESSION: pytest.StashKey[Session] = pytest.StashKey()
STARTER: pytest.StashKey[Callable[[pytest.Config], None]] = pytest.StashKey()
"""Function that starts the session, set in `pytest_configure`; a stash entry, as importing it here would be a cycle."""

MISTAKE: pytest.StashKey[str] = pytest.StashKey()
"""The user's mistake that a worker of xdist has found, with which its controller ends the session."""


def session_of(config: pytest.Config) -> Session:
    """Return the measuring session of this process, started at the first call.

    Raise UsageError for an invalid setting.
    """
    if SESSION not in config.stash:
        config.stash[STARTER](config)
    return config.stash[SESSION]
