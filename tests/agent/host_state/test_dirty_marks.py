"""Marks of hosts: who sees which, which are valid, and which notes still hold."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state import dirty_marks, state_dir
from pytest_ipperf.agent.host_state.private_dir import private_folder, remove_stale
from pytest_ipperf.agent.host_state.teardown import teardown
from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.core.portable.errors import LabError

ROOT = os.geteuid() == 0
SAID = "an earlier measurement has not restored it: "


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Replace /run and /tmp; users' folders are below the second."""
    monkeypatch.delenv("IPPERF_RUN", raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(state_dir, "ROOTS", str(tmp_path / "run"))
    monkeypatch.setattr(state_dir, "USERS", str(tmp_path / "tmp" / "pytest-ipperf-"))
    return tmp_path


def note(said="a is left", **what):
    return {"said": said, **what}


def written(folder, *notes, owner=None, name="left", start=None):
    """Write a mark as another user."""
    folder.mkdir(mode=0o711, exist_ok=True)
    lines = [start or state_dir.boot_id(), *map(json.dumps, notes)]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    if owner is not None:
        for path in (folder, folder / name):
            os.chown(path, owner, owner)
    return folder / name


def test_a_host_without_a_mark_has_none():
    assert dirty_marks.dirty_reason() == ""
    assert dirty_marks.all_marks() == []


AS_NOBODY = """
import json, os, sys
from pytest_ipperf.agent.host_state import state_dir
from pytest_ipperf.agent.host_state import dirty_marks
state_dir.ROOTS, state_dir.USERS = sys.argv[1] + "/run", sys.argv[1] + "/pytest-ipperf-"
dirty_marks.mark_leftovers([{"said": "mine is left"}])
print(json.dumps([dirty_marks.dirty_reason(), str(dirty_marks.all_marks()[-1].path), os.geteuid()]))
"""


def test_a_user_without_rights_marks_a_host_for_root_too(places, nobody, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="ipperf-m-") as made:
        Path(made).chmod(0o1777)
        argv = nobody.argv(AS_NOBODY, made)
        env = {name: value for name, value in nobody.env.items() if name != "IPPERF_RUN"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd="/")
        assert not done.returncode, done.stderr
        said, path, user = json.loads(done.stdout)
        assert said == f"{SAID}mine is left"
        assert path == f"{made}/{'run' if not user else f'pytest-ipperf-{user}'}/left"
        monkeypatch.setattr(state_dir, "USERS", f"{made}/pytest-ipperf-")
        assert dirty_marks.dirty_reason() == said + (f" (so says user {user})" if user != os.geteuid() else "")


def test_what_is_left_is_told_once_and_to_everyone(places):
    state_dir.user_dir().mkdir(mode=0o700)  # as an earlier version made it
    dirty_marks.mark_leftovers([note(), note("b is left")])
    dirty_marks.mark_leftovers([note()])
    assert dirty_marks.dirty_reason() == f"{SAID}a is left; b is left"
    (mark,) = dirty_marks.all_marks()
    assert mark.path == state_dir.user_dir() / "left"
    assert mark.path.stat().st_mode & 0o777 == 0o644
    assert mark.path.parent.stat().st_mode & 0o777 == 0o711


def slowly(descriptor, text):
    """Append like `append`, with time for others between finding the end and writing."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    time.sleep(0.01)
    os.pwrite(descriptor, text.encode(), end)


def test_agents_that_note_at_once_lose_nothing_of_each_other(monkeypatch):
    monkeypatch.setattr(dirty_marks, "append", slowly)
    state_dir.ensure_user_dir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: dirty_marks.mark_leftovers([note(f"{number} is left")]), range(8)))
    (mark,) = dirty_marks.all_marks()
    assert sorted(each["said"] for each in mark.notes) == [f"{number} is left" for number in range(8)]


def test_what_is_noted_while_another_forgets_an_earlier_start_stays(monkeypatch):
    path = written(state_dir.user_dir(), note("old"), start="another")
    remove = dirty_marks._remove_outdated

    def later(path):
        dirty_marks.mark_leftovers([note("new")])
        remove(path)

    monkeypatch.setattr(dirty_marks, "_remove_outdated", later)
    dirty_marks.dirty_reason()
    assert dirty_marks.dirty_reason() == f"{SAID}new"
    assert path.read_text().splitlines() == [state_dir.boot_id(), json.dumps(note("new"))]


def test_who_holds_the_folder_for_ever_is_not_waited_for(monkeypatch):
    state_dir.ensure_user_dir()
    monkeypatch.setattr(state_dir, "WAIT_S", 0.05)
    with state_dir.locked(state_dir.user_dir(), os.geteuid()), pytest.raises(LabError) as caught:
        dirty_marks.mark_leftovers([note()])
    left = f"{state_dir.user_dir()}/left"
    why = f"Resource temporarily unavailable: {left}; make room there, or remove what stands in its way"
    assert str(caught.value) == f"it is not restored (a is left), which cannot be noted: {why}"


def test_marks_of_the_network_can_be_left_out():
    dirty_marks.mark_dirty(["route x is missing"])
    dirty_marks.mark_leftovers([note()])
    assert dirty_marks.dirty_reason() == f"{SAID}a is left; route x is missing"
    assert dirty_marks.dirty_reason(networks=False) == f"{SAID}a is left"


def test_what_tells_of_an_earlier_start_is_removed(places):
    path = written(state_dir.user_dir(), note(), start="another")
    assert dirty_marks.dirty_reason() == ""
    assert not path.exists()


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_root_sees_the_marks_of_all_users_and_who_says_so(places):
    written(places / "tmp" / "pytest-ipperf-1234", note("c is left"), owner=1234)
    assert dirty_marks.dirty_reason() == f"{SAID}c is left (so says user 1234)"


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_a_user_sees_roots_mark_and_not_that_of_another(places, monkeypatch):
    written(places / "run", note())
    written(places / "tmp" / "pytest-ipperf-1234", note("c is left"), owner=1234)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert dirty_marks.dirty_reason() == f"{SAID}a is left (so says user 0)"


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_a_mark_that_is_not_its_owners_is_none(places):
    folder = places / "tmp" / "pytest-ipperf-1234"
    path = written(folder, note())  # root's, in the name of another
    assert dirty_marks.dirty_reason() == ""
    os.chown(folder, 1234, 1234)
    assert dirty_marks.dirty_reason() == ""  # the file is still root's
    os.chown(path, 1234, 1234)
    assert dirty_marks.dirty_reason()
    folder.chmod(0o777)
    assert dirty_marks.dirty_reason() == ""


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_a_link_in_place_of_a_mark_is_not_followed(places):
    secret = places / "secret"
    secret.write_text(f"{state_dir.boot_id()}\nsecret\n")
    folder = places / "tmp" / "pytest-ipperf-1234"
    folder.mkdir()
    (folder / "left").symlink_to(secret)
    os.chown(folder, 1234, 1234)
    assert dirty_marks.dirty_reason() == ""
    (places / "tmp" / "pytest-ipperf-1235").symlink_to(places)
    assert dirty_marks.dirty_reason() == ""


def test_a_folder_that_somebody_else_may_write_to_cannot_hold_a_mark(places):
    state_dir.user_dir().mkdir()
    state_dir.user_dir().chmod(0o777)
    with pytest.raises(LabError) as caught:
        dirty_marks.mark_leftovers([note()])
    why = f"{state_dir.user_dir()} is not this user's alone; make room there, or remove what stands in its way"
    assert str(caught.value) == f"it is not restored (a is left), which cannot be noted: {why}"


def test_a_network_that_cannot_be_marked_is_an_error_but_for_root_of_a_namespace(places, monkeypatch):
    state_dir.user_dir().symlink_to(places)
    monkeypatch.setattr(dirty_marks, "true_root", lambda: True)
    why = f"{state_dir.user_dir()} is not this user's alone"
    for _ in range(2):
        with pytest.raises(LabError) as caught:
            dirty_marks.mark_dirty(["route x is missing"])
        room = "make room there, or remove what stands in its way"
        assert str(caught.value) == f"it is not restored (route x is missing), which cannot be noted: {why}; {room}"
        monkeypatch.setattr(dirty_marks, "netns_suffix", lambda: None)
        why = "nothing identifies this network, which takes Linux 5.14"
    dirty_marks.mark_dirty([])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(dirty_marks, "true_root", lambda: False)
    dirty_marks.mark_dirty(["route x is missing"])


def test_what_anybody_wrote_is_shown_without_its_control_characters(places):
    written(state_dir.user_dir(), note("a\x1b[31m\nb", folder=7, process="x"))
    assert dirty_marks.all_marks()[0].notes == ({"said": "a?[31m?b"},)


def test_folders_and_processes_are_looked_for_and_the_rest_nobody_can_tell(places):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        ((process,), *_) = tree(running.pid)
        alive = note("p runs", process=[process.pid, process.started_ticks])
        other = note("q runs", process=[process.pid, process.started_ticks + 1])
        assert [dirty_marks.still_holds(each) for each in (alive, other)] == [True, False]
        running.communicate(b"\n")
    assert dirty_marks.still_holds(alive) is False
    assert dirty_marks.still_holds(note("f", folder=str(places))) is True
    assert dirty_marks.still_holds(note("f", folder=str(places / "none"))) is False
    assert dirty_marks.still_holds(note("r is missing")) is None


def test_a_mark_is_cleared_of_what_no_longer_holds_and_the_rest_when_asked(places):
    still = note("f is left", folder=str(places))
    dirty_marks.mark_leftovers([note("r is missing"), still, note("g is left", folder=str(places / "none"))])
    (mark,) = dirty_marks.all_marks()
    assert dirty_marks.clear_notes(mark, everything=False) == [note("r is missing"), still]
    (mark,) = dirty_marks.all_marks()
    assert dirty_marks.clear_notes(mark, everything=True) == [still]
    assert dirty_marks.dirty_reason() == f"{SAID}f is left"


CLEARS = """
import os, sys
from pytest_ipperf.agent.host_state import state_dir
from pytest_ipperf.agent.host_state import dirty_marks
state_dir.ROOTS, state_dir.USERS = sys.argv[1] + "/run", sys.argv[1] + "/tmp/pytest-ipperf-"
setattr(os, sys.argv[2], lambda *_, **__: os._exit(9))
dirty_marks.clear_notes(dirty_marks.all_marks()[0], everything=True)
"""


@pytest.mark.parametrize("step", ["write", "rename"])
def test_who_is_killed_while_he_clears_a_mark_takes_nothing_of_it_along(places, me, step):
    notes = [note("r is missing"), note("f is left", folder=str(places))]
    dirty_marks.mark_leftovers(notes)
    env = {name: value for name, value in me.env.items() if name != "IPPERF_RUN"}
    assert subprocess.run(me.argv(CLEARS, str(places), step), env=env, check=False).returncode == 9
    (mark,) = dirty_marks.all_marks()
    assert list(mark.notes) == notes
    assert dirty_marks.clear_notes(mark, everything=True) == notes[1:]
    assert dirty_marks.dirty_reason() == f"{SAID}f is left"
    assert sorted(path.name for path in state_dir.user_dir().iterdir()) == ["left"]


def test_what_is_noted_while_a_mark_is_cleared_stays(places):
    dirty_marks.mark_leftovers([note("r is missing")])
    (mark,) = dirty_marks.all_marks()
    dirty_marks.mark_leftovers([note("s is missing")])
    assert dirty_marks.clear_notes(mark, everything=True) == [note("s is missing")]
    assert dirty_marks.dirty_reason() == f"{SAID}s is missing"


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_root_clears_the_mark_of_another_only_when_asked_and_as_a_whole(places):
    folder, still = places / "tmp" / "pytest-ipperf-1234", places / "still"
    still.touch()
    path = written(folder, note("f", folder=str(still)), note("g", folder="/nowhere"), note("r"), owner=1234)
    (mark,) = dirty_marks.all_marks()
    for everything in (False, True):
        before = path.stat()
        assert dirty_marks.clear_notes(mark, everything=everything) == list(mark.notes)
        assert path.stat() == before
    still.unlink()
    assert dirty_marks.clear_notes(mark, everything=False) == list(mark.notes)
    assert path.exists()
    assert dirty_marks.clear_notes(mark, everything=True) == []
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not ROOT, reason="only root can make files of others")
def test_a_folder_that_its_user_exchanges_for_a_link_leads_root_nowhere(places):
    folder = places / "tmp" / "pytest-ipperf-1234"
    written(folder, note("r"), owner=1234)
    (mark,) = dirty_marks.all_marks()
    folder.rename(places / "elsewhere")
    for owner, why in ((0, "Not a directory"), (1235, "it is not the folder of user 1234 alone")):
        victim = written(places / f"victim{owner}", note("v"), owner=owner)
        if owner:
            folder.unlink()
            victim.parent.rename(folder)
            victim = folder / "left"
        else:
            folder.symlink_to(victim.parent)
        with pytest.raises(LabError) as caught:
            dirty_marks.clear_notes(mark, everything=True)
        said = f"the mark {mark.path} of user 1234 cannot be removed: {why}; have root or that user remove it"
        assert str(caught.value) == said
        assert victim.exists()


def test_all_that_fails_of_an_end_is_told_and_noted(places):
    done: list[str] = []

    def fails(error):
        try:
            Path("/nowhere").stat()
        except OSError as cause:
            raise error from cause

    stack = contextlib.ExitStack()
    stack.callback(done.append, "first")
    stack.callback(fails, LabError("y cannot be removed"))
    stack.callback(fails, ValueError("z"))
    stack.callback(fails, dirty_marks.LeftoverError("x cannot be killed", process=[1, 2]))
    try:
        sys.exit()
    except SystemExit:
        said = teardown(stack)
    assert said == ["x cannot be killed", "ValueError: z", "y cannot be removed"]
    assert done == ["first"]
    (mark,) = dirty_marks.all_marks()
    assert mark.notes == (note(said[0], process=[1, 2]), note(said[1]), note(said[2]))
    assert teardown(stack) == []


@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_private_folder_with_a_mount_in_it_stays_and_is_told(places, monkeypatch):
    """All else in it is removed, and `remove_stale` tries again."""
    monkeypatch.setenv("TMPDIR", str(places))
    stack = contextlib.ExitStack()
    folder = stack.enter_context(private_folder())
    (folder / "mailboxes").mkdir()
    (folder / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder / "mounted")], check=True)
    try:
        (said,) = teardown(stack)
        assert said == f"private folder {folder} cannot be removed: Device or resource busy: mounted"
        assert sorted(path.name for path in folder.iterdir()) == [".lock", "mounted"]
        assert dirty_marks.still_holds(dirty_marks.all_marks()[0].notes[0])
    finally:
        subprocess.run(["umount", str(folder / "mounted")], check=True)
    then = time.time() - 60
    os.utime(folder / ".lock", (then, then))
    assert remove_stale() == 1
    assert dirty_marks.clear_notes(dirty_marks.all_marks()[0], everything=False) == []
    assert not Path(folder).exists()
