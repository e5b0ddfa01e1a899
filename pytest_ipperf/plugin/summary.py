"""Terminal output: the header and the plan before the first test, answer, reasons and tables after the last."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Generator

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.display.forecast import forecast_lines
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED, VERDICTS, VerdictCollector
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.session.journal import SESSION_WRITER
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.session_end import PAGE, SESSION_END
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.report.tables.cautions import multiplicity
from pytest_ipperf.report.terminal.reasons import Reason, reasons, twin_reasons
from pytest_ipperf.store import read_session

_REASONS = 4
"""Number of reasons that are printed without -v, as the lines of the cells above them have the figures."""


def plan_lines(config: pytest.Config) -> list[str]:
    """Return the lines shown before the first test: the header, then the plan; empty where nothing is planned.

    Like pytest's own header, ours is omitted under -q and --no-header.
    """
    session = config.stash[SESSION]
    quiet = config.get_verbosity() < 0 or config.getoption("no_header")
    lines = [
        *(_header(session) if session.plans and not quiet else []),
        *forecast_lines(session, each=config.option.collectonly),
    ]
    return [spell_options(config, line) for line in lines]


def _header(session: Session) -> list[str]:
    """Return the session's header lines, with the reason if the built-in lab cannot be built."""
    settings = session.settings
    names = ", ".join(map(_with_hosts, session.testbeds))
    client = client_text(settings.client, settings.rate_per_s, settings.workers)
    lines = [
        (
            f"ipperf {__version__}: testbed {names}; design {settings.design.name}; reference {settings.reference}; "
            f"client {client}; server {settings.server}; seed {settings.seed}"
        )
    ]
    if session.resumed:
        lines.append(f"ipperf: resuming session {session.resumed.kept.folder}, from which order and seed are taken")
        lines += [f"ipperf: {damage}" for damage in session.resumed.damage]
    if session.lab_trouble and not settings.testbeds:
        lines.append(
            f"ipperf: testbed lab cannot be built here: {session.lab_trouble}; using {session.default_testbed}"
        )
    return lines


def _with_hosts(testbed: Testbed) -> str:
    """Return a testbed's name with its hosts: `office (alpha -> beta)`; the name alone for a built-in testbed."""
    if testbed.is_lab or testbed.name in BUILTIN:
        return testbed.name
    clients = ", ".join(testbed.roles[role].name for role in testbed.clients)
    return f"{testbed.name} ({clients} -> {testbed.server.name})"


class Answer:
    """Plugin of the main process that writes the answer before everything else at the end, and its status last.

    Its hook encloses that of pytest's terminal, which writes failures before, and a short summary after, all others.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> Generator[None]:
        """Write the answer, then what the other hooks write, then counts, exit status and page."""
        reporter, config = terminalreporter, self._config
        if _has_measured(config):
            _write_answer(reporter, config)
        yield
        if _has_measured(config):
            _write_end(reporter, config, exitstatus)


def _has_measured(config: pytest.Config) -> bool:
    """Return whether there is anything to report; runs before a Ctrl-C are kept even if no test has ended."""
    return bool(config.stash[VERDICTS].measurements) or config.stash[SESSION].folder.exists()


def _width(reporter: pytest.TerminalReporter) -> int | None:
    """Return the columns of the terminal, in which wrapped lines are unreadable; None for a file."""
    return reporter._tw.fullwidth if reporter.isatty else None  # noqa: SLF001 - pytest has no public API for it


def _write_answer(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the verdict of each cell, the worst first, and why cells are not green."""
    from pytest_ipperf.report.terminal.verdict_lines import answer_lines  # noqa: PLC0415 - imports scipy

    verdicts, settings = config.stash[VERDICTS], config.stash[SESSION].settings
    summary = config.stash[SESSION_WRITER].summary(verdicts.records)
    detail = config.get_verbosity() > 0
    reporter.ensure_newline()
    reporter.section("measurements", sep="=")
    for line in answer_lines(summary, _width(reporter), detail=detail, flags=settings.flags):
        reporter.write_line(spell_options(config, line.text), **({line.colour: True} if line.colour else {}))
    reporter.write_line("")
    _reasons(reporter, verdicts, config)


def write_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the tables and what was left out, reused or could not be written, and the files."""
    verdicts, session = config.stash[VERDICTS], config.stash[SESSION]
    if not _has_measured(config):
        for line in session.left_out_lines:
            reporter.write_line(f"ipperf: {line}")
        return
    if verdicts.kept:
        from pytest_ipperf.report.workload_kinds import how_to_read, tables  # noqa: PLC0415 - imports scipy

        detail, width = config.get_verbosity() > 0, _width(reporter)
        reporter.section("tables", sep="-")
        for line in (*tables(verdicts.records, width, detail=detail), *([] if detail else how_to_read(width))):
            reporter.write_line(line)
    for line in session.left_out_lines:
        _write_wrapped(reporter, line)
    _resumed(reporter, verdicts, session)
    for line in config.stash[SESSION_END].changes:
        reporter.write_line(line)
    for trouble in filter(None, (config.stash[SESSION_WRITER].trouble, *config.stash[SESSION_END].troubles)):
        reporter.write_line(spell_options(config, trouble), red=True)
    _times(reporter, config)
    _print_files(reporter, session)


def _times(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write where the session's seconds went, under -v."""
    if config.get_verbosity() > 0:
        for line in config.stash[SESSION_END].ledger.sentences:
            reporter.write_line(line)


