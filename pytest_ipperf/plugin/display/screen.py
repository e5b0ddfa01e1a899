"""Write progress to the terminal while something is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

EVERY_S = 30.0
"""Seconds between two lines on the progress of a long workload where there is no terminal."""
_ROOM = 3  # lines left to pytest's own output


class Screen:
    """Progress on the terminal while an item is set up; silent in a worker of xdist and under -q."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._silent = self._reporter is None or config.get_verbosity() < 0
        self._status = False
        self._written_s = time.monotonic()

    def status(self, text: str) -> None:
        """Show a line that the next one replaces; in a log file, one for every `EVERY_S` seconds stays."""
        if self._silent:
            return
        if not self._reporter.isatty:
            if time.monotonic() - self._written_s >= EVERY_S:
                self.line(text)
            return
        width = self._reporter._tw.fullwidth  # noqa: SLF001 - pytest has no public way to the width
        self._show(lambda: self._reporter.rewrite(text[: width - 1], erase=True))
        self._status = True

    def keep_up(self, lines: Sequence[str]) -> None:
        """Write the lines if there is no terminal and nothing has been written for `EVERY_S` seconds."""
        if not self._silent and not self._reporter.isatty and time.monotonic() - self._written_s >= EVERY_S:
            for line in lines:
                self.line(line)

    def line(self, text: str) -> None:
        """Write a permanent line."""
        self._written_s = time.monotonic()
        if not self._silent:
            self._show(lambda: self._write_line(text))

    def _write_line(self, text: str) -> None:
        replaced, self._status = self._status, False
        if replaced:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
        if self._reporter.verbosity > 0:
            self._reporter.write_line(text)  # pytest then repeats the item's name before its outcome
            return
        # Without -v pytest would repeat the name of the test file for each item.
        writer = self._reporter._tw  # noqa: SLF001 - pytest's public API would repeat the file's name
        if writer.width_of_current_line and not replaced:
            writer.line()
        writer.line(text)

    def _show(self, write: Callable[[], None]) -> None:
        with self._capture.global_and_fixture_disabled() if self._capture else contextlib.nullcontext():
            write()
            self._reporter.flush()  # so that the line appears at once in a log file too


class StatusLines:
    """Replaceable lines below the one on which pytest writes, one for each worker.

    Call `clear` before writing anything else. Nothing is shown without a terminal.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        # Written past pytest's own writer, which must not count temporary lines as written.
        self._file: Any = None
        if (
            self._reporter
            and self._reporter.isatty
            and config.get_verbosity() >= 0
            and os.environ.get("TERM") != "dumb"
        ):
            self._file = self._reporter._tw._file  # noqa: SLF001 - pytest has no public API for it
        self._shown: list[str] = []

    def show(self, lines: Sequence[str]) -> None:
        """Replace the lines that are shown by as many of these as fit."""
        if self._file is None or list(lines) == self._shown:
            return
        self.clear()
        width, height = shutil.get_terminal_size()
        encoding = self._file.encoding or "ascii"  # which pytest's own writer would handle
        writable = [line.encode(encoding, "replace").decode(encoding) for line in lines]
        fitting = [line[: width - 1] for line in writable][: max(1, height - _ROOM)]
        if not fitting:
            return
        # The cursor goes back to where pytest left it.
        column = self._reporter._tw.width_of_current_line  # noqa: SLF001 - pytest has no public API for it
        back = f"\x1b[{len(fitting)}A\r" + (f"\x1b[{column}C" if column else "")
        self._file.write("".join(f"\n\r{line}\x1b[K" for line in fitting) + back)
        self._file.flush()
        self._shown = list(lines)

    def clear(self) -> None:
        """Remove the lines from the screen."""
        if self._shown:
            self._file.write("\x1b[J")
            self._file.flush()
            self._shown = []
