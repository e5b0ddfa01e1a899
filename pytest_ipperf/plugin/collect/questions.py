"""The question of an item: the metric that it is judged by, and its margin."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.protocols import PROTOCOLS


def question_of(node: pytest.Item, protocol: str) -> Question:
    """Return the question of an item of that protocol; raise UsageError if its markers are invalid."""
    metric = metric_of(node, protocol)
    asked = node.config.stash[SESSION].settings.margin
    return Question(metric, asked or _own_margin(node, metric))


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


def check_markers(node: pytest.Item, protocol: str) -> None:
    """Raise UsageError for invalid markers; `--margin` is not checked, as it may suit one test and not another."""
    _own_margin(node, metric_of(node, protocol))


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
    mark = node.get_closest_marker("margin")
    if mark is None:
        return None
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or set(mark.kwargs) - {"at_least"}:
        raise UsageError('marker margin takes one share and, if needed, at_least: margin("10%", at_least="0.5ms")')
    return Margin.parse(mark.args[0], **mark.kwargs)
