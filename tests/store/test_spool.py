"""Byte strings of a session until its end: those that were kept, whatever becomes of the file."""

import errno
import os
import random
import tempfile
import tracemalloc

import pytest

from pytest_ipperf.store import spool
from pytest_ipperf.store.spool import Spool

COMMON = b"what all of them say " * 20


def strings(count):
    """Return byte strings that have much in common."""
    drawn = random.Random(3)
    return [COMMON + drawn.randbytes(20) + b"%d" % number for number in range(count)]


@pytest.fixture
def fast(monkeypatch):
    """Make every spool write to its file after a few strings."""
    monkeypatch.setattr(spool, "_IN_MEMORY_BYTES", 120)


def filled(kept, count):
    """Append strings; return them by the places that they were given."""
    found = {kept.append(each): each for each in strings(count)}
    assert len(found) == count
    assert list(found) == sorted(found)
    return found


def in_file(kept):
    """Return how many strings are no longer in memory."""
    return len(kept) - len(kept._in_memory)


@pytest.mark.usefixtures("fast")
def test_strings_in_the_file_and_in_memory_are_read_in_any_order():
    kept = Spool()
    assert (len(kept), list(kept)) == (0, [])
    appended = filled(kept, 50)
    assert 30 < in_file(kept) < 50
    assert (len(kept), list(kept)) == (50, [*appended.values()])
    order = random.Random(5).sample([*appended], 50)
    assert [kept[place] for place in order] == [appended[place] for place in order]


@pytest.mark.usefixtures("fast")
def test_a_string_that_is_in_the_file_takes_no_memory():
    kept = Spool()
    filled(kept, 1000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            kept.append(COMMON + b"%d" % number)
        assert tracemalloc.get_traced_memory()[0] - before < 2000  # what is in memory differs
    finally:
        tracemalloc.stop()


def test_a_small_session_has_no_file_and_little_in_memory(monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    kept, appended = Spool(), strings(50)
    for each in appended:
        kept.append(each)
    assert sum(map(len, kept._in_memory.values())) < sum(map(len, appended)) / 5
    assert list(kept) == appended


@pytest.mark.usefixtures("fast")
def test_the_file_is_left_behind_by_none(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = Spool()
    filled(kept, 20)
    assert kept._file is not None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("fast")
def test_a_full_disk_costs_nothing_and_is_tried_again(monkeypatch):
    kept, room, write = Spool(), [200], os.pwrite

    def written(descriptor, data, offset):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, data[: room[0]], offset)
        room[0] -= count
        return count

    monkeypatch.setattr(os, "pwrite", written)
    appended = filled(kept, 30)
    assert 0 < in_file(kept) < 10
    assert list(kept) == [*appended.values()]
    room[0] = 1 << 20
    appended |= {kept.append(each): each for each in strings(60)[30:]}
    assert in_file(kept) > 50
    assert list(kept) == [*appended.values()]
    assert [kept[place] for place in appended] == [*appended.values()]


@pytest.mark.usefixtures("fast")
def test_without_a_folder_for_temporary_files_all_stays_in_memory(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    kept = Spool()
    appended = filled(kept, 30)
    assert list(kept) == [*appended.values()]
