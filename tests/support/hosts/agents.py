"""Decide which tests' agents are forks and which are new processes, as those of users are."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
NEW_AGENTS = "IPPERF_TESTS_NEW_AGENTS"
"""Environment variable: unless it is empty, agents are new processes, those of inner sessions too."""
# The tests of agents themselves: their start, their end, what is sent to them, what other users see of them; and of
# figures, which a fork may change.
_NEW = tuple(
    f"{folder}/"
    for folder in (
        "agent/packages",
        "agent/rpc",
        "lab/access",
        "lab/agents",
        "lab/deploy",
        "system/agreement",
        "system/far",
        "system/security",
        "system/truth",
    )
)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.path.is_relative_to(TOP):
        path = item.path.relative_to(TOP).as_posix()
        os.environ[NEW_AGENTS] = "yes" if path.startswith(_NEW) else ""
        if any(item.get_closest_marker(tier) for tier in ("host", "fault", "truth")):
            # Only now, as the tests of lower tiers do without what it imports.
            from tests.support.sessions import forked_agents  # noqa: PLC0415

            forked_agents.install()
    return (yield)
