"""Repair of what earlier measurements have left."""

from __future__ import annotations

import os

import pytest

from pytest_ipperf.agent.host_state import dirty_marks, state_dir
from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.host_state.repair import repair


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_folder_that_was_left_is_removed_and_its_mark_cleared(tmp_path):
    folder = tmp_path / "ipperf-left"
    folder.mkdir()
    (folder / ".lock").touch()
    os.utime(folder / ".lock", (0, 0))
    said = f"private folder {folder} cannot be removed"
    dirty_marks.mark_leftovers([{"said": said, "folder": str(folder)}, {"said": "r is missing"}])
    assert repair(0, everything=False) == [f"removed {folder}", f"cleared the mark of: {said}"]
    assert repair(0, everything=True) == ["cleared the mark of: r is missing"]
    assert list(state_dir.user_dir().iterdir()) == []


def test_a_folder_that_somebody_has_again_is_not_said_to_be_removed(tmp_path):
    with private_folder() as folder:
        dirty_marks.mark_leftovers([{"said": "f is left", "folder": str(folder)}])
        assert repair(0, everything=True) == []
        assert folder.exists()


def test_what_was_removed_before_is_reported():
    assert repair(1, everything=False) == ["removed 1 private folder, left by agents that are gone"]
    assert repair(2, everything=False) == ["removed 2 private folders, left by agents that are gone"]


@pytest.mark.parametrize("name", ["x" * 300, "\0"])
def test_what_cannot_be_looked_at_breaks_nothing_off(name, tmp_path):
    """A parent folder may be closed to this user; here its name is one that no file system accepts."""
    unseen = str(tmp_path / name)
    dirty_marks.mark_leftovers([{"said": "f is left", "folder": unseen}, {"said": "r is missing"}])
    assert repair(0, everything=False) == ["cleared the mark of: f is left"]
    assert dirty_marks.dirty_reason().endswith(": r is missing")
