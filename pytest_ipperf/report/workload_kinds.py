"""Reports of both kinds of workload: connections in the shape of paper 000, flows in tables of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, QUERIES, TRANSFERS, WorkloadKind
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report import flow
from pytest_ipperf.report.flow import working_conditions
from pytest_ipperf.report.flow.connection_sweeps import connection_sweeps
from pytest_ipperf.report.flow.notes import notes as flow_notes
from pytest_ipperf.report.flow.sweeps import Sweep, covering_sweeps
from pytest_ipperf.report.flow.tables import in_order, latest, tables_of
from pytest_ipperf.report.studies import file_transfer, offload, response_time, router, traffic
from pytest_ipperf.report.studies.response_time import files
from pytest_ipperf.report.tables.csv_text import write_csv
from pytest_ipperf.report.tables.layout import Table, fitted, refitted
from pytest_ipperf.report.tables.limit_table import NOTES, limit_figures, limit_tables
from pytest_ipperf.report.tables.response_time_rows import response_time_rows
from pytest_ipperf.report.terminal import application_tables


class KindReports(ABC):
    """Reports of the cells of one kind; methods take only records of that kind, or none."""

    @abstractmethod
    def lines(self, records: Sequence[Record], width: int | None, *, detail: bool) -> list[str]:
        """Return the terminal's tables with their notes, as lines of at most `width` characters.

        Without `detail`, rows and notes that report nothing unusual are left out.
        """

    @abstractmethod
    def tables(self, records: Sequence[Record]) -> tuple[list[Table], list[str]]:
        """Return the tables of a page, and their notes."""

    @abstractmethod
    def table(self, record: Record) -> Table:
        """Return the table of a single cell."""

    @abstractmethod
    def notes(self, record: Record) -> list[str]:
        """Return the notes of that table."""

    @abstractmethod
    def sweeps(self, records: Sequence[Record]) -> list[Sweep]:
        """Return the sweeps to draw, including those with a single level."""

    @abstractmethod
    def write(self, records: Sequence[Record], folder: Path) -> None:
        """Write the files of the tables of one or more records; raise OSError if they cannot be written."""


class _ConnectionReports(KindReports):
    def lines(self, records: Sequence[Record], width: int | None, *, detail: bool) -> list[str]:
        return application_tables.tables(latest(records), width, detail=detail)

    def tables(self, records: Sequence[Record]) -> tuple[list[Table], list[str]]:
        found = latest(records)
        if found and found[0].design == "paper":
            tables = response_time.study_tables(found)
            made = [
                Table(title=each.head[0], about=(*each.head[1:], *each.notes), rows=tuple(each.rows)) for each in tables
            ]
            return made, response_time.study_notes(found)
        groups = application_tables.grouped(found)
        lines = dict.fromkeys(line for group in groups for line in application_tables.notes(group))
        return [application_tables.table(group) for group in groups], list(lines)

    def table(self, record: Record) -> Table:
        return application_tables.table([record])

    def notes(self, record: Record) -> list[str]:
        return application_tables.notes([record])

    def sweeps(self, records: Sequence[Record]) -> list[Sweep]:
        return connection_sweeps(latest(records))

    def write(self, records: Sequence[Record], folder: Path) -> None:
        write_csv(folder / "response-times.csv", list(response_time_rows(records)))
        if records[0].design == "paper":
            files.write(records, folder)


class _FlowReports(KindReports):
    def lines(self, records: Sequence[Record], width: int | None, *, detail: bool) -> list[str]:
        found, notes = _studies(records)
        study = [line for table in found for line in (*table.lines(width), "")]
        own = flow.tables(records, width, detail=detail)
        return own + router.tables(records, width) + study + [*notes, *([""] if notes else [])]

    def tables(self, records: Sequence[Record]) -> tuple[list[Table], list[str]]:
        found, notes = _studies(records)
        return tables_of(records) + found, [*flow_notes(in_order(records)), *notes]

    def table(self, record: Record) -> Table:
        return tables_of([record])[0]

    def notes(self, record: Record) -> list[str]:
        return flow_notes([record])

    def sweeps(self, records: Sequence[Record]) -> list[Sweep]:
        by_metric = groupby(
            in_order(records), key=lambda record: (record.testbed, record.protocol, record.metric, record.design)
        )
        return [sweep for _, group in by_metric for sweep in covering_sweeps(list(group))]

    def write(self, records: Sequence[Record], folder: Path) -> None:
        write_csv(folder / "flows.csv", flow.figures(records))
        file_transfer.write(records, folder)
        traffic.write(records, folder)


def _studies(records: Sequence[Record]) -> tuple[list[Table], list[str]]:
    """Return the tables of loads and of the studies that have the shape of other tables, and their notes."""
    offloads, loads = offload.tables(records), working_conditions.tables(records)
    transfers, transfer_notes = file_transfer.tables(records)
    sweeps, sweep_notes = traffic.tables(records)
    own = [*(working_conditions.NOTES if loads else ()), *(offload.NOTES if offloads else ())]
    notes = [*own, *transfer_notes, *sweep_notes]
    return loads + offloads + transfers + sweeps, notes


class _LimitReports(KindReports):
    """Reports of cells of which only limits were asked, whatever their kind."""

    def lines(self, records: Sequence[Record], width: int | None, *, detail: bool) -> list[str]:
        del detail
        found = [line for table in limit_tables(latest(records)) for line in (*table.lines(width), "")]
        return [*found, *NOTES, ""] if found else []

    def tables(self, records: Sequence[Record]) -> tuple[list[Table], list[str]]:
        return limit_tables(latest(records)), list(NOTES) if records else []

    def table(self, record: Record) -> Table:
        return limit_tables([record])[0]

    def notes(self, record: Record) -> list[str]:
        del record
        return list(NOTES)

    def sweeps(self, records: Sequence[Record]) -> list[Sweep]:
        del records
        return []

    def write(self, records: Sequence[Record], folder: Path) -> None:
        write_csv(folder / "limits.csv", limit_figures(records))


_LIMITS: KindReports = _LimitReports()
_FLOW_REPORTS = _FlowReports()
_REPORTS: dict[WorkloadKind, KindReports] = {
    CONNECTIONS: _ConnectionReports(),
    FLOWS: _FLOW_REPORTS,
    TRANSFERS: _FLOW_REPORTS,
    QUERIES: _FLOW_REPORTS,
}


def tables(records: Iterable[Record], width: int | None = None, *, detail: bool = True) -> list[str]:
    """Return all tables of a session for the terminal, as lines of at most `width` characters; [] without records.

    `detail` is that of `KindReports.lines`.
    """
    found = (reports.lines(own, width, detail=detail) for reports, own in by_kind(records))
    return [line for lines in found for line in refitted(lines, width)]


def how_to_read(width: int | None = None) -> list[str]:
    """Return the line that stands for the notes below brief tables."""
    text = (
        "how to read: first rows are means; a change is the mean over the epochs of the median log ratio of a block, "
        "judged by its interval against the margin; phases (dns, connect, first byte) are medians since the start of a "
        "connection; -v prints all rows and notes, pytest-ipperf docs statistics more"
    )
    return fitted(text, width)


def reports_of(record: Record) -> KindReports:
    """Return the reports of a record's kind, or those of limits alone."""
    return _REPORTS[_kind(record)] if record.compared else _LIMITS


def by_kind(records: Iterable[Record]) -> list[tuple[KindReports, list[Record]]]:
    """Return the reports of each kind, and those of limits alone, with their records, in the order of display."""
    found: dict[KindReports, list[Record]] = {reports: [] for reports in dict.fromkeys((*_REPORTS.values(), _LIMITS))}
    for record in records:
        found[reports_of(record)].append(record)
    return list(found.items())


def _kind(record: Record) -> WorkloadKind:
    return PROTOCOLS[record.protocol].kind
