"""HTML: the page of a session, one file that loads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.page import encoded, page


@dataclass(frozen=True, kw_only=True)
class Html(Report):
    """Page of a session, and of the night that it screened."""

    name: str = "html"
    title: str = "HTML page"
    suffix: str = ".html"

    def render(self, summary: SessionSummary) -> bytes:
        return encoded(page(summary))


report = Html()
