"""Name the anchors by which other pages and formats link to a cell of this page."""

from __future__ import annotations

import re

from pytest_ipperf.core.records.history_entry import HistoryKey


def anchor(key: HistoryKey) -> str:
    """The name of a cell's row within the page, without the sign `#`: `cell-lab-smtp-c10-1k-ipv6-response_time`.

    No two cells share one: what may not stand in a link is there by its number.
    """
    return "cell-" + re.sub(r"[^A-Za-z0-9._-]", lambda found: f"~{ord(found[0]):x}~", f"{key.cell}-{key.metric}")
