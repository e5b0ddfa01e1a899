"""Find the files shipped with the package: suites, inventory, pages of documentation and the CI recipes in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest_ipperf
from pytest_ipperf.core.portable.errors import UsageError

_PACKAGE = Path(pytest_ipperf.__file__).parent
# A recipe on the CI page: its file name begins a paragraph, and its text is the next fenced block.
_RECIPE = re.compile(r"^`([\w./-]+)`(?:(?!^```).)*^```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _folder() -> Path:
    """Return the folder with `suites`, `docs` and `hosts.ini`: in the package (wheel), or beside it (checkout)."""
    for folder in (_PACKAGE / "starter", _PACKAGE.parent):
        if (folder / "suites").is_dir() and (folder / "docs" / "ci.md").is_file():
            return folder
    raise UsageError(f"there are no suites and pages in {_PACKAGE} or beside it; install pytest-ipperf from its wheel")


def suites() -> dict[str, str]:
    """Return the text of each module of the suites, by its path."""
    folder = _folder()
    found = sorted((folder / "suites").rglob("*.py"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}


def hosts() -> str:
    """Return the text of the commented inventory."""
    return (_folder() / "hosts.ini").read_text(encoding="utf-8")


def recipes() -> dict[str, str]:
    """Return the text of each file of the CI recipes, by its path in a repository."""
    return dict(_RECIPE.findall(page("ci")))


def pages() -> list[str]:
    """Return the names of the documentation's pages, without `.md`."""
    docs = _folder() / "docs"
    found = [*docs.glob("*.md"), *docs.glob("howto/*.md")]
    return sorted(path.relative_to(docs).with_suffix("").as_posix() for path in found)


def page(name: str) -> str:
    """Return a page of the documentation, in Markdown; raise UsageError if it does not exist."""
    found = name.removeprefix("docs/").removesuffix(".md")
    if found not in pages():
        raise UsageError(f"page {name!r} does not exist; there are {', '.join(pages())}")
    return (_folder() / "docs" / f"{found}.md").read_text(encoding="utf-8")
