"""Write progress to the terminal while something is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest

_ROOM = 3  # lines that are left to what pytest writes


class Screen:
    """What a person sees while an item is set up; a worker of xdist has none, and -q wants none."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._silent = self._reporter is None or config.get_verbosity() < 0
        self._status = False

    def status(self, text: str) -> None:
        """A line that the next one replaces; only where a terminal can do that."""
        if not self._silent and self._reporter.isatty:
            width = self._reporter._tw.fullwidth  # noqa: SLF001 - pytest has no public way to the width
            self._show(lambda: self._reporter.rewrite(text[: width - 1], erase=True))
            self._status = True

    def line(self, text: str) -> None:
        """A line that stays."""
        if not self._silent:
            self._show(lambda: self._write_line(text))

    def _write_line(self, text: str) -> None:
        replaced, self._status = self._status, False
        if replaced:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
        if self._reporter.verbosity > 0:
            self._reporter.write_line(text)  # after which pytest repeats the item's name before its outcome
            return
        # Without -v pytest would repeat the name of the test file for each item.
        writer = self._reporter._tw  # noqa: SLF001 - pytest has no public way round its memory of the file
        if writer.width_of_current_line and not replaced:
            writer.line()
        writer.line(text)

    def _show(self, write: Callable[[], None]) -> None:
        with self._capture.global_and_fixture_disabled() if self._capture else contextlib.nullcontext():
            write()
            self._reporter.flush()  # who follows a log file would read it with the outcome only


class StatusLines:
    """Lines below the one on which pytest writes, one for each worker, which the next ones replace.

    Whoever is about to write anything else has it cleared first. Nothing is shown where there is no terminal.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        # Written past pytest's own writer, as what does not stay must not count as written.
        self._file: Any = None
        if (
            self._reporter
            and self._reporter.isatty
            and config.get_verbosity() >= 0
            and os.environ.get("TERM") != "dumb"
        ):
            self._file = self._reporter._tw._file  # noqa: SLF001 - pytest has no public way to it
        self._shown: list[str] = []

    def show(self, lines: Sequence[str]) -> None:
        """These lines, as many as fit, and no others."""
        if self._file is None or list(lines) == self._shown:
            return
        self.clear()
        width, height = shutil.get_terminal_size()
        encoding = self._file.encoding or "ascii"  # of which pytest's own writer would take care
        writable = [line.encode(encoding, "replace").decode(encoding) for line in lines]
        fitting = [line[: width - 1] for line in writable][: max(1, height - _ROOM)]
        if not fitting:
            return
        # The cursor goes back to where pytest left it.
        column = self._reporter._tw.width_of_current_line  # noqa: SLF001 - pytest has no public way to it
        back = f"\x1b[{len(fitting)}A\r" + (f"\x1b[{column}C" if column else "")
        self._file.write("".join(f"\n\r{line}\x1b[K" for line in fitting) + back)
        self._file.flush()
        self._shown = list(lines)

    def clear(self) -> None:
        """Leaves the screen as if nothing had been shown."""
        if self._shown:
            self._file.write("\x1b[J")
            self._file.flush()
            self._shown = []
