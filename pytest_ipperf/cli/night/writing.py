"""Writing: what a night leaves, each file whole or not at all, and the verdict last, as it is what makes it a night."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.cli.night.deciding import Decided
from pytest_ipperf.core.errors import LabError
from pytest_ipperf.report.documents import night_document
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import VERDICT

_FILES: Mapping[str, str] = {"report.html": "html", "summary.md": "markdown", "junit.xml": "junit"}


def write_night(folder: Path, decided: Decided, facts: Mapping[str, Any]) -> list[Path]:
    """Writes a night's reports and its verdict, with further `facts`; LabError where that cannot be written."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, form in _FILES.items():
            written.append(_whole(folder / name, FORMATS[form].render(decided.story)))
        written.append(write_verdict(folder, decided, facts))
    except OSError as error:
        raise LabError(f"night: {folder} cannot be written ({error.strerror}); the records are kept") from error
    return written


def write_verdict(folder: Path, decided: Decided, facts: Mapping[str, Any]) -> Path:
    """What later nights read of this one; raises OSError where that cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**night_document(decided.report, **_of(decided)), **facts}
    return _whole(folder / VERDICT, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")


def copy_night(written: list[Path], target: Path) -> None:
    """Copies a night's files to where a job looks for them; LabError where that cannot be written."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in written:
            shutil.copyfile(path, target / path.name)
    except OSError as error:
        raise LabError(f"--ipperf-output: {target} cannot be written ({error.strerror})") from error


def _of(decided: Decided) -> dict[str, Any]:
    story, fresh = decided.story, decided.fresh
    seconds = None if story.seconds is None else story.seconds + ((fresh.seconds or 0) if fresh else 0)
    return {"session": story.name, "saved": story.saved, "began_at": story.began_at, "seconds": seconds}


def _whole(path: Path, data: bytes) -> Path:
    """Beside it first, so that nobody reads half of it."""
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path
