"""The page: a session as one HTML file that loads nothing and runs nothing, made of its story alone."""

from __future__ import annotations

from pathlib import Path

from pytest_ipperf.core.story import Story
from pytest_ipperf.report.page.anchors import anchor
from pytest_ipperf.report.page.document import page

__all__ = ["anchor", "page", "write"]


def write(story: Story, path: Path) -> None:
    """Writes the page; raises OSError where that cannot be."""
    path.write_text(page(story), encoding="utf-8")
