"""Print the comparison of two sessions: worse and better cells, and counts of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.records.comparison import Comparison, Difference
from pytest_ipperf.core.records.history_entry import HistoryKey

_NAMED = 3
"""More cells with the same sentence are counted instead of named."""
_BETTER = "better by more than its margin"
_NOT = "not comparable"


def lines(found: Comparison, then: str, now: str, *, everything: bool = False) -> list[str]:
    """Return the comparison of session `now` with session `then`; with `everything`, a line for each cell.

    The last line counts the cells of each verdict. `--baseline` and `pytest-ipperf compare` print these lines.
    """
    worse = found.with_verdict(Verdict.EXCEEDS)
    better = [each for each in found.cells if each.better]
    rest = [each for each in found.cells if everything and each.verdict is not Verdict.EXCEEDS and not each.better]
    twins = [each for each in found.differences if everything and each.now.key.is_twin]
    return [
        *(f"{Verdict.EXCEEDS.name} {each.now.key}: {sentence(each)}" for each in worse),
        *(f"BETTER {each.now.key}: {sentence(each)}" for each in better),
        *_grouped("NOT COMPARABLE", found.with_verdict(None), everything=everything),
        *_grouped("UNJUDGED", () if everything else found.with_verdict(Verdict.UNJUDGED), everything=False),
        *(f"{each.verdict.name} {each.now.key}: {sentence(each)}" for each in rest if each.verdict),
        *(f"TWIN {each.now.key}: {sentence(each)}" for each in twins),
        *_only_in(found.only_then, then, everything=everything),
        *_only_in(found.only_now, now, everything=everything),
        *_notes(found.differences),
        f"from {then} to {now}: {counts_text(found)}",
    ]


def sentence(found: Difference) -> str:
    """Return the comparison of a cell: both changes, their difference with its interval, and its verdict."""
    was, is_ = (_signed(found, past.change or 0.0) for past in (found.then, found.now))
    if found.verdict is Verdict.UNJUDGED:
        changes = f"the change was {was} and is {is_}; " if None not in (found.then.change, found.now.change) else ""
        return f"{changes}{found.verdict.value}: {found.why}"
    if found.change is None:
        return f"{_NOT}: {found.why}"
    shown = found.change.mapped(found.show)
    level = f"{100 * found.change.confidence:.4g} % interval"
    interval = f"[{percent_text(shown.low)}, {percent_text(shown.high)}]"
    by = f"{percent_text(shown.estimate)} {found.unit} {interval} ({level})"
    return f"the change was {was} and is {is_}, a difference of {by}; {_why(found)}"


def counts_text(found: Comparison) -> str:
    """Return the counts, such as `2 exceeds, 118 within, 1 of those within better by more ...; 1 twin ...`."""
    counts = Counter(each.verdict for each in found.cells)
    parts = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    parts += [f"{counts[None]} {_NOT}"] * bool(counts[None])
    better = sum(each.better for each in found.cells)
    parts += [f"{better} of those within {_BETTER}"] * bool(better)
    twins = len(found.differences) - len(found.cells)
    left_out = f"; {twins} twin{'s' * (twins != 1)} of the reference not counted" if twins else ""
    return (", ".join(parts) or "they have no cell in common") + left_out


def _why(found: Difference) -> str:
    margin = f"the margin of {found.margin}"
    size = f"{percent_text(100 * found.margin_fraction, sign=False)} {found.unit}"
    margin += "" if found.margin.startswith(f"{100 * found.margin_fraction:g} ") else f", here {size}"
    level = f"one-sided {100 * (1 - found.alpha):.4g} %"
    low, high = (f"{percent_text(found.show(bound))} {found.unit}" for bound in (found.low, found.high))
    if found.verdict is Verdict.INCONCLUSIVE:
        why = found.why or f"the {level} bounds {low} and {high} lie on both sides of {margin}"
        return f"{Verdict.INCONCLUSIVE.value}: {why}"
    rising = found.metric is not None and found.metric.direction == "lower_is_better"
    within = found.verdict is Verdict.WITHIN
    side, bound = ("upper", high) if within == rising else ("lower", low)
    if found.better:
        return f"the {level} {side} bound {bound} lies beyond {margin} on the better side"
    return f"the {level} {side} bound {bound} lies {'within' if within else 'beyond'} {margin}"


def _signed(found: Difference, change: float) -> str:
    return f"{percent_text(found.show(change))} {found.unit}"


def _grouped(word: str, found: Iterable[Difference], *, everything: bool) -> Iterator[str]:
    """Yield lines with the cells grouped by reason."""
    reasons: dict[str, list[HistoryKey]] = {}
    for each in found:
        reasons.setdefault(each.why, []).append(each.now.key)
    for why, keys in reasons.items():
        for name in _named(keys, everything=everything):
            yield f"{word} {name}: {why}"


def _only_in(keys: Iterable[HistoryKey], session: str, *, everything: bool) -> Iterator[str]:
    for name in _named(list(keys), everything=everything):
        yield f"ONLY IN {session}: {name}"


def _named(keys: list[HistoryKey], *, everything: bool) -> list[str]:
    return [str(key) for key in keys] if everything or len(keys) <= _NAMED else [f"{len(keys)} cells"]


def _notes(found: Iterable[Difference]) -> Iterator[str]:
    """Yield differences of workload versions and hosts, which make equally named cells less comparable."""
    differences = list(found)
    versions = [each for each in differences if each.other_version]
    hosts = [each for each in differences if each.other_hosts]
    if versions:
        one = versions[0]
        yield (
            f"the workload is another version in {_cells(len(versions))}, such as {one.now.key}: "
            f"it was {one.then.key.version or 'unknown'} and is {one.now.key.version or 'unknown'}"
        )
    if hosts:
        affected = f"{_cells(len(hosts))}, such as {hosts[0].now.key}"
        yield f"the hosts or their server have changed in {affected}"


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"
