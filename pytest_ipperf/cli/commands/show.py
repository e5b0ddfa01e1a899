"""The command `show`: show a session as pytest reported it at its end, or the trend of cells over all sessions."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime as dt
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import coloured, screen_width, write_lines
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, Records, SessionRef, records, summary_of
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.completeness import UNMEASURED, SessionState
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store import VERDICT

_NIGHTS = 30
_MOST_CELLS = 20
_NAMED = 3
_FILES = {"tables": "tables", "captures": "captures", "logs": "logs", "page": "report.html"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help=f"a session: {SESSION}; otherwise a text that occurs in cells")
    parser.add_argument(
        # Without a default argparse would name it among the required arguments.
        "cells",
        nargs="*",
        default=[],
        metavar="TEXT",
        help="for a session: only the cells in which one of these texts occurs",
    )
    parser.add_argument(
        "--saved", default="", metavar="NAME", help="for a trend: only the sessions saved under that name"
    )
    parser.add_argument(
        "-n", dest="most", type=int, default=_NIGHTS, metavar="N",
        help=f"for a trend: only the last N sessions; default {_NIGHTS}",
    )  # fmt: skip
    parser.add_argument(
        "-v", dest="verbose", action="store_true", help="for a session: print all rows, notes and cells"
    )
    parser.add_argument(
        "--ministat", action="store_true", help="for a session: print what ministat says of each arm's runs instead"
    )
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    if args.most < 1:
        raise UsageError(f"-n {args.most} is not a number of 1 or more")
    with records(args.records) as found:
        session = _session(found, args)
        if session is None and args.ministat:
            raise UsageError(f"--ministat shows the runs of a session, and {args.what!r} is not one; use last")
        if session is None:
            _show_trends(found, args)
        elif args.ministat:
            _show_ministat(found, session, args.cells)
        else:
            _show_session(found, session, args.cells, detail=args.verbose)
    return 0


def _session(found: Records, args: argparse.Namespace) -> SessionRef | None:
    """Return the session that is named; None if the text occurs in cells instead."""
    try:
        return found.session(args.what)
    except UsageError as error:
        if args.cells or not found.archive.sessions():
            raise
        if found.archive.keys(args.what):
            return None
        raise UsageError(f"{error}; nor does {args.what!r} occur in any cell") from None


# --- a session --------------------------------------------------------------------------------------------------------


def _show_session(found: Records, session: SessionRef, texts: Sequence[str], *, detail: bool) -> None:
    from pytest_ipperf.report.tables.layout import fitted  # noqa: PLC0415 - imports scipy, which no trend needs
    from pytest_ipperf.report.terminal.night import lines  # noqa: PLC0415 - imports scipy, which no trend needs
    from pytest_ipperf.report.workload_kinds import how_to_read, tables  # noqa: PLC0415 - imports scipy

    damage: list[str] = []
    summary = summary_of(found, session, damage=damage)
    if not damage and summary.completeness.state is SessionState.BROKEN_OFF:
        _write_page(summary, session)
    chosen = _chosen(summary, session, texts)
    width = screen_width()

    def write_text(texts: Iterable[str]) -> None:
        write_lines(line for text in texts for line in fitted(text, width))

    write_text([*damage, *_head(summary), ""])
    if summary.night and not texts:
        write_lines([*lines(summary.night, width, summary), ""])
    write_lines(_answer(summary, chosen, width, everything=not texts, detail=detail))
    write_text(["", *_reasons(summary, chosen, everything=not texts), ""])
    write_lines([*tables(chosen, width, detail=detail), *([] if detail or not chosen else how_to_read(width))])
    if not texts:
        write_text(_hosts(summary))
    write_lines(_places(found, session))


def _answer(
    summary: SessionSummary, chosen: Sequence[Record], width: int | None, *, everything: bool, detail: bool
) -> list[str]:
    """Return the answer in a sentence, unless a night has given it, and a line for each cell, coloured."""
    from pytest_ipperf.report.tables.cell_results import cell_results  # noqa: PLC0415 - imports scipy
    from pytest_ipperf.report.terminal.verdict_lines import answer_lines, verdict_lines  # noqa: PLC0415 - imports scipy

    if not everything:
        part = dataclasses.replace(summary, records=tuple(chosen), troubles=(), night=None)
        return [coloured(line.text, line.colour) for line in verdict_lines(cell_results(part), width, detail=detail)]
    if summary.night:
        found = verdict_lines(cell_results(summary), width, detail=detail)
    else:
        found = answer_lines(summary, width, detail=detail, banner=False)
    return [coloured(line.text, line.colour) for line in found]


def _show_ministat(found: Records, session: SessionRef, texts: Sequence[str]) -> None:
    from pytest_ipperf.report.studies.ministat import WIDTH, comparison_reports  # noqa: PLC0415 - imports scipy

    damage: list[str] = []
    summary = summary_of(found, session, damage=damage)
    screen = screen_width()
    reports = comparison_reports(_chosen(summary, session, texts), width=screen - 2 if screen else WIDTH)
    write_lines([*damage, *_head(summary), *(line for report in reports for line in ("", *report))])


def _chosen(summary: SessionSummary, session: SessionRef, texts: Sequence[str]) -> list[Record]:
    """Return the records of the cells in which one of the texts occurs; of all cells without texts."""
    chosen = [record for record in summary.records if not texts or any(text in record.cell for text in texts)]
    if texts and not chosen:
        raise UsageError(f"session {session.name} has no cell in which {' or '.join(map(repr, texts))} occurs")
    return chosen


def _write_page(summary: SessionSummary, session: SessionRef) -> None:
    """Write the page of a session that was killed before it could, if its folder can be written."""
    from pytest_ipperf.report.page import write  # noqa: PLC0415 - imports matplotlib, which only a page needs

    if not (session.folder / _FILES["page"]).exists():
        with contextlib.suppress(OSError):
            write(summary, session.folder / _FILES["page"])


def _head(summary: SessionSummary) -> Iterator[str]:
    if summary.completeness.banner:
        yield summary.completeness.banner
    question = summary.question
    saved = f" (saved as {summary.saved})" if summary.saved else ""
    began = dt.datetime.fromtimestamp(summary.began_at, dt.UTC)
    if summary.seconds is not None:
        lasted = f", lasted {seconds_text(summary.seconds)}, pytest's status {summary.status}"
    else:
        lasted = ", how it ended was not kept" if summary.completeness.is_whole else ""
    night = ", the screening of a night" if summary.night else ""
    yield f"session {summary.name}{saved}{night}: began {began:%Y-%m-%d %H:%M} UTC{lasted}"
    settings = (f"{name} {question.get(name, 'unknown')}" for name in ("reference", "client", "seed"))
    design = question.get("design", {}).get("name", "unknown")
    yield f"pytest-ipperf {question.get('pytest_ipperf', 'unknown')}; design {design}; {'; '.join(settings)}"
    yield f"pytest {shlex.join(question.get('arguments', []))}"


def _reasons(summary: SessionSummary, chosen: Sequence[Record], *, everything: bool) -> Iterator[str]:
    """Yield the reasons as pytest prints them below its tables, then the items without an answer."""
    from pytest_ipperf.report.terminal.reasons import reasons, twin_reasons  # noqa: PLC0415 - imports scipy

    undecided = {record.nodeid or record.cell: record.sentence for record in chosen if record.verdict == "inconclusive"}
    if everything:
        undecided |= {each.nodeid: each.sentence for each in summary.troubles if each.kind == "inconclusive"}
    unjudged = {record.nodeid or record.cell: record.sentence for record in chosen if record.verdict == "unjudged"}
    for reason in (*reasons(chosen, undecided, unjudged), *(twin_reasons(chosen) if everything else ())):
        yield reason.text
    for trouble in summary.troubles if everything else ():
        if trouble.kind not in ("inconclusive", UNMEASURED):  # the banner counts what is not measured
            yield f"{trouble.kind.upper()} {trouble.nodeid}: {trouble.sentence}"


def _hosts(summary: SessionSummary) -> Iterator[str]:
    for host in summary.hosts:
        yield f"{host.role} of {host.testbed}: {'; '.join(_facts(host.facts))}"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if value not in ("", None, [], {}):
            yield f"{name.replace('_', ' ')} {_text(value)}"


def _text(value: Any) -> str:
    """Return a fact as text: lists and mappings without brackets, and of switches only those that are on."""
    if isinstance(value, Mapping):
        return ", ".join(name if on is True else f"{name} {_text(on)}" for name, on in value.items() if on is not False)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _places(found: Records, session: SessionRef) -> Iterator[str]:
    """Yield the paths of the session's records and reports that exist."""
    yield f"records: {session.folder}"
    for title, name in _FILES.items():
        if (session.folder / name).exists():
            yield f"{title}: {session.folder / name}"
    if session.entry:
        night = found.root / "nights" / session.name
        if (night / VERDICT).exists():
            yield f"night: {night}"


