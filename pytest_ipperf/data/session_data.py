"""Load a session's records as plain rows, or as pandas' data frames where pandas is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.data.cell_rows import cell_head, cell_rows
from pytest_ipperf.report.data.tidy_rows import SCHEMA, run_columns, run_rows, sample_columns, sample_rows
from pytest_ipperf.store import event_logs_in, read_session_summary

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

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame (`pandas.DataFrame`); raise ImportError if pandas is not installed."""
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise ImportError("to_pandas() needs the package pandas (pip install pandas)") from None
        found: dict[str, list[Any]] = {name: [] for name in self.columns}
        for row in self._rows():
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
    """Load the session in `folder`, or the last one if that is a records folder such as `.ipperf`.

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
    """Return the folder itself, or that of its last session; names begin with the time of the start."""
    if not folder.is_dir():
        raise UsageError(
            f"{str(folder)!r} is not a folder; give that of a session, or a records folder such as .ipperf"
        )
    sessions = [each for each in (folder / "runs").glob("*") if each.is_dir() and event_logs_in(each)]
    return max(sessions, key=lambda each: each.name) if sessions else folder
