"""Name cells in words, by what distinguishes them within one session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pytest_ipperf.core.design.cell import client_text
from pytest_ipperf.core.design.question import BESIDE
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.words import at_levels, level_in, subject, varying_dimensions
from pytest_ipperf.report.flow.dimensions import point

_PLACES = ("on testbed", "from server", "by client", "under design")


def place_of(record: Record) -> tuple[str, ...]:
    """Return where a record was measured: testbed, server, client and design."""
    client = client_text(record.client, record.rate_per_s, record.workers)
    return record.testbed, record.server, client, record.design


def subject_of(part: Record) -> str:
    """Return the subject of a sentence about a question, with the component that it is about."""
    return f"{subject(part)} {METRICS[part.metric].metric.label}" if part.metric in BESIDE else subject(part)


class Names:
    """Names of the cells of a session: levels, arms and places stand in a name as far as they vary among `records`."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._alike: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in records:
            self._alike[record.protocol, record.metric].append(record)
        self._arms = {record.test.arm for each in self._alike.values() for record in each}
        self._varying = {key: varying_dimensions(each) for key, each in self._alike.items()}
        self._extremes = {key: _extremes(each, self._varying[key]) for key, each in self._alike.items()}
        self._differing = {key: _differing(each) for key, each in self._alike.items()}

    def alike(self, record: Record) -> Sequence[Record]:
        """Return the records of the same protocol and metric."""
        return self._alike.get((record.protocol, record.metric)) or [record]

    def place(self, record: Record) -> str:
        """Return where a record was measured, as far as records differ in that: ` on testbed lab`."""
        where = place_of(record)
        return "".join(
            f" {_PLACES[at]} {where[at]}" for at in self._differing.get((record.protocol, record.metric), ())
        )

    def workload(self, record: Record) -> str:
        """Return the name of a record's workload: `HTTP at 10 connections`, `HTTP at 1 connection on testbed a`."""
        level = self.at(record)
        return f"{subject_of(record)}{f' at {level}' if level else ''}{self.place(record)}"

    def cell(self, record: Record) -> str:
        """Return the name of a cell: its workload, and the arm if the session has several: `SMTP, IPv6`."""
        arm = f", {record.test.arm.title}" if len(self._arms) > 1 else ""
        return f"{self.workload(record)}{arm}"

    def at(self, record: Record) -> str:
        """Return the level of a record in words: `100 connections`; empty if all records have the same."""
        if not self._varying.get((record.protocol, record.metric)):
            return ""
        return at_levels([record], self._extremes[record.protocol, record.metric]).removeprefix(" at ")

    def level(self, record: Record) -> str:
        """Return the level of a record alone, as a heading of a column; empty if all records have the same."""
        return level_in(record, self._varying.get((record.protocol, record.metric), []))


def _extremes(records: Sequence[Record], varying: Sequence[str]) -> list[Record]:
    """Return few records that vary in the same dimensions as all of them do."""
    first = point(records[0])
    others = (next(each for each in records if point(each).get(name) != first.get(name)) for name in varying)
    return [records[0], *others]


def _differing(records: Sequence[Record]) -> list[int]:
    places = [place_of(record) for record in records]
    return [at for at in range(len(_PLACES)) if len({place[at] for place in places}) > 1]
