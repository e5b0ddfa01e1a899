"""Define what the file of a format offers: how a session is written in it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytest_ipperf.core.nightly.session_summary import SessionSummary


class Report(ABC):
    """`title` is the format as people know it, `suffix` that of its files, with the dot."""

    name: str
    title: str
    suffix: str

    @abstractmethod
    def render(self, summary: SessionSummary) -> bytes:
        """The whole file. Where the session was the screening of a night, what the night ruled stands for its answers.

        The same summary gives the same bytes: no clock is read, and nothing is loaded.
        """
