"""Draw badges of verdicts and gate decisions, which differ by word, colour and shape."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.nightly.report import GateDecision, GateStatus
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.report.page.html.markup import Markup, element

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
    """Return whether the text is the name of a verdict."""
    return text in _VERDICTS


def verdict_class(verdict: str) -> str:
    """Return the CSS class of a verdict."""
    return _VERDICTS.get(verdict, PLAIN)


def decision_class(decision: GateDecision) -> str:
    """Return the CSS class of a gate decision."""
    return _DECISIONS[decision]


def gate_status_class(light: GateStatus) -> str:
    """Return the CSS class of a gate status."""
    return _STATUSES.get(light, BROKEN)


def trouble_class(kind: str) -> str:
    """Return the CSS class of an item without an answer."""
    return _TROUBLES.get(kind, BROKEN)


def badge(word: str, class_: str) -> Markup:
    """Return a badge: the shape, then the word."""
    return element("span", shape(class_), word, class_=f"badge {class_}")


def shape(class_: str) -> Markup:
    """Return the shape alone, hidden from screen readers, which read the word."""
    return element("i", _SHAPES[class_], aria_hidden="true")
