"""Hooks of hatchling for the files that the wheel contains beside the package, and for its long description.

`pytest-ipperf init` and `pytest-ipperf docs` need the suites, the inventory and the pages without a checkout. In the
repository they have their own folders; only the wheel contains them inside the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

STARTER = "pytest_ipperf/starter"
SHIPPED = ("suites/**/*.py", "docs/*.md", "docs/howto/*.md", "hosts.ini")

# A relative link, which is broken on a package index.
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)([^)#]*)(?:#[^)]*)?\)")


def long_description(readme: str) -> str:
    """Return the README with each relative link replaced by its text and the name of the page."""
    return _LINK.sub(_named, readme)


def _named(link: re.Match[str]) -> str:
    text, page = link[1], link[2]
    if page in text:
        return text
    return f"{text}, {page}" if link.string[link.start() - 1] == "(" else f"{text} ({page})"


class Description(MetadataHookInterface):
    """Metadata hook that sets the field `readme`, which pyproject.toml lists as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` in the project's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": long_description(text)}


class Starter(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is hatchling's own configuration
    """Build hook that adds the files of `SHIPPED` to a wheel; an editable installation reads the checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to `build_data`."""
        if version == "editable":
            return
        root = Path(self.root)
        for path in sorted(each for pattern in SHIPPED for each in root.glob(pattern)):
            inside = path.relative_to(root).as_posix()
            build_data["force_include"][inside] = f"{STARTER}/{inside}"
