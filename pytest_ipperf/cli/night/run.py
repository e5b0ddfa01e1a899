"""Run pytest in a process of its own, which ends with the night, however that ends."""

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
_FOLDERS = ("session", "records", "allure")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Options not passed to the second session: their file would be overwritten, they concern the first session alone, or
# they would leave out flagged items.
_FOR_ONE = ("--junitxml", "--junit-xml", "--ipperf-resume", "--ipperf-seed", "--maxfail")
_SWITCHES = {
    "--clean-alluredir", "-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--sw-reset", "--stepwise-reset",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PytestResult:
    """The end of a pytest session: its status and its folders, None if it measured nothing.

    A negative status is the signal that killed it. `trouble` is the message about an answer that could not be kept,
    `allure` the folder of its results for Allure, if any.
    """

    status: int
    session: Path | None
    records: Path | None
    trouble: str = ""
    allure: Path | None = None


def run_pytest(arguments: Sequence[str]) -> PytestResult:
    """Run pytest to its end, sharing our output; a signal that ends us interrupts it, so that it ends in order.

    Raise LabError if it cannot be started, or its outcome is missing or incomplete, as on a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="ipperf-night-") as scratch:
        outcome = Path(scratch) / "outcome.json"
        argv = [sys.executable, "-m", "pytest", *arguments, f"--ipperf-outcome={outcome}"]
        status = _run_to_end([*_pdeathsig_prefix(), *argv])
        found = _outcome(outcome)
        if status == _FAILED and not found:  # the status of an uncaught exception
            raise LabError("pytest ended with status 1 and did not say how, see above")
    session, records, allure = (Path(found[name]) if found.get(name) else None for name in _FOLDERS)
    return PytestResult(status, session, records, found.get("trouble", ""), allure)


def _outcome(outcome: Path) -> Mapping[str, Any]:
    """Return the outcome that pytest wrote; empty if it was killed before."""
    try:
        found = json.loads(outcome.read_bytes()) if outcome.exists() else {}
    except (OSError, ValueError) as error:
        raise LabError(f"{outcome}, where pytest says how it ended, cannot be read ({error})") from None
    return dict(found)


def only_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments for both sessions, without those meant for one report or one session."""
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
    # A process group of its own, so that Ctrl-C reaches it once, from here, and not again while it cleans up.
    with _interruptible():
        process = subprocess.Popen(argv, process_group=0)
    with _forwarding_signals(process):
        return process.wait()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Start children with the default action of an interrupt, which a shell ignores for jobs in the background.

    They would inherit that, and could not be stopped. A handler is not inherited.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


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
