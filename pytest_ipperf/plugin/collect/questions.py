"""The question of an item: the metric that it is judged by, and its margin."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.limit import FAILED, FIGURES, MEAN, QUANTILES, THROUGHPUT, Limit
from pytest_ipperf.core.design.margin import Margin, failure_margin
from pytest_ipperf.core.design.question import FAILED_SHARE, SLOW_SHARE, Question
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.protocols import PROTOCOLS


def question_of(node: pytest.Item, protocol: str) -> Question:
    """Return the question of an item of that protocol; raise UsageError if its markers are invalid."""
    metric = metric_of(node, protocol)
    asked = node.config.stash[SESSION].settings.margin
    return Question(metric, asked or _own_margin(node, metric))


def questions_beside(node: pytest.Item, protocol: str) -> tuple[Question, ...]:
    """Return what is asked of an item beside its metric: its failed connections, and its tail if marker tail says so.

    Flows have none, as their losses are metrics of their own. Raise UsageError for an invalid marker.
    """
    if not PROTOCOLS[protocol].kind.counts_failures:
        return ()
    failures = _failures(node)
    tail = _tail(node, protocol)
    slow = () if tail is None else (Question(SLOW_SHARE, failures, tail),)
    return (Question(FAILED_SHARE, failures), *slow)


def figures_of(protocol: str) -> tuple[str, ...]:
    """Return the figures of a protocol that may have limits."""
    offered = PROTOCOLS[protocol]
    failed = (FAILED,) if offered.kind.counts_failures else ()
    if offered.kind.has_times:
        return (*QUANTILES, MEAN, *failed)
    means = (MEAN,) if METRICS[offered.metrics[0]].metric.unit == "s" else ()
    return (*means, *((THROUGHPUT,) if THROUGHPUT in offered.metrics else ()), *failed)


def limits_of(node: pytest.Item, protocol: str) -> tuple[Limit, ...]:
    """Return the limits of an item: of its markers and of `--ipperf-limit`, which replaces those of its figures.

    An option's limit of a figure that the protocol lacks does not apply. Raise UsageError for an invalid marker.
    """
    there = figures_of(protocol)
    asked = [limit for limit in node.config.stash[SESSION].settings.limits if limit.figure in there]
    replaced = {limit.figure for limit in asked}
    marked = [_marked_limit(mark, protocol) for mark in node.iter_markers("limit")]
    found = tuple(dict.fromkeys((*(limit for limit in marked if limit.figure not in replaced), *asked)))
    for limit in found:
        check_deadline(limit, node.config.stash[SESSION].settings.deadline_s)
    return found


def check_deadline(limit: Limit, deadline_s: float) -> None:
    """Raise UsageError for a limit of the mean that every arm keeps, as a failed connection counts as the deadline."""
    if limit.figure == MEAN and limit.value >= deadline_s:
        raise UsageError(
            f"limit {limit.name} cannot be exceeded, as failed connections count as the deadline of {deadline_s:g} s; "
            "use a smaller limit, or a larger --ipperf-deadline"
        )


def _marked_limit(mark: pytest.Mark, protocol: str) -> Limit:
    if len(mark.args) != 2 or mark.kwargs:
        raise UsageError('marker limit takes a figure and its limit: limit("p95", "20ms")')
    limit = Limit.parse(*mark.args)
    if limit.figure not in figures_of(protocol):
        raise UsageError(f"marker limit: {no_figure(limit.figure, protocol)}")
    return limit


def no_figure(figure: str, protocol: str) -> str:
    """Return the sentence about a figure that a protocol has not."""
    there = [each for each in FIGURES if each in figures_of(protocol)]
    return f"{protocol} has no {figure}; it has {', '.join(there) or 'no figure with limits'}"


def question_with_margin(node: pytest.Item, protocol: str, margin: object) -> Question:
    """Return the question of an item with the margin that a fixture returned: a Margin, or a text such as `10%`.

    Raise UsageError if it is not a margin, or not one for the item's metric.
    """
    metric = metric_of(node, protocol)
    quantity = METRICS[metric].metric
    if not isinstance(margin, Margin | str):
        raise UsageError(f"the fixture margin returns {margin!r}; use a margin such as {quantity.margin!r}")
    asked = Margin.parse(margin) if isinstance(margin, str) else margin
    asked.check(quantity)
    return Question(metric, asked)


def explicit_margin(node: pytest.Item) -> bool:
    """Return whether a margin is asked of an item by `--margin` or its marker, whatever the test does with it."""
    return node.config.stash[SESSION].settings.margin is not None or _marked(node) is not None


def explicit_failures(node: pytest.Item) -> bool:
    """Return whether a margin of failures is asked of an item by `--ipperf-failures` or its marker."""
    marked = any("failures" in mark.kwargs for mark in node.iter_markers("margin"))
    return marked or node.config.stash[SESSION].settings.failures_asked


def check_markers(node: pytest.Item, protocol: str) -> None:
    """Raise UsageError for invalid markers; `--margin` is not checked, as it may suit one test and not another."""
    _own_margin(node, metric_of(node, protocol))
    questions_beside(node, protocol)
    limits_of(node, protocol)


def margin_mismatch(node: pytest.Item, protocol: str) -> str:
    """Return why `--margin` does not apply to an item; empty if it does or is not given."""
    asked = node.config.stash[SESSION].settings.margin
    try:
        if asked is not None:
            asked.check(METRICS[metric_of(node, protocol)].metric)
    except UsageError as error:
        return f"--margin: {error}"
    return ""


def metric_of(node: pytest.Item, protocol: str) -> str:
    """Return the metric named by the marker `metric`, else the protocol's first."""
    there, mark = PROTOCOLS[protocol].metrics, node.get_closest_marker("metric")
    if mark is None:
        return there[0]
    if len(mark.args) != 1 or mark.kwargs or mark.args[0] not in there:
        given = ", ".join(map(repr, mark.args)) or "nothing"
        raise UsageError(f"marker metric names {given}; {protocol} has one of {', '.join(there)}")
    return str(mark.args[0])


