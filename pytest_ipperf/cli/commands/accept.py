"""The command `accept`: record that cells may be worse until a day, and why, so that the gate lets them pass."""

from __future__ import annotations

import argparse
import datetime as dt
import getpass
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import screen_width, write_lines
from pytest_ipperf.cli.records_folder import records_argument
from pytest_ipperf.cli.sessions import SESSION, Records, records
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.question import BESIDE
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_percent, parse_points
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.metrics import METRICS, response_time
from pytest_ipperf.report.tables.layout import Row, aligned
from pytest_ipperf.store import accept, acceptances, withdraw

_FOR = "30d"
_MOST_DAYS = 366
_DAYS = {"d": 1, "w": 7}
_NAMED = 3
_HEAD = ["metric", "up to", "until", "state", "by", "said (UTC)", "reason"]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", nargs="?", default="", metavar="CELL", help="the cells; * matches any text")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why they are worse; shown in reports")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--until", default="", metavar="DAY", help="last day (UTC) of the acceptance, such as 2027-01-31")
    ends.add_argument(
        "--for", dest="days", default=_FOR, metavar="TIME", help=f"how long it holds, such as 30d or 4w; default {_FOR}"
    )
    levels = parser.add_mutually_exclusive_group()
    levels.add_argument(
        "--up-to", default="", metavar="SHARE",
        help="how much worse than the reference, such as 25%%, or 2pp for shares; default: the far end of the worst "
        "cell's 95 %% interval in the last session, rounded up to a whole percent",
    )  # fmt: skip
    levels.add_argument("--gone", action="store_true", help="accept only that they are no longer measured")
    parser.add_argument("--metric", default="", metavar="NAME", help="the metric, if the cells have several")
    parser.add_argument("--session", default="", metavar="SESSION", help=f"take the level from a session: {SESSION}")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--list", dest="listed", action="store_true", help="list the acceptances")
    others.add_argument("--withdraw", action="store_true", help="end the acceptances of exactly that CELL")
    records_argument(parser)


def _run(args: argparse.Namespace) -> int:
    with records(args.records) as found:
        if args.listed:
            write_lines(_table(acceptances(found.root), _today()))
        elif not args.cell:
            raise UsageError("accept needs a CELL, or --list")
        elif not args.reason.strip():
            raise UsageError("--reason is missing; say why, for the readers of reports")
        elif args.withdraw:
            _withdraw(found, args.cell, args.reason.strip())
        else:
            _accept(found, args)
    return 0


def _accept(found: Records, args: argparse.Namespace) -> None:
    until = _until(args.until, args.days)
    keys = _keys(found, args.cell, args.metric)
    metric, up_to = args.metric, None
    if not args.gone:
        metric = _one_metric(keys)
        keys = [key for key in keys if key.metric == metric]
        up_to = _given(args.up_to, metric) if args.up_to else _level(found, keys, metric, args.session)
        _check_shown(metric, up_to)
        _check_level(found, keys, up_to, args.session)
    acceptance = Acceptance(
        cell=args.cell,
        metric=metric,
        reason=args.reason.strip(),
        by=_login(),
        at=time.time(),
        until=until,
        up_to=up_to,
    )
    accept(found.root, acceptance)
    cells = len({key.cell for key in keys})
    what = "that they are no longer measured" if up_to is None else f"up to {_share(acceptance)} worse"
    write_lines([f"accepted for {cells} cell{'s' * (cells != 1)}: {what}, until {until} ({acceptance.reason})"])


def _withdraw(found: Records, cell: str, reason: str) -> None:
    holding = [each for each in acceptances(found.root) if each.holds(_today())]
    if cell not in {each.cell for each in holding}:
        there = ", ".join(dict.fromkeys(repr(each.cell) for each in holding)) or "none"
        raise UsageError(f"there is no acceptance of exactly {cell!r} to withdraw; there are {there}")
    withdraw(found.root, cell, reason=reason, by=_login(), at=time.time())
    write_lines([f"withdrawn: {cell}"])


# --- until when -------------------------------------------------------------------------------------------------------


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


def _until(day: str, days: str) -> dt.date:
    today = _today()
    found = _date(day) if day else today + dt.timedelta(days=_number(days))
    if found < today:
        raise UsageError(f"--until: {found} is over; today is {today} (UTC)")
    if found > today + dt.timedelta(days=_MOST_DAYS):
        raise UsageError(f"--until: {found} is more than a year from now; accept it again later if need be")
    return found


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until: {text!r} is not a date such as 2027-01-31") from None


def _number(text: str) -> int:
    match = re.fullmatch(r"(\d{1,4})([dw])", text)
    if not match:
        raise UsageError(f"--for: {text!r} is not a number of days or weeks, such as 30d or 4w")
    return int(match[1]) * _DAYS[match[2]]


# --- of what, and how much --------------------------------------------------------------------------------------------


def _keys(found: Records, pattern: str, metric: str) -> list[HistoryKey]:
    """Return the keys that the acceptance covers; raise UsageError if there are none."""
    there = found.archive.keys("")
    keys = [key for key in there if fnmatchcase(key.cell, pattern) and not key.is_twin]
    if not keys and any(fnmatchcase(key.cell, pattern) for key in there):
        raise UsageError(f"{pattern!r} are twins of the reference, which are never found worse")
    if not keys:
        known = ", ".join(list(dict.fromkeys(key.cell for key in there))[:_NAMED]) or "none"
        raise UsageError(
            f"no cell is called {pattern!r}; there are {len({key.cell for key in there})}, such as {known}"
        )
    of_metric = [key for key in keys if metric in ("", key.metric)]
    if not of_metric:
        raise UsageError(f"--metric: {pattern!r} has no {metric!r}; there are {_metrics(keys)}")
    return of_metric


