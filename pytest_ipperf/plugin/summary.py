"""What a person reads around the dots: the header, the plan, and at the end the tables and the reasons."""

from __future__ import annotations

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.display.forecast import forecast_lines
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED, TALLY, Tally
from pytest_ipperf.plugin.options.aliases import worded
from pytest_ipperf.plugin.session.journal import KEEPER
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.session_end import ENDING, PAGE
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.report.terminal.reasons import reasons, twin_reasons
from pytest_ipperf.store import read_session


def before(config: pytest.Config) -> list[str]:
    """Return what is told before the first test: what is used and why, and the plan; nothing where none is made.

    As pytest's own header, the first part is left out under -q and --no-header.
    """
    session = config.stash[SESSION]
    quiet = config.get_verbosity() < 0 or config.getoption("no_header")
    lines = [
        *(_header(session) if session.plans and not quiet else []),
        *forecast_lines(session, each=config.option.collectonly),
    ]
    return [worded(config, line) for line in lines]


def _header(session: Session) -> list[str]:
    """One line about the session, and one where the built-in lab cannot be built."""
    settings = session.settings
    names = ", ".join(map(_with_hosts, session.testbeds))
    client = client_text(settings.client, settings.rate_per_s, settings.workers)
    lines = [
        (
            f"ipperf {__version__}: testbed {names}; design {settings.design.name}; reference {settings.reference}; "
            f"client {client}; server {settings.server}; seed {settings.seed}"
        )
    ]
    if session.earlier:
        lines.append(f"ipperf: resuming session {session.earlier.kept.folder}, from which order and seed are taken")
        lines += [f"ipperf: {damage}" for damage in session.earlier.damage]
    if session.lab_trouble and not settings.testbeds:
        lines.append(
            f"ipperf: testbed lab cannot be built here: {session.lab_trouble}; using {session.default_testbed}"
        )
    return lines


def _with_hosts(testbed: Testbed) -> str:
    """`office (alpha -> beta)`; the hosts of what comes with the plugin are called by their roles."""
    if testbed.is_lab or testbed.name in BUILTIN:
        return testbed.name
    clients = ", ".join(testbed.roles[role].name for role in testbed.clients)
    return f"{testbed.name} ({clients} -> {testbed.server.name})"


def write(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The tables of what was measured, then every cell that is not green with its reason, then the exit status.

    That a session was broken off comes before all of it.
    """
    tally, session = config.stash[TALLY], config.stash[SESSION]
    # What was measured before a Ctrl-C is kept, though no test has ended that would show it.
    if not tally.measurements and not session.folder.exists():
        for line in session.lacking:
            reporter.write_line(f"ipperf: {line}")
        return
    reporter.section("measurements", sep="=")
    if banner := config.stash[KEEPER].extent.banner:
        reporter.write_line(banner, red=True, bold=True)
        reporter.write_line("")
    if tally.records:
        from pytest_ipperf.report.terminal.application_tables import tables  # noqa: PLC0415 - loads scipy, see the plugin's charter

        # A file has no width; a terminal breaks lines where they can no longer be read.
        width = reporter._tw.fullwidth if reporter.isatty else None  # noqa: SLF001 - pytest has no public way to it
        for line in tables(tally.records, width):
            reporter.write_line(line)
    _reasons(reporter, tally, config)
    for line in session.lacking:
        reporter.write_line(line)
    _resumed(reporter, tally, session)
    for line in config.stash[ENDING].changes:
        reporter.write_line(line)
    for trouble in filter(None, (config.stash[KEEPER].trouble, *config.stash[ENDING].troubles)):
        reporter.write_line(worded(config, trouble), red=True)
    _kept(reporter, session)
    _exit_line(reporter, tally, config)


def _kept(reporter: pytest.TerminalReporter, session: Session) -> None:
    """Where everything is."""
    if not session.folder.exists():
        return
    reporter.write_line(f"records: {session.folder}")
    for title, name in (("tables", "tables"), ("captures", "captures"), ("page", PAGE)):
        if (session.folder / name).exists():
            reporter.write_line(f"{title}: {session.folder / name}")


def _reasons(reporter: pytest.TerminalReporter, tally: Tally, config: pytest.Config) -> None:
    for each in (*reasons(tally.records, tally.undecided, tally.unjudged), *twin_reasons(tally.records)):
        reporter.write_line(worded(config, each.text), red=each.red, yellow=not each.red and not each.plain)


def _resumed(reporter: pytest.TerminalReporter, tally: Tally, session: Session) -> None:
    """What was measured at another time than the rest, and what is different since then."""
    if session.earlier is None:
        return
    found: dict[str, set[str]] = {}
    for record in tally.records:
        if record.taken_from:
            found.setdefault(record.taken_from, set()).add(record.cell)
    for name, taken in sorted(found.items()):
        cells = f"{len(taken)} cell{'s' * (len(taken) > 1)}"
        reporter.write_line(f"taken over from session {name}, which measured them: {cells} (tables tell which)")
    for workload, why in session.earlier.anew.items():
        reporter.write_line(f"measured anew: {workload}: {why}")
    if found and session.folder.exists():
        for line in session.earlier.hosts_changed(read_session(session.folder)):
            reporter.write_line(f"the hosts are not what they were: {line}", red=True)


def _exit_line(reporter: pytest.TerminalReporter, tally: Tally, config: pytest.Config) -> None:
    settings = config.stash[SESSION].settings
    unanswered = tally.undecided or tally.unjudged
    if tally.nothing_decided or (unanswered and not tally.decided):
        why = "too little evidence" if unanswered else "no test asked"
        why = why if settings.design.judges else f"design {settings.design.name} never judges"
        status = f": exit status {NOTHING_DECIDED}" if tally.nothing_decided else ""
        reporter.write_line(f"no cell was decided ({why}){status}")
    elif tally.undecided:
        effect = "counted as failed in" if settings.fail_inconclusive else "not counted as failed in"
        count = len(tally.undecided)
        cells = "1 undecided cell" if count == 1 else f"{count} undecided cells"
        reporter.write_line(f"{cells}: {effect} this session (--ipperf-inconclusive)")
