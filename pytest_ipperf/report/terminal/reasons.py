"""Explain every cell that is not green, below the tables, then the A/A check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import CONTENT

# More cells with the same sentence are counted instead of named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """A line: `red` for something wrong, `plain` for information, neither for something missing."""

    text: str
    red: bool = False
    plain: bool = False


def reasons(records: Sequence[Record], undecided: Mapping[str, str], unjudged: Mapping[str, str]) -> Iterator[Reason]:
    """Yield the reasons of cells that exceed, of `undecided` and `unjudged` items (by node id), and of failures."""
    for record in records:
        if record.verdict == "exceeds":
            yield Reason(f"EXCEEDS {record.cell}: {record.sentence}", red=True)
    for word, found in (("inconclusive", undecided), ("unjudged", unjudged)):
        for sentence, cells in _by_sentence(found).items():
            named = cells if len(cells) <= _NAMED else [f"{len(cells)} cells"]
            text = sentence.removeprefix(f"{word}: ")
            yield from (Reason(f"{word.upper()} {name}: {text}") for name in named)
    for record in records:
        if (record.test.failed or record.reference.failed) and PROTOCOLS[record.protocol].kind.counts_failures:
            yield Reason(_failures(record))


def twin_reasons(records: Iterable[Record]) -> Iterator[Reason]:
    """Yield how often the reference differed from its twin; nothing without a twin."""
    all_records = list(records)
    if not any(record.twin for record in all_records):
        return
    # Both import scipy, which most sessions do not need.
    from pytest_ipperf.core.nightly.aa_check import aa_check_of  # noqa: PLC0415
    from pytest_ipperf.report.answer.aa_check import aa_check_finding  # noqa: PLC0415

    found = aa_check_of(all_records, lambda name: METRICS[name].metric)
    if found is None:
        return
    yield Reason(f"{aa_check_finding(found)}{', in 999 of 1000 sessions' * found.can_fail}", plain=True)
    if not found.stable:
        yield Reason(
            "environment unstable: the reference differs from itself more often than chance explains; do not trust "
            "the other differences of this session",
            red=True,
        )


def _by_sentence(undecided: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the cells without an answer, grouped by sentence."""
    found: dict[str, list[str]] = {}
    for nodeid, sentence in undecided.items():
        found.setdefault(sentence, []).append(nodeid.split("::")[-1])
    return found


def _failures(record: Record) -> str:
    """Return the failures of a cell, whatever its verdict: a few failed connections can dominate a mean."""
    test, *others = reversed(record.sides)
    reference = "".join(f", {each.attempted - each.completed} of {each.attempted} by {each.arm}" for each in others)
    return (
        f"FAILURES {record.cell}: {test.attempted - test.completed} of {test.attempted} connections by {test.arm}"
        f"{reference}; each counts as {seconds_text(record.deadline_s)}{_wrong_content(record)}"
    )


def _wrong_content(record: Record) -> str:
    """Return the most frequent failure by wrong content, a cause that is easily overlooked; empty without one."""
    counts = Counter(record.test.failed) + Counter(record.reference.failed)
    found = [kind for kind, _ in counts.most_common() if kind.startswith(f"{CONTENT}: ")]
    return f"; {found[0]}" if found else ""
