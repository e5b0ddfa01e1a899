"""Set the tier of each test by its folder and file, and keep the tests of the lowest tier pure.

`pytest tests -m unit` needs Python alone; the other tiers differ in what they start, and in how many of them may run at
once (`.ci/tests`).
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[1]

TIERS = {
    "unit": "pure: no network, no process, no inner session; the parsers' fuzzing too",
    "host": "agents, servers and network namespaces on this machine",
    "session": "inner pytest sessions, and the program",
    "fault": "faults, far hosts, and things broken on purpose",
    "truth": "whether the figures are true, for which the machine must not be busy",
}
"""The markers with their descriptions."""

PLACES = {
    "agent": "host",
    "agent/flows/udp/test_counter.py": "unit",
    "agent/host_state/test_repair.py": "unit",
    "agent/packages/test_installed.py": "unit",
    "agent/paths/test_clock_sync.py": "unit",
    "agent/paths/test_packet_counters.py": "unit",
    "agent/rpc/test_codec.py": "unit",
    "agent/tunnels/test_bpf_assembler.py": "unit",
    "cli": "session",
    "cli/commands/test_accept.py": "unit",
    "cli/commands/test_compare.py": "unit",
    "cli/commands/test_doctor.py": "unit",
    "cli/commands/test_export.py": "unit",
    "cli/commands/test_ministat.py": "unit",
    "cli/commands/test_model.py": "unit",
    "cli/commands/test_night_refusals.py": "unit",
    "cli/commands/test_show.py": "unit",
    "cli/night": "unit",
    "cli/test_fuzz.py": "unit",
    "core": "unit",
    "data": "session",
    "experiment": "unit",
    "lab": "host",
    "lab/agents/test_methods.py": "unit",
    "lab/epoch/test_account_check.py": "unit",
    "lab/epoch/test_server_choice.py": "unit",
    "lab/inventory": "unit",
    "lab/runs/test_accepted_mail.py": "unit",
    "lab/runs/test_link_rate.py": "unit",
    "lab/runs/test_load_spec.py": "unit",
    "lab/runs/test_path_facts.py": "unit",
    "lab/runs/test_proof.py": "unit",
    "lab/tunnels/test_restoring.py": "unit",
    "metrics": "unit",
    "plugin": "session",
    "plugin/session/test_rebuild.py": "unit",
    "project/test_architecture.py": "session",
    "project/test_ci_docs.py": "session",
    "project/test_doc_tables.py": "unit",
    "project/test_docs.py": "session",
    "project/test_howto.py": "session",
    "project/test_protocol_knowledge.py": "unit",
    "protocols": "unit",
    "protocols/test_ftp.py": "host",
    "protocols/test_http.py": "host",
    "protocols/test_imap.py": "host",
    "report": "unit",
    "report/page/test_accessibility.py": "session",
    "report/page/test_browser.py": "session",
    "servers": "host",
    "servers/test_recipes.py": "unit",
    "store": "unit",
    "support": "session",
    "system/agreement": "host",
    "system/far": "fault",
    "system/paths": "host",
    "system/paths/test_killed.py": "fault",
    "system/security": "host",
    "system/security/test_hostile.py": "unit",
    "system/security/test_secrets.py": "session",
    "system/trouble": "fault",
    "system/truth": "truth",
    "system/truth/test_misbehaving.py": "fault",
    "traffic_models": "unit",
    "transports": "unit",
}
"""Folders and files below `tests`, with their tier; the longest match counts. A test of another tier than its file has
has that tier's marker.
"""

_FORBIDDEN = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"} | {
    "socket.bind",
    "socket.connect",
}
_guarded = ""
_watches = False


def tier_of(path: Path) -> str:
    """Return the tier of a test file below `tests`; empty if the table has none."""
    parts = path.relative_to(TOP).parts
    names = ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((PLACES[name] for name in names if name in PLACES), "")


def pytest_configure(config: pytest.Config) -> None:
    for tier, description in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {description}")


def may_have(path: Path, tier: str) -> bool:
    """Return whether a test file may have tests of this tier: by the table, or by a marker in its text."""
    return tier_of(path) == tier or f"mark.{tier}" in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without tests of the tiers that are selected, as reading them all takes long."""
    asked = config.getoption("markexpr").split(" or ")
    if TIERS.keys() >= {*asked} and collection_path.is_relative_to(TOP) and collection_path.match("test_*.py"):
        return None if any(may_have(collection_path, tier) for tier in asked) else True
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    if not item.path.is_relative_to(TOP):
        return
    if not any(item.get_closest_marker(tier) for tier in TIERS):
        if not (tier := tier_of(item.path)):
            raise pytest.UsageError(f"{item.path.relative_to(TOP)} has no tier: name it or its folder in {__file__}")
        item.add_marker(tier)
        return
    own = [tier for tier in TIERS if item.get_closest_marker(tier)]
    # A file whose text does not show the only selected tier is never read.
    if len(own) > 1 or not may_have(item.path, own[0]):
        raise pytest.UsageError(
            f"{item.nodeid} has the tiers {own}; it takes one, written in its file as mark.{own[0]}"
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Guard a unit test, including its fixtures."""
    global _guarded, _watches  # noqa: PLW0603 - an audit hook cannot be taken away again, only told to let pass
    if not item.get_closest_marker("unit"):
        return (yield)
    if not _watches:
        sys.addaudithook(_refuse)
        _watches = True
    _guarded = item.nodeid
    try:
        return (yield)
    finally:
        _guarded = ""


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if _guarded and event in _FORBIDDEN:
        raise AssertionError(f"{event} in a unit test: {_guarded} belongs to another tier ({__file__})")
