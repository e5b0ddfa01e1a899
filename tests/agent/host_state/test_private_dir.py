"""Private folders: made, locked, removed, and removed once stale."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import populate, private_folder, remove_stale
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import Entry

ROOT = Path(__file__).parents[3]
DIES = """
import os
from pytest_ipperf.agent.host_state.private_dir import private_folder
with private_folder() as folder:
    (folder / "data").mkdir()
    (folder / "data" / "file").write_text("x")
    os._exit(9)
"""


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def _age(folder, seconds):
    then = time.time() - seconds
    os.utime(folder / ".lock", (then, then))


def _left_behind(tmp_path):
    before = set(tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", DIES], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 9
    (folder,) = set(tmp_path.iterdir()) - before
    return folder


def test_is_there_for_everyone_to_enter_and_then_gone(tmp_path):
    with private_folder() as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("ipperf-")
        assert folder.stat().st_mode & 0o777 == 0o755
        (folder / "data").mkdir(mode=0o700)
        (folder / "data" / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_is_gone_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), private_folder():
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_is_held_until_it_is_gone(tmp_path, monkeypatch):
    """Otherwise a concurrent removal would make its owner fail."""
    removed_stale = []
    removed = shutil.rmtree

    def slowly(path, **settings):
        _age(path.parent, 60)
        removed_stale.append(remove_stale())
        removed(path, **settings)

    with private_folder() as folder:
        (folder / "data").mkdir()
        monkeypatch.setattr(shutil, "rmtree", slowly)
    assert removed_stale == [0]
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_hold_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    expected = f"no private folder below {tmp_path}/nowhere: No such file or directory; set TMPDIR to a writable one"
    with pytest.raises(LabError) as caught, private_folder():
        pass
    assert str(caught.value) == expected


def test_remove_stale_removes_what_a_dead_owner_left(tmp_path):
    _age(_left_behind(tmp_path), 60)
    _age(_left_behind(tmp_path), 60)
    assert remove_stale() == 2
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from pytest_ipperf.agent.host_state.private_dir import private_folder, remove_stale
steps = [int(sys.argv[1])]
def counted(step):
    def taken(*arguments, **keywords):
        steps[0] -= 1
        if steps[0] < 0:
            os._exit(9)
        step(*arguments, **keywords)
    return taken
def kill():
    os.unlink, os.rmdir = counted(os.unlink), counted(os.rmdir)
if sys.argv[2] == "remover":
    kill()
    remove_stale()
else:
    with private_folder() as folder:
        (folder / "file").touch()
        for name in ("a", "b"):
            (folder / name / "deep").mkdir(parents=True)
            (folder / name / "deep" / "file").touch()
        if sys.argv[2] == "leave":
            os._exit(9)
        kill()
"""


@pytest.mark.parametrize("who", ["owner", "remover"])
def test_whoever_is_killed_in_the_midst_of_a_removal_leaves_nothing_for_ever(tmp_path, me, who):
    """An owner and a remover are killed after each of their steps."""
    for steps in range(20):
        if who == "remover":
            assert (
                subprocess.run(
                    me.argv(KILLED, "0", "leave"), env={**me.env, "TMPDIR": str(tmp_path)}, check=False
                ).returncode
                == 9
            )
            _age(next(tmp_path.iterdir()), 60)
        status = subprocess.run(me.argv(KILLED, str(steps), who), env={**me.env, "TMPDIR": str(tmp_path)}, check=False)
        if not status.returncode:
            break
        (folder,) = tmp_path.iterdir()
        _age(folder, 60) if (folder / ".lock").exists() else os.utime(folder, (0, 0))
        assert remove_stale() == 1, sorted(folder.rglob("*"))
    assert steps >= 6
    assert list(tmp_path.iterdir()) == []


def test_remove_stale_removes_what_was_made_by_one_who_was_killed_before_he_locked_it(tmp_path):
    for name in ("ipperf-0abc_xyz", "ipperf-night-0abc_xyz", "ipperf-0abc_full", "ipperf-0abc_new"):
        (tmp_path / name).mkdir()
    (tmp_path / "ipperf-0abc_full" / "theirs").touch()
    for path in tmp_path.iterdir():
        if path.name != "ipperf-0abc_new":
            os.utime(path, (0, 0))
    assert remove_stale() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ipperf-0abc_full", "ipperf-0abc_new", "ipperf-night-0abc_xyz",
    ]  # fmt: skip


def test_a_sweep_that_is_broken_off_holds_nothing(tmp_path, monkeypatch):
    def breaks_off(*_):
        raise KeyboardInterrupt

    _age(_left_behind(tmp_path), 60)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(shutil, "rmtree", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            remove_stale()
    assert remove_stale() == 1


def test_sweep_leaves_what_is_young(tmp_path):
    folder = _left_behind(tmp_path)
    assert remove_stale() == 0
    assert folder.exists()


def test_sweep_leaves_what_is_held():
    with private_folder() as folder:
        _age(folder, 60)
        assert remove_stale() == 0
        assert folder.exists()


def test_sweep_leaves_what_is_not_its_own(tmp_path):
    (tmp_path / "ipperf-lab-other").mkdir()
    (tmp_path / "ipperf-file").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".lock").touch()
    _age(elsewhere, 60)
    (tmp_path / "ipperf-link").symlink_to(elsewhere)
    before = set(tmp_path.iterdir())
    assert remove_stale() == 0
    assert set(tmp_path.iterdir()) == before


