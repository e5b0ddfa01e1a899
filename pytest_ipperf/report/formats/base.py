"""Interface of a format's file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO

from pytest_ipperf.core.nightly.session_summary import SessionSummary


class Report(ABC):
    """A format: `title` is its usual name, `suffix` that of its files, with the dot."""

    name: str
    title: str
    suffix: str

    @abstractmethod
    def render(self, summary: SessionSummary) -> bytes:
        """Return the whole file. If the session screened a night, the night's decisions replace its verdicts.

        The same summary gives the same bytes: no clock is read, and no other file.
        """

    def write(self, summary: SessionSummary, file: BinaryIO) -> None:
        """Write the whole file; formats of millions of rows do so row by row, in little memory."""
        file.write(self.render(summary))
