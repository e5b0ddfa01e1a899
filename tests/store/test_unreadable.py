"""Folders of sessions that cannot be listed, or have odd names: they stop nothing but their own reading."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from pytest_ipperf.core.portable.errors import DamageError
from pytest_ipperf.store import Archive, read_session_summary
from tests.store.kept import keep, name_of, record

NOBODY = 65534


@pytest.fixture
def root():
    """Make two sessions in a folder that every user can reach and write, unlike pytest's own."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o777)
    for number in range(2):
        keep(root, number, [record(1)])
    yield root
    shutil.rmtree(root)


@contextlib.contextmanager
def as_somebody():
    """Run as a user for whom permissions apply, unlike root."""
    time.strptime("2026", "%Y")  # loads a module, which somebody else may not be allowed to
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


def outcome(root):
    with contextlib.closing(Archive(root)) as archive:
        return [(entry.name, entry.trouble, dict(entry.verdicts)) for entry in archive.sessions()], archive.notes


@pytest.mark.parametrize("indexed", [False, True])
def test_a_folder_that_may_not_be_listed_is_the_only_one_that_is_not_read(root, indexed):
    folder = root / "runs" / name_of(1)
    first, second = (name_of(0), "", {"within": 1}), (name_of(1), "", {"within": 1})
    if indexed:
        with as_somebody():
            assert outcome(root) == ([first, second], [])
    folder.chmod(0)
    sentence = f"session {folder.name}: {folder} cannot be read (Permission denied)"
    with as_somebody():
        assert outcome(root) == ([first, (name_of(1), sentence, {})], [sentence])
        with pytest.raises(DamageError) as error:
            read_session_summary(folder)
    assert str(error.value) == sentence
    folder.chmod(0o755)
    with as_somebody():
        assert outcome(root) == ([first, second], [])


def test_names_that_are_not_utf_8_are_somebody_elses(root):
    here = outcome(root)
    for name in (b"\xff\xfe", b"20261129T013000Z-\xff"):
        (root / "runs" / os.fsdecode(name)).mkdir()
    (root / "runs" / name_of(1) / os.fsdecode(b"\xff.jsonl")).write_text("x\n")
    assert outcome(root) == here
    (root / "index.sqlite").unlink()
    assert outcome(root) == here
    assert read_session_summary(root / "runs" / name_of(1)).completeness.is_whole
