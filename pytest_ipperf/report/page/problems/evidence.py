"""Gather what a reader needs to trust a cell's answer, to date it, and to measure it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.measurement.client_load import CLIENT_BOUND
from pytest_ipperf.core.nightly.aa_check import aa_check_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.aa_check import aa_check_text
from pytest_ipperf.report.answer.words import listed
from pytest_ipperf.report.page.html.markup import Markup, element, joined
from pytest_ipperf.report.tables.component_rows import component_text

CAPTURES = "captures"
"""Folder of a session that holds its captures."""


def trust_text(record: Record, summary: SessionSummary) -> str:
    """Return what the answer rests on, and what speaks against it."""
    return f"{'; '.join(_grounds(record, summary))}."


def failures_text(record: Record, part: Record | None) -> str:
    """Return how many attempts of both arms failed, of what kinds, and the answer of `part`, the share's own record."""
    failed = [side for side in record.sides if side.failed]
    texts = [
        f"{side.arm.title}: {sum(side.failed.values())} of {side.attempted} attempts failed "
        f"({', '.join(f'{count} {kind}' for kind, count in side.failed.items())})"
        for side in failed
    ]
    attempted = sum(side.attempted for side in record.sides)
    texts = texts or ([f"0 of {attempted} attempts failed"] if attempted else [])
    return "; ".join([*texts, *([component_text(part)] if part else [])])


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
    yield f"{runs} runs of each arm in {epochs}"
    if (first := record.confirms) and record.estimate is not None:
        before, now = (f"{percent_text(each)} {record.change_unit}" for each in (first.estimate, record.estimate))
        yield f"first epochs {before}, fresh epochs {now}; the verdict uses the fresh ones"
    shares = [side.instrument.share for side in record.sides if side.instrument]
    if shares:
        bound = ": client-bound, so the server's part may be hidden" if max(shares) > CLIENT_BOUND else ""
        yield f"at most {100 * max(shares):.0f} % of the time is the client's own{bound}"
    notes = list(dict.fromkeys(note.rstrip(".") for side in record.sides for note in side.notes))
    if notes:
        yield listed(notes[:2])
    night = summary.night
    aa_check = night.aa_check if night else aa_check_of(summary.records, lambda name: METRICS[name].metric)
    yield aa_check_text(aa_check)
    if record.deadline_s and any(side.failed for side in record.sides):
        yield f"a failure counts with the deadline of {seconds_text(record.deadline_s)}"


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)
