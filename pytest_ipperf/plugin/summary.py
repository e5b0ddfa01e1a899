"""Terminal output: the header and the plan before the first test, tables and reasons after the last."""

from __future__ import annotations

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
from pytest_ipperf.report.terminal.reasons import reasons, twin_reasons
from pytest_ipperf.store import read_session


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


def write_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the tables, then every cell that is not green with its reason, the files and the exit status.

    A note that the session was broken off comes first.
    """
    verdicts, session = config.stash[VERDICTS], config.stash[SESSION]
    # Runs measured before a Ctrl-C are kept even if no test has ended that would show them.
    if not verdicts.measurements and not session.folder.exists():
        for line in session.left_out_lines:
            reporter.write_line(f"ipperf: {line}")
        return
    reporter.section("measurements", sep="=")
    if banner := config.stash[SESSION_WRITER].completeness.banner:
        reporter.write_line(banner, red=True, bold=True)
        reporter.write_line("")
    if verdicts.records:
        from pytest_ipperf.report.workload_kinds import tables  # noqa: PLC0415 - imports scipy

        # Tables are fitted to a terminal, where wrapped lines are unreadable; a file has no width.
        width = reporter._tw.fullwidth if reporter.isatty else None  # noqa: SLF001 - pytest has no public API for it
        for line in tables(verdicts.records, width):
            reporter.write_line(line)
    _reasons(reporter, verdicts, config)
    for line in session.left_out_lines:
        reporter.write_line(line)
    _resumed(reporter, verdicts, session)
    for line in config.stash[SESSION_END].changes:
        reporter.write_line(line)
    for trouble in filter(None, (config.stash[SESSION_WRITER].trouble, *config.stash[SESSION_END].troubles)):
        reporter.write_line(spell_options(config, trouble), red=True)
    _print_files(reporter, session)
    _exit_line(reporter, verdicts, config)


def _print_files(reporter: pytest.TerminalReporter, session: Session) -> None:
    """Print the paths of the records, tables, captures and page that exist."""
    if not session.folder.exists():
        return
    reporter.write_line(f"records: {session.folder}")
    for title, name in (("tables", "tables"), ("captures", "captures"), ("page", PAGE)):
        if (session.folder / name).exists():
            reporter.write_line(f"{title}: {session.folder / name}")


def _reasons(reporter: pytest.TerminalReporter, verdicts: VerdictCollector, config: pytest.Config) -> None:
    for each in (*reasons(verdicts.records, verdicts.undecided, verdicts.unjudged), *twin_reasons(verdicts.records)):
        reporter.write_line(spell_options(config, each.text), red=each.red, yellow=not each.red and not each.plain)
    session = config.stash[SESSION]
    if not session.settings.flags and not session.confirms and (line := multiplicity(verdicts.records)):
        reporter.write_line(spell_options(config, line))


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


def _exit_line(reporter: pytest.TerminalReporter, verdicts: VerdictCollector, config: pytest.Config) -> None:
    settings = config.stash[SESSION].settings
    unanswered = verdicts.undecided or verdicts.unjudged
    if verdicts.nothing_decided or (unanswered and not verdicts.decided):
        why = "too little evidence" if unanswered else "no test asked"
        why = why if settings.design.judges else f"design {settings.design.name} never judges"
        status = f": exit status {NOTHING_DECIDED}" if verdicts.nothing_decided else ""
        reporter.write_line(f"no cell was decided ({why}){status}")
    elif verdicts.undecided:
        effect = "counted as failed in" if settings.fail_inconclusive else "not counted as failed in"
        count = len(verdicts.undecided)
        cells = "1 undecided cell" if count == 1 else f"{count} undecided cells"
        reporter.write_line(f"{cells}: {effect} this session (--ipperf-inconclusive)")
