"""Write the files of a night, each atomically, the verdict first."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.cli.night.decide import NightDecision
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.report.data.json_document import night_document
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import VERDICT, verdict_with_checksum, write_atomically

_FILES: Mapping[str, str] = {"report.html": "html", "summary.md": "markdown", "junit.xml": "junit"}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of a night, and the errors about those that could not be written."""

    files: Sequence[Path]
    troubles: Sequence[str]


def write_night(folder: Path, decided: NightDecision, facts: Mapping[str, Any]) -> WrittenFiles:
    """Write a night's verdict, with further `facts`, and its reports; raise LabError if it cannot write the verdict."""
    try:
        files = [write_verdict(folder, decided, facts)]
    except OSError as error:
        raise LabError(f"night: {folder} cannot be written ({error.strerror}); the records are kept") from error
    troubles = []
    for name, form in _FILES.items():
        try:
            files.append(write_atomically(folder / name, FORMATS[form].render(decided.summary)))
        except OSError as error:
            troubles.append(f"{name}: {folder / name} cannot be written ({error.strerror})")
        except Exception as error:  # noqa: BLE001 - a defect of a report must not cost the decision
            troubles.append(f"{name}: {type(error).__name__}: {error}; the verdict and the records are complete")
    return WrittenFiles(files, troubles)


def write_verdict(folder: Path, decided: NightDecision, facts: Mapping[str, Any]) -> Path:
    """Write the verdict, which later nights read; raise OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**night_document(decided.report, **_of(decided)), **facts}
    return write_atomically(folder / VERDICT, verdict_with_checksum(document))


def copy_night(files: Sequence[Path], target: Path) -> list[str]:
    """Copy a night's files to a job's folder of artifacts; return the error, if any, as a list."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copyfile(path, target / path.name)
    except OSError as error:
        return [f"--ipperf-output: {target} cannot be written ({error.strerror})"]
    return []


def _of(decided: NightDecision) -> dict[str, Any]:
    summary = decided.summary
    return {"session": summary.name, "saved": summary.saved, "began_at": summary.began_at, "seconds": summary.seconds}
