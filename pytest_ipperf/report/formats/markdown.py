"""Markdown (GFM) for a job's page: the answer first, then every cell that is not green, and counts of the others.

The length is limited, since a comment on GitHub holds 65 536 characters and a job's summary 1 MiB; the other formats
have the figures of all cells. Names are formatted as code, in which nothing becomes a link or a mention.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pytest_ipperf.core.nightly.report import GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.report.answer.aa_check import aa_check_finding
from pytest_ipperf.report.answer.sentence import plain_answer
from pytest_ipperf.report.answer.values import note_on_change
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.cautions import multiplicity
from pytest_ipperf.report.tables.cell_results import (
    CellResult,
    ResultKind,
    asked,
    cell_results,
    change_text,
    counts_text,
    headline,
)
from pytest_ipperf.report.tables.component_rows import component_lines, components_of

_MOST_BYTES = 60_000
# Number of listed cells of each kind except red ones; the others are counted.
_NAMED = 25
_LONGEST, _LONGEST_HEADLINE = 300, 2000
_HEAD = ("| cell | result | change | margin | why |", "|---|---|---|---|---|")
_STATUSES = {
    GateStatus.GREEN: "green",
    GateStatus.RED: "red",
    GateStatus.NOTHING_DECIDED: "nothing decided",
    GateStatus.UNSTABLE: "not reliable",
    GateStatus.SHRUNK: "cells are missing",
}
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
# Characters that would begin a list, a heading or a quotation, after a number too.
_LEADING = re.compile(r"^(\d*)([-+#=>.)])")
# Texts of which GitHub makes a mention, a link or a reference to an issue, even if escaped, as it searches the rendered
# text. A zero-width space after them prevents that.
_LINKING = re.compile(r"@|:(?=//)|www(?=\.)|#(?=\d)|GH-(?=\d)", re.IGNORECASE)
_NO_WIDTH = "\u200b"


@dataclass(frozen=True, kw_only=True)
class Markdown(Report):
    """One page of limited length, whatever the session's size."""

    name: str = "markdown"
    title: str = "Markdown summary"
    suffix: str = ".md"

    def render(self, summary: SessionSummary) -> bytes:
        results = cell_results(summary)
        first, last = _first(summary, results), _last(summary)
        room = _MOST_BYTES - _size(first) - _size(last)
        return ("\n".join([*first, *_table(results, room), *last]) + "\n").encode("utf-8", "replace")


report = Markdown()


def _first(summary: SessionSummary, results: Sequence[CellResult]) -> list[str]:
    night = summary.night
    title = (
        f"Night: {_STATUSES[night.gate_status]} (exit status {night.gate_status.value})" if night else "Measurements"
    )
    lines = [f"### {title}", ""]
    if banner := summary.completeness.banner:
        lines += [f"**{_text(banner)}**", ""]
    plain = night is None and summary.completeness.is_whole
    said = plain_answer(summary.records, summary.troubles).sentence if plain else headline(summary, results)
    lines += [f"**{_text(_cut(said, _LONGEST_HEADLINE))}**", ""]
    if note := note_on_change(said, summary.records):
        lines += [f"{_text(note)}.", ""]
    counted = [result for result in results if not result.is_twin]
    if counts := counts_text(counted):
        lines += [f"{len(counted)} in all: {_text(counts)}.", ""]
    if not night and not summary.question.get("confirm") and (alone := multiplicity(summary.records)):
        lines += [f"{_text(alone)}.", ""]
    return lines + (_warnings(night) if night else [])


def _warnings(night: NightReport) -> list[str]:
    """Return the warnings and notes as a list, cut at the same length as the table's rows."""
    lines = [f"- {_text(_cut(each))}" for each in night.warnings]
    if len(lines) > _NAMED:
        lines[_NAMED:] = [f"- and {len(lines) - _NAMED} more warnings"]
    lines += [f"- {_text(_cut(each))}" for each in night.notes]
    return [*lines, ""] if lines else []


def _table(results: Sequence[CellResult], room: int) -> list[str]:
    """Return the rows that fit into `room` bytes, and a line that counts the others."""
    rows, left = list[str](), Counter[str]()
    shown: Counter[ResultKind] = Counter()
    room -= _size(_HEAD) + _LONGEST * len(ResultKind)  # the line about the others
    for kind in ResultKind:
        for result in results if kind is not ResultKind.GREEN else ():
            if result.kind is not kind:
                continue
            row = _row(result)
            if (kind is not ResultKind.RED and shown[kind] == _NAMED) or _size([row]) > room:
                left[result.word] += 1
                continue
            room -= _size([row])
            shown[kind] += 1
            rows.append(row)
    more = "; ".join(f"{count} {word}" for word, count in left.items())
    return [*([*_HEAD, *rows, ""] if rows else []), *([f"And, not shown here: {_text(more)}.", ""] if more else [])]


def _row(result: CellResult) -> str:
    record = result.record
    beside = components_of(record) if record else {}
    change = "; ".join(filter(None, [change_text(record), *component_lines(record)])) if record else ""
    margins = [record.margin, *(part.margin for part in beside.values())] if record and record.judges else []
    margin = "; ".join(filter(None, margins))
    cells = (_code(result.name), result.word, _text(change), _text(margin), _text(_cut(result.sentence)))
    return f"| {' | '.join(cells)} |"


def _last(summary: SessionSummary) -> list[str]:
    return [_text(". ".join(_about(summary))) + ".", "", *_where(summary)]


def _about(summary: SessionSummary) -> Iterator[str]:
    began = datetime.fromtimestamp(summary.began_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    lasted = f", {seconds_text(summary.seconds)}" if summary.seconds is not None else ""
    saved = f", saved as {summary.saved}" if summary.saved else ""
    yield f"Session {summary.name} of {began}{lasted}{saved}"
    if settings := [f"{name} {text}" for name, text in asked(summary).items()]:
        yield ", ".join(settings).capitalize()
    if found := summary.night and summary.night.aa_check:
        yield aa_check_finding(found)


def _where(summary: SessionSummary) -> list[str]:
    if summary.night:
        return [f"The full page is `report.html` of the same folder or artifact. Records: {_code(str(summary.folder))}"]
    return [f"Records, and the full page `report.html`: {_code(str(summary.folder))}"]


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _code(name: str) -> str:
    """Return a name as code; as a tag if it has backquotes, bars or backslashes."""
    name = " ".join(name.split())
    return f"<code>{_text(name)}</code>" if set(name) & set("`\\|") else f"`{name}`"


def _text(text: str) -> str:
    """Return a text as one line in which nothing is markup or becomes a link."""
    text = _LINKING.sub(rf"\g<0>{_NO_WIDTH}", " ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return _LEADING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text))
