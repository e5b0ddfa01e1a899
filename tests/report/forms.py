"""A session of each form in which people see one: everyday, red, night, many cells, broken off, and others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.core.records.completeness import Completeness, SessionState
from pytest_ipperf.core.records.record import Record

ARMS = ("ipv6", "ipv6-tunnel")
SEVERAL = ("ipv6", "ipv6-tunnel", "ipv6-isatap")
MANY = 12
"""Levels of connections in the session of many cells; of two protocols and three arms 72 cells, some folded."""
_TEST = "suites/response_time/test_response_time.py::test_{}"


def forms(factory: Any, made: Any) -> dict[str, SessionSummary]:
    """Return the sessions by the names of their forms; `factory` and `made` are the fixtures that make records."""

    def application(*place: Any, **change: Any) -> Record:
        found: Record = factory.application(*place, **change)
        return found

    green = [application(name, count, arm, 1.01) for name in ("http", "smtp") for count in (1, 10) for arm in ARMS]
    twins = [application(name, count, "ipv4-twin", 1.0) for name in ("http", "smtp") for count in (1, 10)]
    slow = application("http", 100, "ipv6", 1.22)
    red = [slow, application("smtp", 100, "ipv6", 1.04, spread=0.2)]
    ill = [application("smtp", 100, "ipv6-tunnel", 1.0, verdict="invalid", sentence="All 10 epochs gave the same.")]
    smoke = [
        dataclasses.replace(each, design="smoke", judges=False, verdict="unjudged", reasons=("never_judges",),
                            low=None, high=None, sentence="Design smoke never judges.")
        for each in green
    ]  # fmt: skip
    trouble = Trouble(nodeid=_TEST.format("dns[lab-dns]"), kind="infrastructure", sentence="bind did not answer")
    spent = Trouble(nodeid=_TEST.format("ftp[lab-ftp]"), kind="inconclusive", sentence="the budget was spent")
    broken = Completeness(state=SessionState.BROKEN_OFF, measured=8, planned=12, resume="last")
    missing = [Trouble(nodeid=_TEST.format(f"imap[{n}]"), kind="unmeasured", sentence="not measured") for n in range(4)]
    return {
        "everyday": session([*green, *twins], samples=factory.samples_of(green)),
        "red": session([*green, *red, *ill], samples=factory.samples_of([*green, *red]), troubles=(trouble,),
                       histories={each.key: factory.past_of(each, 30, changed=20) for each in [*green[:2], *red]}),
        "night": factory.night_summary(),
        "many": session(
            application(name, count, arm, 1.22 if (name, count) == ("http", 9) else 1.0)
            for name in ("http", "smtp") for count in range(1, MANY + 1) for arm in SEVERAL
        ),
        "broken off": session(green, completeness=broken, troubles=tuple(missing)),
        "smoke": session(smoke),
        "routers": session(made.study()),
        "single": session(green[:1], samples=factory.samples_of(green[:1])),
        "trouble": session(green, troubles=(trouble, spent)),
        "undecided": session([*green, red[1]]),
        "empty": session([], troubles=(trouble,)),
    }  # fmt: skip


def session(records: Any, **change: Any) -> SessionSummary:
    """Return a whole session of these records."""
    made = SessionSummary(
        name="20261122T010000Z-5eed00", folder=Path("/r/20261122T010000Z-5eed00"), began_at=1795309200.0, seconds=90.0,
        question={"arguments": ["suites", "-m", "smtp or http"], "pytest_ipperf": "0.1.0"}, records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(made, **change)
