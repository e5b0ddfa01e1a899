"""The baseline: the earlier session with which this one is compared, found before anything is measured."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.store import LAST, Archive, SessionEntry, acceptances, read_session

Baseline = SessionEntry | Path | None


def check_night(settings: Settings) -> None:
    """Check what the night that this session screens is decided by, in the folder that its records are in.

    UsageError where a line is no acceptance, or the verdict of the last night of its name cannot be read.
    """
    acceptances(settings.records)
    with contextlib.closing(Archive(settings.records)) as archive:
        try:
            archive.last_night(settings.saved)
        except DamageError as error:
            raise UsageError(str(error)) from None


def find_baseline(settings: Settings, directory: Path) -> Baseline:
    """The session that `--baseline` names, or its folder where it lies elsewhere, a path from `directory`.

    None where it names none, or one of a name that no session has yet, as in the first night. UsageError where it names
    a folder that is none of records, or whose records are damaged.
    """
    name = settings.baseline
    if not name:
        return None
    if "/" in name:
        try:
            return read_session((directory / name).resolve()).folder
        except (UsageError, DamageError) as error:
            raise UsageError(f"--baseline: {error}") from None
    with contextlib.closing(Archive(settings.records)) as archive:
        if name != LAST:
            return next(iter(reversed(archive.sessions(saved=name))), None)
        return archive.find(LAST) if archive.sessions() else None
