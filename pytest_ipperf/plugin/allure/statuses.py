"""Kinds: what became of a measurement, as Allure sorts it: a status, the word its message begins with, a category."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from pytest_ipperf.core.records.record import Record


class Kind(enum.Enum):
    """The value is Allure's status and the name of the category."""

    REGRESSION = ("failed", "Regression")
    FLAGGED = ("skipped", "Flagged, to be measured again")
    INCONCLUSIVE = ("skipped", "Inconclusive")
    UNJUDGED = ("skipped", "Unjudged")
    INVALID = ("broken", "Invalid")
    INFRASTRUCTURE = ("broken", "Infrastructure")

    @property
    def status(self) -> str:
        """As Allure calls it."""
        return self.value[0]

    @property
    def word(self) -> str:
        """With which messages of this kind begin."""
        return self.name.lower()


_TROUBLES = {"invalid": Kind.INVALID, "infrastructure": Kind.INFRASTRUCTURE}


class Outcome(NamedTuple):
    """What became of an item, in a sentence."""

    kind: Kind
    sentence: str

    @property
    def message(self) -> str:
        """By which Allure finds the category."""
        return f"{self.kind.word}: {self.sentence.removeprefix(f'{self.kind.word}: ')}"


def outcome_of(reports: Mapping[str, pytest.TestReport], record: Record | None) -> Outcome | None:
    """That of an item by its `reports` of set-up, call and teardown; None where a test passed or failed of its own."""
    for report in reports.values():
        if sentence := getattr(report, "ipperf_flagged", ""):
            return Outcome(Kind.FLAGGED, sentence)
        if sentence := getattr(report, "ipperf_unjudged", ""):
            return Outcome(Kind.UNJUDGED, sentence)
        if sentence := getattr(report, "ipperf_inconclusive", ""):
            return Outcome(Kind.INCONCLUSIVE, sentence)
        if kind := _TROUBLES.get(getattr(report, "ipperf_trouble", "")):
            return Outcome(kind, crash_text(report))
    call = reports.get("call")
    if record is not None and record.verdict == "exceeds" and call is not None and call.failed:
        return Outcome(Kind.REGRESSION, record.sentence)
    return None


def crash_text(report: pytest.TestReport) -> str:
    """What was raised, without where."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longreprtext if crash is None else crash.message).removeprefix("Failed: ").strip()


def categories() -> list[dict[str, Any]]:
    """As Allure 2 reads them; the first that matches has the test. What breaks otherwise is infrastructure too."""
    return [
        {
            "name": kind.value[1],
            "matchedStatuses": [kind.status],
            **({} if kind is Kind.INFRASTRUCTURE else {"messageRegex": f"{kind.word}: .*"}),
        }
        for kind in Kind
    ]