def test_lays_out_over_an_earlier_start(tmp_path):
    folder = tmp_path / "site"
    entries = [Entry("etc"), Entry("etc/main.cf", b"new", 0o640), Entry("data", mode=0o700)]
    populate(str(folder), entries)
    (folder / "data" / "kept").touch()
    (folder / "etc" / "main.cf").write_text("old")
    populate(str(folder), entries)
    assert (folder / "data" / "kept").exists()
    assert (folder / "etc" / "main.cf").read_text() == "new"
    assert [(folder / path).stat().st_mode & 0o777 for path in (".", "etc/main.cf", "data")] == [0o755, 0o640, 0o700]
    for path in ("etc/main.cf", "etc", "."):
        assert time.time() - (folder / path).stat().st_mtime > 30


def test_a_secret_is_nobodys_to_read_at_any_moment(tmp_path, monkeypatch):
    """Neither under the mode of an earlier start, nor through a link."""
    modes = []
    chmod = Path.chmod

    def seen(path, mode):
        modes.append((path.name, path.stat().st_mode & 0o777))
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", seen)
    folder, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    entries = [Entry("private", mode=0o700), Entry("private/key", b"secret", 0o600), Entry("page", b"for all", 0o644)]
    before = os.umask(0)
    try:
        populate(str(folder), entries)
        chmod(folder / "private/key", 0o666)
        (folder / "page").unlink()
        (folder / "page").symlink_to(elsewhere)
        populate(str(folder), entries)
    finally:
        os.umask(before)
    assert [mode for name, mode in modes if name == "key"] == [0o600, 0o600]
    assert modes[2] == ("private", 0o700)
    assert elsewhere.read_text() == "kept"
    assert [(folder / path).read_bytes() for path in ("private/key", "page")] == [b"secret", b"for all"]
    assert [(folder / path).stat().st_mode & 0o777 for path in ("private/key", "page")] == [0o600, 0o644]


@pytest.mark.parametrize(
    ("entry", "words"),
    [(Entry("x", b"", owner="no-such-user"), "no-such-user"), (Entry("no/parent", b""), "No such file or directory")],
)
def test_what_cannot_be_laid_out_is_named(tmp_path, entry, words):
    with pytest.raises(LabError, match=words) as caught:
        populate(str(tmp_path / "site"), [entry])
    assert str(caught.value).startswith(f"folder {tmp_path}/site cannot be populated: ")


# --- against other users of the host --------------------------------------------------------------------------------


def test_what_is_laid_out_is_nobody_else_s_until_all_of_it_is_there(tmp_path, monkeypatch):
    """An owner who could enter before could make the agent write, or give away, files outside the folder."""
    given = []

    def chown(path, owner, group, *, follow_symlinks):
        given.append((Path(path).name, sorted(each.name for each in (tmp_path / "site").rglob("*")), follow_symlinks))

    monkeypatch.setattr(os, "chown", chown)
    me = pwd.getpwuid(os.geteuid()).pw_name
    populate(str(tmp_path / "site"), [
        Entry("mail", None, 0o700, me), Entry("mail/cur", None, 0o700, me), Entry("mail/cur/one", b"x", 0o600, me),
    ])  # fmt: skip
    everything = ["cur", "mail", "one"]
    assert given == [("one", everything, False), ("cur", everything, False), ("mail", everything, False)]


@pytest.mark.skipif(os.geteuid() != 0, reason="what is given away is root's")
def test_an_owner_who_puts_links_into_his_folder_gets_nothing_by_them(tmp_path, monkeypatch):
    """Even the fastest owner, who does it at the moment the folder becomes his."""
    prize = tmp_path / "prize"
    prize.mkdir()
    tmp_path.chmod(0o711)
    chown = os.chown

    def robbed(path, *arguments, **keywords):
        chown(path, *arguments, **keywords)
        monkeypatch.chdir(tmp_path)
        os.seteuid(65534)
        try:
            with contextlib.suppress(OSError):
                os.symlink("../../prize", "site/mail/cur")  # noqa: PTH211 - by a path that this user may go
        finally:
            os.seteuid(0)

    monkeypatch.setattr(os, "chown", robbed)
    populate(str(tmp_path / "site"), [
        Entry("mail", None, 0o700, "nobody"), Entry("mail/cur", None, 0o700, "nobody"),
        Entry("mail/cur/one", b"mail", 0o600, "nobody"),
    ])  # fmt: skip
    assert list(prize.iterdir()) == []
    assert prize.stat().st_uid == 0
    assert (tmp_path / "site" / "mail" / "cur" / "one").stat().st_uid == 65534


def test_links_that_lie_below_tmpdir_are_followed_by_nobody(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / ".lock").touch()
    _age(target, 100)
    (tmp_path / "ipperf-planted").symlink_to(target)
    (tmp_path / "ipperf-other").mkdir()
    (tmp_path / "ipperf-other" / ".lock").symlink_to(target / ".lock")
    assert remove_stale() == 0
    assert (target / ".lock").exists()
    with private_folder() as folder:
        assert not folder.is_symlink()
        assert (folder / ".lock").stat().st_mode & 0o777 == 0o600
