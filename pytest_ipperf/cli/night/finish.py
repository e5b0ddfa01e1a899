"""Finish a night: select the flagged items of its screening, then decide, print and write the verdict."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.cli.night.allure import write_decisions
from pytest_ipperf.cli.night.decide import decide_night
from pytest_ipperf.cli.night.write import copy_night, write_night
from pytest_ipperf.cli.output import give_up_output, screen_width, warn, write_lines
from pytest_ipperf.core.nightly.gate import FAMILY_ALPHA, flagged
from pytest_ipperf.report.terminal.night import lines
from pytest_ipperf.store import Archive, records_in


@dataclass(frozen=True, slots=True)
class FlaggedItems:
    """The flagged items by node id, and the level at which pytest judges each of them.

    The level is that of the first step of Holm's procedure, by which the night decides. An item that pytest shows as
    failed is therefore red, unless it was accepted.
    """

    items: tuple[str, ...]
    level: float

    def __bool__(self) -> bool:
        return bool(self.items)


def flagged_items(screening: Path) -> FlaggedItems:
    """Return the items to measure again after the session in that folder."""
    found = flagged(records_in(screening))
    return FlaggedItems(tuple(dict.fromkeys(record.nodeid for record in found)), FAMILY_ALPHA / max(1, len(found)))


def repeats_a_night(records: Path, screening: Path, saved: str) -> bool:
    """Return whether a screening measured nothing, and reuses what the last night of that name was decided by."""

    def findings(folder: Path) -> set[tuple[str, str, str]]:
        return {(each.cell, each.metric, each.taken_from or folder.name) for each in records_in(folder)}

    found = findings(screening)
    if not found or any(origin == screening.name for _, _, origin in found):
        return False
    with contextlib.closing(Archive(records)) as archive:
        last = archive.last_night(saved, before=screening.name)
    return last is not None and found <= findings(records / "runs" / last.session)


def end_night(
    records: Path,
    screening: Path,
    fresh: Path | None,
    *,
    saved: str,
    baseline: str,
    output: Path | None,
    lost: str,
    allure: Path | None = None,
) -> int:
    """Decide a night, write its files and print it; return its exit status.

    `allure` is the folder of its sessions' results for Allure, which get the decisions. Raise LabError if the verdict
    cannot be written.
    """
    with contextlib.closing(Archive(records)) as archive:
        found = decide_night(archive, screening, fresh, saved=saved, baseline=baseline, lost=lost)
        notes = archive.notes
    folder = records / "nights" / screening.name
    facts = {"fresh_session": fresh.name if fresh else None, "baseline": baseline}
    written = write_night(folder, found, facts)
    report_lines = [*lines(found.report, screen_width(), found.summary), *notes, *written.troubles, f"night: {folder}"]
    if allure is not None:
        report_lines += write_decisions(allure, found)
    if output is not None:
        report_lines += copy_night(written.files, output)
    try:
        write_lines(["", *report_lines])
    except OSError as error:  # the decision is written, whether or not it can be printed
        give_up_output()
        warn(f"the output cannot be written ({error.strerror})")
    return int(found.report.gate_status)
