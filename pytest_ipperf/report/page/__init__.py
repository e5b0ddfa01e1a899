"""Write a session's summary as one HTML file that loads nothing and runs nothing."""

from __future__ import annotations

from pathlib import Path

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.page.document import page
from pytest_ipperf.report.page.html.markup import anchor

__all__ = ["anchor", "encoded", "page", "write"]


def write(summary: SessionSummary, path: Path) -> None:
    """Write the page atomically; raise OSError if it cannot be written."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(encoded(page(summary)))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def encoded(text: str) -> bytes:
    """Encode as UTF-8; lone surrogates, which Python makes of undecodable arguments, become `?`."""
    return text.encode("utf-8", "replace")