def _own_margin(node: pytest.Item, metric: str) -> Margin:
    """Return the marker's margin, else the metric's default."""
    quantity = METRICS[metric].metric
    found = _marked(node) or Margin.parse(quantity.margin)
    found.check(quantity)
    return found


def _marked(node: pytest.Item) -> Margin | None:
    """Return the margin of the closest marker that has one; a marker may have a margin of failures alone."""
    shares = [mark for mark in map(_checked, node.iter_markers("margin")) if mark.args]
    if not shares:
        return None
    return Margin.parse(shares[0].args[0], at_least=shares[0].kwargs.get("at_least"))


def _checked(mark: pytest.Mark) -> pytest.Mark:
    """Return the mark; raise UsageError if its arguments are not those of a marker margin."""
    known, right = {"at_least", "failures"}, 'margin("10%", at_least="0.5ms", failures="1pp")'
    if len(mark.args) > 1 or set(mark.kwargs) - known or not all(isinstance(each, str) for each in mark.args):
        raise UsageError(f"marker margin takes one share and, if needed, at_least and failures: {right}")
    if not mark.args and set(mark.kwargs) != {"failures"}:
        raise UsageError('marker margin has no share; use margin("10%"), or margin(failures="1pp") for failures alone')
    return mark


def _failures(node: pytest.Item) -> Margin:
    """Return the margin of failed connections: that of `--ipperf-failures`, else the marker's, else the ini key's."""
    settings = node.config.stash[SESSION].settings
    if settings.failures_asked:
        return settings.failures
    for mark in node.iter_markers("margin"):
        if "failures" in mark.kwargs:
            return failure_margin(mark.kwargs["failures"])
    return settings.failures


def _tail(node: pytest.Item, protocol: str) -> Margin | None:
    """Return the margin beyond the reference's tail from the marker `tail`; None if there is no such marker."""
    mark = node.get_closest_marker("tail")
    if mark is None:
        return None
    if len(mark.args) > 1 or mark.kwargs or not all(isinstance(each, str) for each in mark.args):
        raise UsageError('marker tail takes a margin or nothing: tail("10%,0.5ms")')
    quantity = METRICS[PROTOCOLS[protocol].metrics[0]].metric
    found = Margin.parse(mark.args[0] if mark.args else quantity.margin)
    found.check(quantity)
    return found
