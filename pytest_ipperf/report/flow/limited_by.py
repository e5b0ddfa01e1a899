"""Bound: cells whose figure is that of an end and not of the network, as the engines' own sentences say."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ipperf.core.records.record import ArmSummary, Record

_SENDER, _ANY = "its own host or link bounds this figure", "bounds this figure"
_MEANINGS = {
    "sender-bound": "sender-bound: the sender did not reach what was offered, as its own host or link bounds it",
    "host-bound": "host-bound: an end's processor or its room for datagrams bounds it",
}
_CAUTION = "in one of the runs at least; what arms differ by there is not the network's alone"


def bound_text(side: ArmSummary) -> str:
    """What stands after an arm's value, with a space before it; empty where no end bounds it."""
    found = _bound(side)
    return f" {found}" if found else ""


def bound_notes(records: Iterable[Record]) -> list[str]:
    """What the words mean that stand in a table."""
    seen = {_bound(side) for record in records for side in (record.reference, record.test)}
    told = [meaning for word, meaning in _MEANINGS.items() if word in seen]
    return [f"{'; '.join(told).capitalize()}; {_CAUTION}."] if told else []


def _bound(side: ArmSummary) -> str:
    if any(_SENDER in note for note in side.notes):
        return "sender-bound"
    return "host-bound" if any(_ANY in note for note in side.notes) else ""
