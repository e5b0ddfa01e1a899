"""The key of the measuring session of a pytest process; the session itself is loaded and started on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # which loads what only a measuring session needs
    from pytest_ipperf.plugin.session.session import Session

SESSION: pytest.StashKey[Session] = pytest.StashKey()
STARTER: pytest.StashKey[Callable[[pytest.Config], None]] = pytest.StashKey()
"""What starts the session, put there when pytest is configured: its parts need the session, and not the other way."""


def session_of(config: pytest.Config) -> Session:
    """Return the measuring session of this process, started at the first call.

    UsageError where a setting makes no sense.
    """
    if SESSION not in config.stash:
        config.stash[STARTER](config)
    return config.stash[SESSION]
