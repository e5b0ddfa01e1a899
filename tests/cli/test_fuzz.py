"""Fuzz whole archives: whatever is damaged, there is no traceback, no wrong green result, and no hang.

The result is compared with the archive before the damage: a red session or night stays red, or reading it fails with a
message, or it is reported as broken off; a cell that is no longer measured is reported as missing; a resumed session
reuses only what was measured. Without checksums (before schema 7) a changed number may be another valid one, and
without ends (before schema 6) an event log that lacks whole lines may be another valid journal.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import signal
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pytest_ipperf import cli
from pytest_ipperf.cli.commands.night import _check
from pytest_ipperf.cli.night.decide import decide_night
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.nightly.report import GateStatus
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.plugin.session.resume import ResumedSession
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import SCHEMA, Archive, read_session
from tests.cli.archives import FRESH, GREEN, NEXT, PLAN, RED, RESUMED, STATE, WORKER, build, mutate
from tests.store.kept import name_of

SHORT, LONG = 40, 2400
HANGS_S = 120
"""Far longer than the slowest machine needs for one archive."""
LIGHT = ("csv", "json", "junit", "markdown")
UNSEALED = re.compile(r"^archive \d+: runs/\S+\.jsonl (zeros|not_utf8|cut)$")
"""Changes of an archive without checksums that are always detected if they are the only ones."""


@pytest.fixture(scope="module", params=[SCHEMA, 6, 5], ids=["sealed", "schema 6", "schema 5"])
def archive(tmp_path_factory, request):
    """Build an archive to copy, with the runs that were measured in it."""
    root = tmp_path_factory.mktemp("archive") / "whole"
    build(root, request.param)
    runs = {number: resumed(root, number) for number in (GREEN, WORKER)}
    assert all(runs.values())
    return SimpleNamespace(root=root, schema=request.param, sealed=request.param == SCHEMA, runs=runs)


def ask(*argv: object) -> tuple[int, str, str]:
    """Return the program's status and output; standard output is the bytes of a file."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(list(map(str, argv)))
    out.flush()
    said = err.getvalue()
    assert status in (0, 1, 4, 10), argv
    assert "Traceback" not in said
    assert all(len(line) < 1000 for line in said.splitlines()), said
    assert status != 4 or said.splitlines()[-1].startswith("pytest-ipperf: ")
    buffer: Any = out.buffer
    return status, buffer.getvalue().decode(), said


def resumed(root: Path, number: int) -> Any:
    """Return the runs that a session would reuse from that one; empty if it would measure them."""
    try:
        earlier = ResumedSession(read_session(root / "runs" / name_of(number), damage=[]))
    except IpperfError:
        return None
    settings: Any = SimpleNamespace(inventory=BUILTIN, reference=Arm(4, "native"), models={})
    earlier.select([PLAN], {PLAN.workload: {}}, settings)
    found = earlier.reuse(PLAN, STATE, 10.0)
    return found.runs if found else None


def is_red(root: Path, name: str) -> bool:
    """Return whether a session's JUnit file has a failure or error, or does not exist."""
    status, out, said = ask("export", name, "--format", "junit", "--records", root)
    if status:
        assert not out
        assert said
        return True
    suite = ET.fromstring(out).find("testsuite")
    assert suite is not None
    return int(suite.attrib["failures"]) + int(suite.attrib["errors"]) > 0


def wrong_greens(root: Path) -> Iterator[str]:
    """Yield each answer of a damaged archive that is better than the measured one."""
    _, out, _ = ask("list", "--records", root)
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    for number in (RED, WORKER):
        name = name_of(number)
        row = rows.get(name, "")
        broken = "broken off" in row
        if not ("exceeds" in row or "unreadable" in row or broken):
            yield f"list of {name}: {row!r}"
        if not is_red(root, name):
            yield f"JUnit of {name}"
        status, shown, _ = ask("show", name, "--records", root)
        if not (status or "EXCEEDS" in shown or " is damaged (" in shown or "BROKEN OFF" in shown):
            yield f"show of {name}"
        status, _, _ = ask("compare", name_of(GREEN), name, "--records", root)
        if status == 0 and not broken and "broken off" not in rows[name_of(GREEN)]:
            yield f"compare with {name}"


def next_night(root: Path) -> GateStatus | None:
    """Decide the night that lacks a cell; return None if it has no verdict."""
    try:
        _check(Namespace(saved="night", rest=[f"--ipperf-records={root}"], baseline="", output=""))
        with contextlib.closing(Archive(root)) as found:
            folder = root / "runs" / name_of(NEXT)
            return decide_night(found, folder, None, saved="night", baseline="night").report.gate_status
    except IpperfError:
        return None


@contextlib.contextmanager
def no_hang(seed: str) -> Iterator[None]:
    """Interrupt an endless read."""

    def over(number: int, frame: object) -> None:
        del number, frame
        pytest.fail(f"{seed} hangs")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read_all(archive: Any, root: Path, draw: random.Random, how: str) -> None:
    """Read an archive in every way, in one or two of the many formats."""
    greens = list(wrong_greens(root))
    gate_status = next_night(root)
    if archive.sealed or UNSEALED.search(how):
        assert greens == [], how
        assert gate_status is not GateStatus.GREEN, how
    for number, runs in archive.runs.items():
        found = resumed(root, number)
        if archive.sealed:
            assert found in (None, runs), how
    number = draw.choice((GREEN, 1, 2, RED, FRESH, WORKER, RESUMED, NEXT))
    form = draw.choice(LIGHT if draw.random() < 0.97 else list(FORMATS))
    ask("export", name_of(number), "--format", form, "--records", root)
    ask("show", draw.choice(("c2-", "last", "night", name_of(number))), "--records", root)
    ask("accept", "lab-http-c2-*", "--reason", "x", "--up-to", "95%", "--records", root)
    ask("accept", "--list", "--records", root)


def try_archives(archive: Any, tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(f"archive/{archive.schema}/{seed}")
        root = tmp_path / "copy"
        shutil.copytree(archive.root, root)
        how = f"archive {seed}: {mutate(root, draw)}"
        with no_hang(how):
            try:
                read_all(archive, root, draw, how)
            except Exception as error:
                error.add_note(how)
                raise
        shutil.rmtree(root)


def test_the_whole_archive_is_told_as_it_was_written(archive, tmp_path):
    """Otherwise the failures that the fuzz finds could have another cause."""
    root = tmp_path / "copy"
    shutil.copytree(archive.root, root)
    assert [number for number in (GREEN, RED, WORKER, RESUMED) if is_red(root, name_of(number))] == [RED, WORKER]
    assert list(wrong_greens(root)) == []
    assert next_night(root) is (None if archive.schema == 5 else GateStatus.SHRUNK)
    assert [ask("compare", name_of(GREEN), name_of(each), "--records", root)[0] for each in (1, RED)] == [0, 1]
    for number, runs in archive.runs.items():
        assert resumed(root, number) == runs


def test_no_damage_is_told_as_green_or_ends_in_a_traceback(archive, tmp_path):
    try_archives(archive, tmp_path, range(SHORT if archive.sealed else SHORT // 3))


@pytest.mark.evidence
def test_thousands_of_damaged_archives_are_not_told_as_green_nor_end_in_a_traceback(archive, tmp_path):
    began = time.monotonic()
    count = LONG if archive.sealed else LONG // 4
    try_archives(archive, tmp_path, range(SHORT, SHORT + count))
    print(f"{count} archives in {time.monotonic() - began:.0f} s")  # noqa: T201 - for who watches it
