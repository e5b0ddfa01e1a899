"""What lies in shared folders under a name that others may guess, or may have taken before."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state import dirty_marks, state_dir
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from pytest_ipperf.store.log.event_log import EventLog

STRANGER = 65533


@pytest.fixture
def shared(monkeypatch):
    """A folder that is everybody's, as `/tmp` is, and the one for temporary files."""
    with tempfile.TemporaryDirectory(prefix="ipperf-shared-", dir="/tmp") as made:
        Path(made).chmod(0o1777)
        monkeypatch.setenv("TMPDIR", made)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(made)


@pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")
def test_links_that_lie_where_labs_lie_are_followed_by_nobody(shared):
    target, planted = shared / "target", shared / "pytest-ipperf-lab-planted"
    target.mkdir()
    planted.symlink_to(target)
    long_ago = time.time() - 1000
    os.utime(target, (long_ago, long_ago))
    with namespaces(BUILTIN["pair"]):
        made = [path for path in shared.glob("pytest-ipperf-lab-*") if path != planted]
        assert all(stat.S_ISDIR(path.lstat().st_mode) and path.stat().st_uid == os.geteuid() for path in made)
        assert made
    assert planted.is_symlink()
    assert target.is_dir()
    assert sorted(path.name for path in shared.iterdir()) == [planted.name, "target"]


@pytest.fixture
def users(shared, monkeypatch):
    """The folders of ordinary users lie here, and none is set apart."""
    monkeypatch.delenv("IPPERF_RUN", raising=False)
    monkeypatch.setattr(state_dir, "USERS", f"{shared}/pytest-ipperf-")
    monkeypatch.setattr(state_dir, "ROOTS", f"{shared}/roots")
    return shared


def test_a_folder_for_journals_and_marks_that_is_a_link_is_not_used(users):
    (users / "target").mkdir()
    state_dir.user_dir().symlink_to(users / "target")
    assert not state_dir.ensure_user_dir()
    assert list(state_dir.user_dirs()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_a_folder_for_journals_and_marks_that_another_user_made_or_can_write_to_is_not_used(users):
    state_dir.user_dir().mkdir()
    os.chown(state_dir.user_dir(), STRANGER, STRANGER)
    assert not state_dir.ensure_user_dir()
    shutil.rmtree(state_dir.user_dir())
    state_dir.user_dir().mkdir()
    state_dir.user_dir().chmod(0o777)
    assert not state_dir.ensure_user_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_root_removes_nothing_in_the_folder_of_another_user(users):
    """Which that user may have exchanged for a link to any other, between two looks at it."""
    folder = users / f"pytest-ipperf-{STRANGER}"
    folder.mkdir()
    (folder / "left").write_text("another start\na note\n")
    for path in (folder, folder / "left"):
        os.chown(path, STRANGER, STRANGER)
    assert dirty_marks.all_marks() == []
    assert (folder / "left").exists()


def test_records_have_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o077)
    try:
        journal = EventLog(tmp_path / "records", "main")
        journal.append("note", {"text": "x"})
        journal.append_samples(b"12345678")
        journal.write_file("logs/server.log", b"log")
        journal.append_file("captures/arm.pcap", b"capture", head_bytes=3)
        journal.close()
    finally:
        os.umask(before)
    found = [tmp_path / "records", *(tmp_path / "records").rglob("*")]
    assert len(found) == 7
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)