def _metrics(keys: Sequence[HistoryKey]) -> str:
    return ", ".join(dict.fromkeys(key.metric for key in keys))


def _one_metric(keys: Sequence[HistoryKey]) -> str:
    """Return the metric of the keys; failures, tails and limits are meant only if `--metric` names them."""
    every = list(dict.fromkeys(key.metric for key in keys))
    metrics = [name for name in every if name not in BESIDE and Limit.named(name) is None] or every
    if len(metrics) > 1:
        raise UsageError(f"these cells have several metrics ({_metrics(keys)}); name the one that is worse by --metric")
    return metrics[0]


def _given(text: str, name: str) -> float:
    """Return the share that a text stands for, in the form of a margin."""
    shares = METRICS[name].metric.scale == "difference"
    try:
        return parse_points(text) if shares else parse_percent(text)
    except UsageError as error:
        raise UsageError(f"--up-to: {error}") from None


@dataclass(frozen=True, slots=True)
class _Worst:
    """The worst cell of a session, and how much worse than the reference it may be."""

    entry: HistoryEntry
    share: float


def _level(found: Records, keys: Sequence[HistoryKey], name: str, session: str) -> float:
    """Return the far end of the worst cell's interval, rounded up to a whole percent."""
    from pytest_ipperf.core.inference.power import slowdown_fraction  # noqa: PLC0415
    from pytest_ipperf.core.records.comparison import interval_of  # noqa: PLC0415 - loads scipy

    metric = METRICS[name].metric
    shares: list[_Worst] = []
    for entry in _newest(found, keys, session):
        if interval := interval_of(entry):
            far = interval.high if metric.direction == "lower_is_better" else -interval.low
            shares.append(_Worst(entry, slowdown_fraction(far, metric.direction, metric.scale)))
    if not shares:
        raise UsageError("no session has an interval of these cells; give --up-to")
    worst = max(shares, key=lambda each: each.share)
    if worst.share <= 0:
        raise UsageError(
            f"none of these cells is worse than its reference in {worst.entry.session}, so there is nothing to accept; "
            "give --up-to to accept all the same"
        )
    return math.ceil(round(100 * worst.share, 6)) / 100


def _check_shown(metric: str, up_to: float) -> None:
    """Raise UsageError for a level that no measurement can exceed, with which a cell would be green for ever."""
    if metric == response_time.measure.metric.name and up_to > response_time.MOST_SHOWN:
        raise UsageError(
            f"up to {100 * up_to:g} % cannot be accepted, as response times are capped and could hardly exceed it; "
            f"accept {100 * response_time.MOST_SHOWN:g} % at most, or measure the cell with a larger margin"
        )
    if metric in METRICS and METRICS[metric].metric.scale == "difference" and up_to >= 1:
        raise UsageError(f"up to {100 * up_to:g} pp cannot be exceeded; accept less than 100 pp")


def _check_level(found: Records, keys: Sequence[HistoryKey], up_to: float, session: str) -> None:
    """Raise UsageError if the margins allow as much anyway: the cells' histories would begin anew for nothing."""
    entries = _newest(found, keys, session)
    least = min((entry.margin_fraction for entry in entries if entry.margin_fraction is not None), default=0.0)
    if up_to <= least:
        raise UsageError(
            f"up to {100 * up_to:g} % there is nothing to accept, as the margin of these cells is {100 * least:g} %; "
            "give a larger --up-to"
        )


def _newest(found: Records, keys: Sequence[HistoryKey], session: str) -> Iterator[HistoryEntry]:
    """Yield the history entries of the named session, else of the last one that measured any of the cells."""
    if session:
        entries = found.history_entries(found.session(session))
        yield from (entries[key] for key in keys if key in entries)
        return
    last = [entry for key in keys for entry in found.archive.history(key, most=1)]
    newest = max((entry.began_at for entry in last), default=0.0)
    yield from (entry for entry in last if entry.began_at == newest)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "unknown"


# --- what was accepted ------------------------------------------------------------------------------------------------


def _table(accepted: Sequence[Acceptance], today: dt.date) -> list[str]:
    if not accepted:
        return ["no acceptances"]
    rows: list[Row] = [("cell", _HEAD)]
    for number, each in enumerate(accepted):
        recorded_at = dt.datetime.fromtimestamp(each.at, dt.UTC)
        state = _state(each, accepted[number + 1 :], today)
        share = "not measured" if each.up_to is None else _share(each)
        why = f"{each.reason}; withdrawn: {each.withdrawn}" if each.withdrawn else each.reason
        cells = [each.metric or "all", share, f"{each.until}", state, each.by, f"{recorded_at:%Y-%m-%d %H:%M}", why]
        rows.append((each.cell, cells))
    return aligned(rows, screen_width())


def _state(acceptance: Acceptance, later: Sequence[Acceptance], today: dt.date) -> str:
    if not acceptance.holds(today):
        return "withdrawn" if acceptance.withdrawn else "expired"
    return "superseded" if any(each.replaces(acceptance) for each in later) else "holds"


def _share(acceptance: Acceptance) -> str:
    """Return `25 %` or `2 pp`; in percent for a metric that is not known."""
    name = acceptance.metric
    unit = "pp" if name in METRICS and METRICS[name].metric.scale == "difference" else "%"
    return f"{100 * (acceptance.up_to or 0.0):g} {unit}"


command = Command(
    help="accept that cells are worse until a day, with a reason",
    description=(
        "Accepts that cells are worse than their margin allows, so that the gate of a night lets them pass until a "
        "day, unless they are worse than accepted. The newest acceptance of a cell counts, until it ends."
    ),
    arguments=_arguments,
    run=_run,
)