# --- trends -----------------------------------------------------------------------------------------------------------


def _show_trends(found: Records, args: argparse.Namespace) -> None:
    from pytest_ipperf.metrics import METRICS  # noqa: PLC0415 - not needed for a session
    from pytest_ipperf.report.terminal.trend import trend_lines  # noqa: PLC0415

    keys = found.archive.keys(args.what)
    if len(keys) > _MOST_CELLS:
        examples = ", ".join(map(str, keys[:_NAMED]))
        raise UsageError(f"{args.what!r} occurs in {len(keys)} cells, such as {examples}; give a longer text")
    written = False
    for key in keys:
        if history := found.archive.history(key, saved=args.saved):
            lines = trend_lines(history, METRICS[key.metric].metric, most=args.most, width=screen_width())
            write_lines([*([""] * written), *lines])
            written = True
    if not written:
        raise UsageError(f"no session saved as {args.saved!r} has a cell in which {args.what!r} occurs")


command = Command(
    help="show a session as pytest reported it at its end, or the trend of a cell over all sessions",
    description=(
        "Shows a session as pytest reported it at its end: its tables, every cell that is not green with its reason, "
        "the hosts, and the paths of its files. If WHAT is not a session, it is a text that occurs in cells; the trend "
        "of these cells is shown, with the session at which a lasting change begins."
    ),
    arguments=_arguments,
    run=_run,
)
