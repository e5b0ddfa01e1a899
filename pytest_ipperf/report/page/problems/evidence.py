"""Gather what a reader needs to trust a cell's answer, to date it, and to measure it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from pytest_ipperf.core.measurement.client_load import CLIENT_BOUND
from pytest_ipperf.core.nightly.aa_check import aa_check_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.words import listed
from pytest_ipperf.report.page.html.markup import Markup, element, joined

CAPTURES = "captures"
"""Folder of a session that holds its captures."""


def trust_text(record: Record, summary: SessionSummary) -> str:
    """Return what the answer rests on, and what speaks against it."""
    return f"{'; '.join(_grounds(record, summary))}."


def captures_of(record: Record, folder: Path) -> list[Path]:
    """Return the captures of both arms of a cell, as files of the session's folder."""
    found: list[Path] = []
    for arm in (side.arm for side in record.sides):
        files = sorted((folder / CAPTURES).glob(f"{_escaped(record.workload)}-{arm}-*.pcap"))
        # The name of one arm may be a prefix of another's.
        found += [file for file in files if "-" not in file.stem.removeprefix(f"{record.workload}-{arm}-")]
    return found


def capture_links(record: Record, folder: Path) -> Markup:
    """Return links to the captures of both arms of a cell, relative to the session's folder; empty without any."""
    files = captures_of(record, folder)
    return joined((element("a", file.name, href=quote(f"{CAPTURES}/{file.name}")) for file in files), ", ")


def _grounds(record: Record, summary: SessionSummary) -> Iterator[str]:
    runs = len(record.test.values)
    epochs = f"{record.epochs} epoch{'s' * (record.epochs != 1)}"
    yield f"{runs} runs of each arm in {epochs}" + (", confirmed in fresh epochs" if record.confirms else "")
    for side in record.sides:
        if side.failed:
            kinds = ", ".join(f"{count} {kind}" for kind, count in side.failed.items())
            yield f"{side.arm.title}: {sum(side.failed.values())} of {side.attempted} failed ({kinds})"
    if not any(side.failed for side in record.sides):
        yield f"none of {sum(side.attempted for side in record.sides)} attempts failed"
    shares = [side.instrument.share for side in record.sides if side.instrument]
    if shares:
        bound = ": client-bound, so the server's part may be hidden" if max(shares) > CLIENT_BOUND else ""
        yield f"at most {100 * max(shares):.0f} % of the time is the client's own{bound}"
    notes = list(dict.fromkeys(note.rstrip(".") for side in record.sides for note in side.notes))
    if notes:
        yield listed(notes[:2])
    night = summary.night
    aa_check = night.aa_check if night else aa_check_of(summary.records, lambda name: METRICS[name].metric)
    if aa_check and not aa_check.can_fail:
        yield f"no A/A check, which needs {aa_check.fewest} cells with a twin and had {aa_check.cells}"
    elif aa_check:
        yield "A/A check: stable" if aa_check.stable else "A/A check: UNSTABLE, differences cannot be trusted"
    else:
        yield "no A/A check, as the reference had no twin"
    if record.deadline_s and any(side.failed for side in record.sides):
        yield f"a failure counts with the deadline of {seconds_text(record.deadline_s)}"


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)
