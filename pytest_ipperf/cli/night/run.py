"""Run pytest in a process of its own, which ends when the night does, however that ends."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.portable.errors import LabError

_FAILED = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Of these there is one for both sessions, it is for the first alone, or it would leave out what was flagged.
_FOR_ONE = ("--junitxml", "--junit-xml", "--ipperf-resume", "--ipperf-seed", "--maxfail")
_SWITCHES = {
    "--clean-alluredir", "-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--sw-reset", "--stepwise-reset",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PytestResult:
    """How a session of pytest ended: its status and the folder of its records, None where it measured nothing.

    A negative status is that of the signal that killed it. `trouble` says that an answer could not be kept.
    """

    status: int
    session: Path | None
    records: Path | None
    trouble: str = ""


def run_pytest(arguments: Sequence[str]) -> PytestResult:
    """Run pytest to its end, with its output on ours; a signal that ends us interrupts it, and it ends regularly.

    LabError where it cannot be started, or has written half of how it ended, as on a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="ipperf-night-") as scratch:
        outcome = Path(scratch) / "outcome.json"
        argv = [sys.executable, "-m", "pytest", *arguments, f"--ipperf-outcome={outcome}"]
        status = _run_to_end([*_pdeathsig_prefix(), *argv])
        said = _outcome(outcome)
        if status == _FAILED and not said:  # Python's own, of a program that broke
            raise LabError("pytest ended with status 1 and did not say how, see above")
    session, records = said.get("session"), said.get("records")
    return PytestResult(
        status, Path(session) if session else None, Path(records) if records else None, said.get("trouble", "")
    )


def _outcome(outcome: Path) -> Mapping[str, Any]:
    """Return what pytest wrote about its end; empty where it was killed before."""
    try:
        found = json.loads(outcome.read_bytes()) if outcome.exists() else {}
    except (OSError, ValueError) as error:
        raise LabError(f"{outcome}, where pytest says how it ended, cannot be read ({error})") from None
    return dict(found)


def only_arguments(arguments: Sequence[str]) -> list[str]:
    """What both sessions are given, without what is meant for one report or one session alone."""
    kept, words = [], iter(arguments)
    for word in words:
        option, equals, _ = word.partition("=")
        if option in _FOR_ONE:
            if not equals:
                next(words, None)
        elif word not in _SWITCHES:
            kept.append(word)
    return kept


def _pdeathsig_prefix() -> list[str]:
    """Return the command prefix by which the kernel interrupts a child when this process dies."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


def _run_to_end(argv: Sequence[str]) -> int:
    # A group of its own, so that a Ctrl-C reaches it once, from here, and not a second time while it clears up.
    process = subprocess.Popen(argv, process_group=0)
    with _forwarding_signals(process):
        return process.wait()


@contextlib.contextmanager
def _forwarding_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward signals that end this process as an interrupt, so that the child completes its records."""

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        process.send_signal(signal.SIGINT)

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        for each in _SIGNALS:
            if before[each] is not signal.SIG_IGN:
                signal.signal(each, interrupt)
        yield
    finally:
        for each in _SIGNALS:
            signal.signal(each, before[each])
