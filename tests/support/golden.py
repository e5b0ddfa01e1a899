"""Golden texts: a report, or the sentences of a test, compared whole with a file beside the tests.

`IPPERF_RENEW_GOLDEN=1 pytest tests/report tests/core -m unit` renews the files, and fails for each text that has
changed. Read what `git diff` shows before you commit it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

_HEAD = "=== "


def compare_file(path: Path, text: str) -> None:
    """Fail unless the file has this text; where renewing is asked for, write it first."""
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == expected:
        return
    if "IPPERF_RENEW_GOLDEN" in os.environ:
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was renewed; read its difference and run again without IPPERF_RENEW_GOLDEN")
    difference = "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "seen", "", "", 1))
    pytest.fail(f"{path} differs; IPPERF_RENEW_GOLDEN=1 renews it:\n{difference}", pytrace=False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that compares a text with this test's section of the golden file of its module."""
    path = request.path.with_suffix(".txt")
    module = request.node.getparent(pytest.Module)
    assert module

    def compare(text: str) -> None:
        known = _tests(module)
        sections = {name: each for name, each in _sections(path).items() if name in known}
        sections[request.node.name] = text.strip("\n")
        compare_file(path, "".join(f"{_HEAD}{name}\n{sections[name]}\n" for name in sorted(sections)))

    return compare


@cache
def _tests(module: pytest.Module) -> set[str]:
    """Return the names of all tests of a module with their parameters, of which perhaps only some were selected."""
    anew: pytest.Module = pytest.Module.from_parent(module.parent, path=module.path)
    return {item.name for item in anew.collect()}


def _sections(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = f"\n{text}".split(f"\n{_HEAD}")[1:]
    return {name: body.rstrip("\n") for name, _, body in (part.partition("\n") for part in parts)}
