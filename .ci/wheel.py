"""Hooks of hatchling: what the wheel holds beside the package, and its long description.

`pytest-ipperf init` and `pytest-ipperf docs` need the suites, the inventory and the pages where there is no checkout.
They stay where they are in the repository, and only the wheel has them inside the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

STARTER = "pytest_ipperf/starter"
SHIPPED = ("suites/**/*.py", "docs/*.md", "docs/howto/*.md", "hosts.ini")

# A link to a page of the repository leads nowhere on a package index.
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)([^)#]*)(?:#[^)]*)?\)")


def long_description(readme: str) -> str:
    """Return the README with the name of each linked page in place of a link that only the repository can follow."""
    return _LINK.sub(_named, readme)


def _named(link: re.Match[str]) -> str:
    text, page = link[1], link[2]
    if page in text:
        return text
    return f"{text}, {page}" if link.string[link.start() - 1] == "(" else f"{text} ({page})"


class Description(MetadataHookInterface):
    """Sets the field `readme`, which pyproject.toml therefore names as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Change the project's metadata in place."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": long_description(text)}


class Starter(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is hatchling's own configuration
    """Adds what `SHIPPED` names to a wheel; an editable installation reads the checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change `build_data` in place."""
        if version == "editable":
            return
        root = Path(self.root)
        for path in sorted(each for pattern in SHIPPED for each in root.glob(pattern)):
            inside = path.relative_to(root).as_posix()
            build_data["force_include"][inside] = f"{STARTER}/{inside}"