def _print_files(reporter: pytest.TerminalReporter, session: Session) -> None:
    """Print the paths of the records, tables and captures that exist; the page is in the last line."""
    if not session.folder.exists():
        return
    reporter.write_line(f"records: {session.folder}")
    for title, name in (("tables", "tables"), ("captures", "captures")):
        if (session.folder / name).exists():
            reporter.write_line(f"{title}: {session.folder / name}")


def _reasons(reporter: pytest.TerminalReporter, verdicts: VerdictCollector, config: pytest.Config) -> None:
    found = list(reasons(verdicts.records, verdicts.undecided, verdicts.unjudged))
    shown = found if config.get_verbosity() > 0 or len(found) <= _REASONS + 1 else found[:_REASONS]
    left = len(found) - len(shown)
    more = [Reason(f"and {left} more reasons: -v prints them, as the page does", plain=True)] if left else []
    for each in (*shown, *more, *twin_reasons(verdicts.records)):
        text = spell_options(config, each.text)
        _write_wrapped(reporter, text, red=each.red, yellow=not each.red and not each.plain)
    session = config.stash[SESSION]
    if not session.settings.flags and not session.confirms and (line := multiplicity(verdicts.records)):
        _write_wrapped(reporter, spell_options(config, line))


def _write_wrapped(reporter: pytest.TerminalReporter, text: str, **colours: bool) -> None:
    """Write a sentence in lines that fit the terminal."""
    width = _width(reporter)
    lines = [text] if width is None else textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    for line in lines:
        reporter.write_line(line, **colours)


def _resumed(reporter: pytest.TerminalReporter, verdicts: VerdictCollector, session: Session) -> None:
    """Write the cells reused from earlier sessions, the workloads measured anew, and how the hosts have changed."""
    if session.resumed is None:
        return
    found: dict[str, set[str]] = {}
    for record in verdicts.records:
        if record.taken_from:
            found.setdefault(record.taken_from, set()).add(record.cell)
    for name, taken in sorted(found.items()):
        cells = f"{len(taken)} cell{'s' * (len(taken) > 1)}"
        reporter.write_line(f"reused from session {name}, which measured them: {cells} (see the tables)")
    for workload, why in session.resumed.not_reused.items():
        reporter.write_line(f"measured anew: {workload}: {why}")
    if found and session.folder.exists():
        for line in session.resumed.hosts_changed(read_session(session.folder)):
            reporter.write_line(f"the hosts have changed: {line}", red=True)


def _write_end(reporter: pytest.TerminalReporter, config: pytest.Config, exitstatus: int) -> None:
    """Write counts, exit status with its meaning, and page, in one line if they fit."""
    from pytest_ipperf.report.tables.cell_results import VERDICTS as VERDICT_NAMES  # noqa: PLC0415 - imports scipy

    verdicts, session = config.stash[VERDICTS], config.stash[SESSION]
    settings = session.settings
    # pytest gives the status that it had before the verdicts changed it.
    changed = NOTHING_DECIDED if verdicts.nothing_decided else int(verdicts.inconclusive_failed)
    status = changed or int(exitstatus)
    meaning = _MEANINGS.get(status, "")
    if verdicts.nothing_decided:
        why = "too little evidence" if verdicts.undecided or verdicts.unjudged else "no test asked"
        meaning = (
            f"no cell was decided ({why if settings.design.judges else f'design {settings.design.name} never judges'})"
        )
    elif verdicts.undecided:
        effect = "counted as failed in" if settings.fail_inconclusive else "not counted as failed in"
        cells = f"{len(verdicts.undecided)} inconclusive cell{'s' * (len(verdicts.undecided) != 1)}"
        meaning += f"; {cells}: {effect} this session (--ipperf-inconclusive)"
    counts = Counter(record.verdict for record in verdicts.records)
    texts = [f"{counts[name]} {name}" for name in VERDICT_NAMES if counts[name]]
    none = "measured, but no test ran" if verdicts.measured else "nothing measured"
    parts = [f"{', '.join(texts) or none}: exit status {status}, {meaning}"]
    if (session.folder / PAGE).exists():
        parts.append(f"page: {session.folder / PAGE}")
    colours: dict[str, bool] = {"red": status not in (0, NOTHING_DECIDED), "yellow": status == NOTHING_DECIDED}
    whole, width = "; ".join(parts), _width(reporter)
    for line in [whole] if width is None or len(whole) < width else parts:
        reporter.write_line(spell_options(config, line), **colours)


_MEANINGS = {
    0: "nothing is red",
    1: "a cell is red, a test failed, or something is in trouble",
    2: "interrupted",
    3: "internal error",
    4: "wrong usage",
    5: "nothing selected",
}
"""Meanings of pytest's exit statuses for measurements (docs/exit-status.md)."""
