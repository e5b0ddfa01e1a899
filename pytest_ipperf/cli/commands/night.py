"""The command `night`: screen all cells, measure flagged ones again, and decide on all by one exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.night.run import PytestResult, only_arguments, run_pytest
from pytest_ipperf.cli.output import give_up_output, warn, write_lines
from pytest_ipperf.cli.records_folder import FOLDER
from pytest_ipperf.core.design.design import CONFIRMATION, DESIGNS
from pytest_ipperf.core.portable.errors import IpperfError, UsageError
from pytest_ipperf.store import FRESH, LAST, Archive, acceptances

_NAME = "night"
_WITHOUT, _NOTHING = 3, 5
_STOPPED = {
    2: "pytest was interrupted, or a test file could not be collected, see above",
    _WITHOUT: "an internal error of pytest or of a plugin, see above",
    4: "wrong usage, see above",
    _NOTHING: "nothing was measured",
}
"""Statuses of pytest after which there is nothing to decide."""
_ENDED = (0, 1, 10)
"""Statuses of a session that ended in order, pytest's and ours."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ipperf-save", dest="saved", default=_NAME, metavar="NAME",
        help=f"name of this night's history; default {_NAME}. Another selection of tests needs another name",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", "--ipperf-baseline", default="", metavar="NAME",
        help=(
            "name of the nights to compare with; default: that of --ipperf-save. 'last' and the folder of a session "
            "are for information only, as in pytest"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--ipperf-output", dest="output", default="", metavar="FOLDER",
        help="copy verdict.json, report.html, summary.md and junit.xml to this folder, for a job to publish",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> int:
    """Run a night; after an error that prevents a verdict, the exit status is never one that stands for a verdict."""
    try:
        _check(args)
        return _night(args)
    except UsageError:
        raise
    except (IpperfError, OSError) as error:
        return _without(str(error))
    except Exception as error:  # noqa: BLE001 - Python's own exit status would be that of a red night
        warn(traceback.format_exc())
        return _without(f"{type(error).__name__}, a defect of pytest-ipperf, see above; the records are kept")


def _night(args: argparse.Namespace) -> int:
    twin = "--ipperf-twin=yes"
    named = [f"--ipperf-save={args.saved}", *([f"--ipperf-baseline={args.baseline}"] if args.baseline else [])]
    screening = run_pytest(["--ipperf-design=nightly", twin, *args.rest, *named, "--ipperf-exceeds=flag"])
    if screening.session is None or screening.records is None or screening.status not in _ENDED:
        return _stopped(screening)
    # Imported here, as it imports scipy, for which wrong usage need not wait.
    from pytest_ipperf.cli.night.finish import end_night, flagged_items, repeats_a_night  # noqa: PLC0415

    if repeats_a_night(screening.records, screening.session, args.saved):
        _print("no verdict: nothing was measured, as --ipperf-resume names a night that is complete; leave it out")
        return _NOTHING
    fresh = PytestResult(0, None, None)
    if found := flagged_items(screening.session):
        # The night writes its own junit.xml, and a file that the ini file names keeps the first session.
        level = f"--ipperf-level={found.level:.6g}"
        added = ["--junitxml=", level, f"--ipperf-save={args.saved}{FRESH}", "--ipperf-baseline="]
        # A design among the user's arguments applies to both sessions.
        fresh = _again([f"--ipperf-design={CONFIRMATION}", twin, *only_arguments(args.rest), *added], found.items)
        # After wrong usage, or if none of the items exists any more, the night is decided without fresh data.
        if fresh.status not in (*_ENDED, 4, _NOTHING):
            return _stopped(fresh)
    try:
        return end_night(
            screening.records,
            screening.session,
            fresh.session,
            saved=args.saved,
            baseline=_history(args.baseline) or args.saved,
            output=Path(args.output) if args.output else None,
            lost=screening.trouble or fresh.trouble,
            allure=fresh.allure or screening.allure,
        )
    except UsageError as error:  # of a file that has changed since it was checked
        return _without(str(error))


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError, before anything is measured, for anything that would prevent the verdict."""
    if not args.saved:
        raise UsageError("--ipperf-save: a night needs a name, under which its history is kept")
    designs, folders = (
        _values(args.rest, *options) for options in (("--design", "--ipperf-design"), ("--ipperf-records",))
    )
    if designs and designs[-1] in DESIGNS and DESIGNS[designs[-1]].looks > 1:
        raise UsageError(
            f"--design: {designs[-1]} takes {DESIGNS[designs[-1]].looks} looks, but the levels of a night are for one; "
            "use nightly"
        )
    root = Path(folders[-1] if folders else FOLDER)
    acceptances(root)  # raises UsageError for an invalid line
    with contextlib.closing(Archive(root)) as archive:
        last = archive.last_night(args.saved)  # raises DamageError for an unreadable verdict
        if last is not None and last.began_at > time.time():
            warn(
                f"night {last.name} began later than now, by the clock of the machine that measured it: this night is "
                "not compared with its cells; correct the clock, or remove that night and its sessions"
            )
        if (name := _history(args.baseline)) and name != args.saved and not archive.sessions(name):
            raise UsageError(f"--baseline: no session in {root} was saved as {name!r}")
        for note in archive.notes:
            warn(note)  # before hours of measuring
    if args.output:
        _check_writable(Path(args.output))


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--ipperf-output: {folder} cannot be made ({error.strerror})") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--ipperf-output: {folder} cannot be written")


def _values(arguments: Sequence[str], *options: str) -> list[str]:
    """Return the values of a pytest option under any of its names, written with `=` or as two words."""
    pairs = zip(arguments, [*arguments, ""][1:], strict=True)
    return [
        word.partition("=")[2] if "=" in word else after for word, after in pairs if word.partition("=")[0] in options
    ]


def _history(baseline: str) -> str:
    """Return the name of the nights to compare with; empty for a single session, which is for information only."""
    return "" if baseline == LAST or "/" in baseline else baseline


def _again(arguments: Sequence[str], items: Sequence[str]) -> PytestResult:
    """Run the second session, of the flagged items alone, in fresh epochs."""
    _print(f"{len(items)} flagged; measuring again in fresh epochs")
    with tempfile.NamedTemporaryFile("w", prefix="ipperf-", suffix=".txt", encoding="utf-8") as only:
        only.write("".join(f"{item}\n" for item in items))
        only.flush()
        return run_pytest([*arguments, "--ipperf-confirm=no", f"--ipperf-only={only.name}"])


def _stopped(ended: PytestResult) -> int:
    """Report a pytest that did not end in order or measured nothing; return the night's exit status."""
    if ended.status < 0:
        return _without(f"pytest was killed by signal {-ended.status}; --ipperf-resume=last continues from its records")
    if ended.status not in (*_ENDED, *_STOPPED):
        return _without(f"pytest ended with status {ended.status}, which is not one of pytest's, see above")
    status = ended.status if ended.status in _STOPPED else _NOTHING
    _print(f"no verdict: {_STOPPED[status]}")
    return status


def _without(why: str) -> int:
    _print(f"no verdict: {why}")
    return _WITHOUT


def _print(sentence: str) -> None:
    """Print at once, as pytest writes to the same output; an error does not change the exit status."""
    try:
        write_lines(["", f"pytest-ipperf night: {sentence}"])
    except OSError:
        give_up_output()  # or what its buffer has would be an error once more, whose status is that of a red night


command = Command(
    help="the gate of a night: measure everything, measure again what seems worse, and decide on all cells together",
    description=(
        "Runs pytest with design nightly and the reference's twin, measures the cells that exceed their margin again "
        "in fresh epochs of design confirmation, and decides on all cells together, also against earlier nights. Other "
        "arguments are passed to pytest; --design=NAME replaces both designs."
    ),
    epilog=(
        "Of pytest's arguments, --ipperf-records=FOLDER names the folder in which records are kept from night to "
        "night, and --ipperf-resume=last resumes a night that was broken off. Exit status: 0 green, 1 red, 10 nothing "
        "decided, 11 unstable, 12 cells are missing; 2 to 5 as pytest's, and 3 also if there is no verdict."
    ),
    arguments=_arguments,
    run=_run,
    forwards_unknown=True,
)
