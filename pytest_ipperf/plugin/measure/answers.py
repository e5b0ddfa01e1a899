"""The answers that a test has got from its measurement, and the record that counts at its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_ipperf.core.records.record import Record

if TYPE_CHECKING:  # imports scipy, which reports of tests do not need
    from pytest_ipperf.core.inference.verdict import Judgement

SLOWDOWN = "slowdown"
"""Subject of the questions about the metric; those about tails and limits have subjects of their own."""
_WORST_FIRST = ("invalid", "exceeds", "unjudged", "inconclusive", "within", "measured")


@dataclass(frozen=True, slots=True)
class _Answer:
    """Answer to one question about a subject.

    `asked` says that a marker or an option asked the question; its answer counts whatever the body does. `verdict` is
    the verdict of the question with all that is asked beside it. `record` is set for the slow-down, `judgement` for
    tails and limits, which are components of a record.
    """

    subject: str
    question: str
    verdict: str
    asked: bool
    record: Record | None = None
    judgement: Judgement | None = None


class Answers:
    """Answers of an item; `measured` is its record before any question."""

    def __init__(self, measured: Record) -> None:
        self._measured = measured
        self._given: dict[tuple[str, str], _Answer] = {}

    def add_record(self, record: Record, *, asked: bool) -> None:
        """Add the record of a question about the slow-down."""
        self._add(_Answer(SLOWDOWN, record.margin, record.verdict, asked, record=record))

    def add_component(self, subject: str, question: str, judgement: Judgement, *, asked: bool) -> None:
        """Add the answer about a tail or a limit."""
        verdict = judgement.verdict.name.lower()
        self._add(_Answer(subject, question, verdict, asked, judgement=judgement))

    def _add(self, answer: _Answer) -> None:
        before = self._given.pop((answer.subject, answer.question), None)  # the last one is the last asked
        asked = answer.asked or (before is not None and before.asked)
        self._given[answer.subject, answer.question] = replace(answer, asked=asked)

    def record(self, *, passed: bool) -> Record:
        """Return the record of all answers that count; `passed` says that the body ran to its end.

        What a marker or an option asked counts always. Of what the body asked about one subject, an answer that is not
        within counts unless another one is: a test may assert 50 % and then ask whether 5 % is kept as well. An invalid
        answer counts always, and the last one if the body ended there. The worst of all decides.
        """
        given = list(self._given.values())
        last = None if passed or not given else given[-1]
        kept = {each.subject for each in given if each.verdict == "within"}
        counting = [each for each in given if each.asked or each is last or each.verdict in ("invalid", "within")
                    or each.subject not in kept]  # fmt: skip

        # Of equally bad ones the last, as of the margins that a test tries one after the other.
        about_metric = [each for each in reversed(counting) if each.record is not None]
        worst = min(about_metric, key=lambda each: _WORST_FIRST.index(each.verdict), default=None)
        record = worst.record if worst is not None and worst.record is not None else self._measured
        for each in counting:
            if each.judgement is not None:
                record = record.also(each.judgement)
        return record
