"""Anchors by which other pages and formats link to a cell of this page."""

from __future__ import annotations

import re

from pytest_ipperf.core.records.history_entry import HistoryKey


def anchor(key: HistoryKey) -> str:
    """Return the id of a cell's row in the page: `cell-lab-smtp-c10-1k-ipv6-response_time`.

    It is unique: characters not allowed in a link are replaced by their code points.
    """
    return "cell-" + re.sub(r"[^A-Za-z0-9._-]", lambda found: f"~{ord(found[0]):x}~", f"{key.cell}-{key.metric}")
