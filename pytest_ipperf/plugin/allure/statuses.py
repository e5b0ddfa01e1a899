"""Classify results for Allure: a status, a category, and the word with which the message begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.allure_result import PENDING, Category

_TROUBLES = {"invalid": Category.INVALID, "infrastructure": Category.INFRASTRUCTURE}


class Classification(NamedTuple):
    """The category of an item's result, with the sentence that explains it."""

    category: Category
    sentence: str

    @property
    def message(self) -> str:
        """Message by which Allure finds the category."""
        return self.category.message(self.sentence)


def classify(reports: Mapping[str, pytest.TestReport], record: Record | None) -> Classification | None:
    """Classify an item by its `reports` of set-up, call and teardown; None if the test passed or failed by itself."""
    for report in reports.values():
        if sentence := getattr(report, "ipperf_flagged", ""):
            return Classification(Category.FLAGGED, sentence)
        if sentence := getattr(report, "ipperf_unjudged", ""):
            return Classification(Category.UNJUDGED, sentence)
        if sentence := getattr(report, "ipperf_inconclusive", ""):
            return Classification(Category.INCONCLUSIVE, sentence)
        if category := _TROUBLES.get(getattr(report, "ipperf_trouble", "")):
            return Classification(category, crash_text(report))
    call = reports.get("call")
    if record is not None and record.verdict == "exceeds" and call is not None and call.failed:
        return Classification(Category.REGRESSION, record.sentence)
    return None


def pending(reports: Mapping[str, pytest.TestReport], outcome: Classification | None) -> Classification | None:
    """Return the classification of a measured item until its night has decided; None if it failed otherwise."""
    if outcome is None and any(report.failed for report in reports.values()):
        return None
    if outcome is not None and outcome.category.status == "broken":
        return None
    return Classification(Category.FLAGGED, PENDING)


def crash_text(report: pytest.TestReport) -> str:
    """Return the message of the error in a report, without its location."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longreprtext if crash is None else crash.message).removeprefix("Failed: ").strip()


def categories() -> list[dict[str, Any]]:
    """Return the categories in the format of Allure 2, in which the first that matches counts.

    A broken result without a known message is infrastructure too.
    """
    return [
        {
            "name": kind.value[1],
            "matchedStatuses": [kind.status],
            **({} if kind is Category.INFRASTRUCTURE else {"messageRegex": f"{kind.word}: .*"}),
        }
        for kind in Category
    ]
