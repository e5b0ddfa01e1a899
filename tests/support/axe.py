"""Check an opened page with axe-core, which `.ci/axe/fetch` fetches: https://github.com/dequelabs/axe-core"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.chromium import Browser

SCRIPT = Path(__file__).parents[2] / ".ci" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LACKING = "no axe-core here (sh .ci/axe/fetch fetches it, if npm reaches a registry)"
MISSING = "" if SCRIPT.exists() else LACKING
"""Why pages cannot be checked; empty if they can."""
_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""Rules that can tell something else of the same page in other colours."""


def violations(browser: Browser, *, colours_only: bool = False) -> list[str]:
    """Return a line for each rule that the page in the browser violates, with the first element that does.

    All rules of axe-core are checked, those of best practice too; with `colours_only` those of colours alone.
    """
    browser.evaluate(f"{SCRIPT.read_text(encoding='utf-8')}; undefined")
    options = json.dumps((_COLOURS if colours_only else {}) | {"resultTypes": ["violations"], "preload": False})
    found = browser.evaluate(
        f"axe.run(document, {options}).then(found => found.violations.map(each =>"
        " `${each.id} (${each.nodes.length}): ${each.nodes[0].html.slice(0, 200)} ${each.nodes[0].failureSummary}`))"
    )
    assert isinstance(found, list)
    return found
