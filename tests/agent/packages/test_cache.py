"""The cache of a host: complete and verified or not there, one user's alone, and never a reason to fail."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_ipperf.agent.packages import cache as module
from pytest_ipperf.agent.packages.cache import KEPT_S, NAME, Cache

DATA = b"what was sent"
DIGEST = hashlib.sha256(DATA).hexdigest()
# The module alone, as it arrives on a host; writes the same entries for ever.
WRITER = """
import sys
room = {"__name__": "keeper"}
exec(open(sys.argv[1]).read(), room)
cache = room["Cache"]()
print(flush=True)
while True:
    for number in range(3):
        cache.put(bytes([number]) * 2_000_000)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / NAME


def test_what_is_kept_is_had_again_and_is_nobody_elses(place):
    assert Cache().get(DIGEST) is None
    assert not place.exists(), "who only asks makes no folder"
    Cache().put(DATA)
    assert Cache().get(DIGEST) == DATA
    assert Cache().entries() == {DIGEST: len(DATA)}
    assert [path.name for path in place.iterdir()] == [DIGEST]
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / DIGEST).stat().st_mode & 0o777 == 0o600


def test_a_room_is_apart(place):
    Cache("wheels").put(DATA)
    assert Cache().entries() == {}
    assert Cache("wheels").get(DIGEST) == DATA
    assert (place / "wheels" / DIGEST).exists()
    Cache().clear()
    assert Cache("wheels").entries()
    Cache("wheels").clear()
    Cache().clear()
    assert not place.exists()


def test_what_was_made_here_is_apart_and_verified_too(place):
    Cache().put(b"compiled", DIGEST, "a70d0d0a")
    assert Cache().get(DIGEST) is None
    assert Cache().get(DIGEST, "cb0d0d0a") is None
    assert Cache().get(DIGEST, "a70d0d0a") == b"compiled"
    (entry,) = place.iterdir()
    assert Cache().entries() == {entry.name: entry.stat().st_size}
    entry.write_bytes(entry.read_bytes()[:-1] + b"D")
    assert Cache().get(DIGEST, "a70d0d0a") is None
    assert not entry.exists()


@pytest.mark.parametrize("damaged", [DATA[:-1], b"", DATA + b"!"])
def test_what_is_no_longer_what_it_was_is_not_used_and_goes(place, damaged):
    Cache().put(DATA)
    (place / DIGEST).write_bytes(damaged)
    assert Cache().get(DIGEST) is None
    assert not (place / DIGEST).exists()
    Cache().put(DATA)
    assert Cache().get(DIGEST) == DATA


def test_a_link_in_the_place_of_an_entry_is_not_followed(place, tmp_path):
    Cache().put(b"another")
    (tmp_path / "elsewhere").write_bytes(DATA)
    (place / DIGEST).symlink_to(tmp_path / "elsewhere")
    assert Cache().get(DIGEST) is None
    assert Cache().get(f"../../{DIGEST}") is None
    assert (tmp_path / "elsewhere").read_bytes() == DATA


def test_what_nobody_uses_goes_and_what_is_used_stays(place):
    old, half = b"old", place / "new-0123456789abcdef"
    Cache().put(DATA)
    Cache().put(old)
    half.write_bytes(b"half")
    (place / "README").write_text("somebody's own")
    before = time.time() - KEPT_S - 10
    for path in place.iterdir():
        os.utime(path, (before, before))
    assert Cache().get(DIGEST) == DATA
    assert Cache().get(hashlib.sha256(old).hexdigest(), used=False) == old
    Cache().tidy()
    assert sorted(path.name for path in place.iterdir()) == sorted([DIGEST, "README"])
    half.write_bytes(b"half, and perhaps still written")
    Cache().tidy()
    assert half.exists()
    assert Cache().clear() == [len(DATA)]
    assert [path.name for path in place.iterdir()] == ["README"]


def other_writer(place):
    place.chmod(0o770)


def other_owner(place):
    os.chown(place, 12345, 12345)


def link(place):
    place.rename(place.with_name("real"))
    place.symlink_to("real")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (other_writer, "others may write to it"),
        pytest.param(
            other_owner, "it belongs to another user", marks=pytest.mark.skipif(os.geteuid() != 0, reason="not root")
        ),
        (link, "it is a link or a file"),
    ],
)
def test_a_cache_of_others_is_not_used_and_that_is_told(place, spoil, why):
    Cache().put(DATA)
    spoil(place)
    cache = Cache()
    assert cache.note == f"the cache {place} is not used: {why}; remove it"
    assert cache.get(DIGEST) is None
    cache.put(b"more")
    assert cache.clear() == []
    assert [path.name for path in place.iterdir()] == [DIGEST]


@pytest.mark.parametrize("spoil", ["no place", "a file in its place", "cannot be written"])
def test_where_nothing_can_be_kept_nothing_is_said(place, monkeypatch, spoil):
    if spoil == "no place":
        monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere/at/all")
        monkeypatch.setenv("HOME", "/nowhere")
        monkeypatch.setattr(module, "pwd", type("Pwd", (), {"getpwuid": staticmethod(nobody)}))
    elif spoil == "a file in its place":
        place.parent.write_text("in the way")
    else:
        monkeypatch.setattr(os, "open", refuse)
    cache = Cache()
    cache.put(DATA)
    cache.tidy()
    cache.clear()
    assert (cache.get(DIGEST), cache.entries(), cache.note) == (None, {}, "")
    assert bool(cache.folder) == (spoil != "no place")


def nobody(_uid):
    raise KeyError


def refuse(*_, **__):
    raise OSError(30, "Read-only file system")


def test_no_room_leaves_nothing(place, monkeypatch):
    Cache().put(DATA)

    class Full:
        def __init__(self, descriptor, _mode):
            os.close(descriptor)

        def __enter__(self):
            raise OSError(28, "No space left on device")

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "fdopen", Full)
    Cache().put(b"more")
    assert [path.name for path in place.iterdir()] == [DIGEST]


def test_a_home_of_another_user_is_not_this_users(tmp_path, monkeypatch):
    """As under sudo, which leaves `$HOME` unchanged."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/usr" if os.geteuid() else str(tmp_path))
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, 12345)
    assert Cache().folder != f"{os.environ['HOME']}/.cache/{NAME}"


def test_writers_at_once_that_are_killed_leave_nothing_half(place):
    digests = [hashlib.sha256(bytes([number]) * 2_000_000).hexdigest() for number in range(3)]
    place.mkdir(mode=0o700, parents=True)  # or they may be killed before one has created it
    for _ in range(5):
        argv = [sys.executable, "-I", "-S", "-c", WRITER, module.__file__]
        writers = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for each in writers:
                assert each.stdout
                each.stdout.readline()
            time.sleep(0.02)
        finally:
            for each in writers:
                each.send_signal(signal.SIGKILL)
                each.communicate()
        for path in place.iterdir():
            if not path.name.startswith("new-"):
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        assert {path.name for path in place.iterdir() if not path.name.startswith("new-")} <= set(digests)
    Cache().put(DATA)
    assert Cache().get(DIGEST) == DATA
