"""Draw badges: verdicts and gate decisions by word, colour and shape, each of which alone tells them apart."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.nightly.report import GateDecision, GateStatus
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.report.page.markup import Markup, element

GOOD, BAD, OPEN, BROKEN, PLAIN, KNOWN, BARE = "good", "bad", "open", "broken", "plain", "known", "bare"
_SHAPES: Mapping[str, str] = {GOOD: "✓", BAD: "▲", OPEN: "?", BROKEN: "✕", PLAIN: "○", KNOWN: "◆", BARE: "□"}
_VERDICTS = {
    "within": GOOD,
    "exceeds": BAD,
    "inconclusive": OPEN,
    "invalid": BROKEN,
    "unjudged": BARE,
    "measured": PLAIN,
}
_DECISIONS = {
    GateDecision.WITHIN: GOOD,
    GateDecision.EXCEEDS: BAD,
    GateDecision.WORSE: BAD,
    GateDecision.ACCEPTED: KNOWN,
    GateDecision.INCONCLUSIVE: OPEN,
    GateDecision.UNJUDGED: BARE,
    GateDecision.MISSING: BROKEN,
    GateDecision.GONE: KNOWN,
    GateDecision.TROUBLE: BROKEN,
}
_STATUSES = {GateStatus.GREEN: GOOD, GateStatus.RED: BAD, GateStatus.NOTHING_DECIDED: OPEN}
_TROUBLES = {"inconclusive": OPEN, "failed": BAD, UNMEASURED: PLAIN}


def is_verdict(text: str) -> bool:
    """Whether that is the word of a verdict."""
    return text in _VERDICTS


def verdict_class(verdict: str) -> str:
    """The class of a verdict's name."""
    return _VERDICTS.get(verdict, PLAIN)


def decision_class(decision: GateDecision) -> str:
    """That of what a night ruled."""
    return _DECISIONS[decision]


def gate_status_class(light: GateStatus) -> str:
    """That of a night."""
    return _STATUSES.get(light, BROKEN)


def trouble_class(kind: str) -> str:
    """That of an item without an answer."""
    return _TROUBLES.get(kind, BROKEN)


def badge(word: str, class_: str) -> Markup:
    """The word behind its shape."""
    return element("span", shape(class_), word, class_=f"badge {class_}")


def shape(class_: str) -> Markup:
    """The shape alone, which readers of screens leave out, as the word says it."""
    return element("i", _SHAPES[class_], aria_hidden="true")
