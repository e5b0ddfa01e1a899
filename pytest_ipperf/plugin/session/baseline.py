"""Find the baseline, the earlier session that this one is compared with, before anything is measured."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.store import LAST, Archive, SessionEntry, acceptances, read_session

Baseline = SessionEntry | Path | None


def check_night(settings: Settings) -> None:
    """Check the files in the records folder by which the night of this screening session will be decided.

    Raise UsageError if a line is not an acceptance, or the last night of that name cannot be read.
    """
    acceptances(settings.records)
    with contextlib.closing(Archive(settings.records)) as archive:
        try:
            archive.last_night(settings.saved)
        except DamageError as error:
            raise UsageError(str(error)) from None


def find_baseline(settings: Settings, directory: Path) -> Baseline:
    """Return the session that `--baseline` names, or its folder, relative to `directory`, if it names a folder.

    Return None if the option is not given, or no session has that name yet, as in the first night. Raise UsageError
    for a folder without records, or with damaged ones.
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
