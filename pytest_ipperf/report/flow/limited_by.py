"""Mark figures that are limited by an end host and not by the network, as the engines' notes say."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record

_SENDER, _ANY = "its own host or link bounds this figure", "bounds this figure"
_MEANINGS = {
    "sender-bound": "sender-bound: the sender did not reach the offered rate, as its own host or link bounds it",
    "host-bound": "host-bound: the processor or the datagram buffers of an end host bound it",
}
_CAUTION = "in at least one of the runs; differences between arms there are not due to the network alone"


def limit_text(side: ArmSummary) -> str:
    """Return the remark after an arm's value, with a space before it; empty if no end host limits it."""
    found = _limited_by(side)
    return f" {found}" if found else ""


def limit_notes(records: Iterable[Record]) -> list[str]:
    """Return the note that explains the remarks of a table; empty without remarks."""
    seen = {_limited_by(side) for record in records for side in (record.reference, record.test)}
    meanings = [meaning for word, meaning in _MEANINGS.items() if word in seen]
    return [f"{'; '.join(meanings).capitalize()}; {_CAUTION}."] if meanings else []


def _limited_by(side: ArmSummary) -> str:
    if any(_SENDER in note for note in side.notes):
        return "sender-bound"
    return "host-bound" if any(_ANY in note for note in side.notes) else ""
