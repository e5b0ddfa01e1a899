"""Load a session's records as plain rows, or as pandas' data frames where pandas is installed."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.data.cell_rows import cell_head, cell_rows
from pytest_ipperf.report.data.tidy_rows import SCHEMA, run_columns, run_rows, sample_columns, sample_rows
from pytest_ipperf.store import LAST, Archive, event_logs_in, read_session_summary

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]
"""A row: values by column; texts, numbers, booleans, None for a missing one."""


class Rows(Iterable[Row]):
    """Tidy rows with the same columns, made anew by each iteration, so that millions of them need no memory."""

    def __init__(self, rows: Callable[[], Iterator[dict[str, Any]]], columns: Callable[[], list[str]]) -> None:
        self._rows = rows
        self._columns = columns

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return self._rows()

    @property
    def columns(self) -> list[str]:
        """Names of the columns in their order."""
        first = next(self._rows(), None)
        return self._columns() if first is None else list(first)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return all rows as a data frame (`pandas.DataFrame`), or only some `columns` of them in that order.

        All values are in memory at once; of millions of rows take some columns, or `iter_batches`. Raise UsageError if
        a column does not exist, and ImportError if pandas is not installed.
        """
        return _frame(self._rows(), self._chosen(columns), "to_pandas()")

    def iter_batches(self, batch_size: int = 100_000, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Iterate over data frames of `batch_size` rows each, the last one of fewer; only one is in memory at a time.

        `columns` and errors are those of `to_pandas`. A column without a value in a whole batch has dtype `object`
        there.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size: {batch_size} is not a number of rows above 0, such as 100_000")
        names, rows = self._chosen(columns), self._rows()
        while batch := list(itertools.islice(rows, batch_size)):
            yield _frame(batch, names, "iter_batches()")

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        known = self.columns
        unknown = [name for name in columns or () if name not in known]
        if unknown:
            raise UsageError(f"column {unknown[0]!r} does not exist; there are {', '.join(known)}")
        return known if columns is None else list(columns)


def _frame(rows: Iterable[Row], columns: Iterable[str], call: str) -> pd.DataFrame:
    try:
        import pandas as pd  # noqa: PLC0415 - optional
    except ImportError:
        raise ImportError(f"{call} needs the package pandas (pip install pandas)") from None
    found: dict[str, list[Any]] = {name: [] for name in columns}
    for row in rows:
        for name, values in found.items():
            values.append(row[name])
    return pd.DataFrame(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionData:
    """The data of a session; docs/data.md describes the columns, whose version is `schema`.

    `name` is that of its `folder`, `state` is `whole`, `running` or `broken off`. `cells` has a row for each cell and
    one for the reference of each workload, `runs` one for each run and metric, `samples` one for each connection,
    packet or reply.
    """

    name: str
    folder: Path
    state: str
    schema: int
    cells: Rows
    runs: Rows
    samples: Rows


def load(folder: str | os.PathLike[str]) -> SessionData:
    """Load the session in `folder`, or `last` if that is a records folder such as `.ipperf`: of a night the screening.

    Verdicts are those of the session; decisions of a night, which may use a second session, are in its `verdict.json`
    and in `pytest-ipperf export`. Raise UsageError if there is no session in `folder`, and DamageError if a record was
    changed after it was written.
    """
    place = _session_folder(Path(folder))
    summary = read_session_summary(place)
    return SessionData(
        name=summary.name,
        folder=place,
        state=summary.completeness.state.value,
        schema=SCHEMA,
        cells=_rows(summary, cell_rows, cell_head),
        runs=_rows(summary, run_rows, run_columns),
        samples=_rows(summary, sample_rows, sample_columns),
    )


def _rows(
    summary: SessionSummary,
    rows: Callable[[SessionSummary], Iterator[dict[str, Any]]],
    columns: Callable[[SessionSummary], list[str]],
) -> Rows:
    return Rows(lambda: rows(summary), lambda: columns(summary))


def _session_folder(folder: Path) -> Path:
    """Return the folder itself, or that of its last session as the commands find it: not the second one of a night."""
    if not folder.is_dir():
        raise UsageError(
            f"{str(folder)!r} is not a folder; give that of a session, or a records folder such as .ipperf"
        )
    if not any(each.is_dir() and event_logs_in(each) for each in (folder / "runs").glob("*")):
        return folder
    with contextlib.closing(Archive(folder)) as archive:
        return archive.find(LAST).folder
