"""Show the means so far of workloads that have no answer yet, of a session that is running or was broken off."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, joined
from pytest_ipperf.report.tables.arm_rows import arm_rank

_MOST = 40


def provisional(summary: SessionSummary) -> Markup:
    """Return a table of the means so far, without intervals or verdicts; empty for a whole session."""
    if summary.completeness.is_whole or not summary.provisional:
        return NOTHING
    rows = list(_rows(summary))
    title = "Begun, without an answer: means so far, which may still change and say nothing about the margin"
    heads = (element("th", text, scope="col") for text in ("workload", "metric", "arm", "runs", "mean so far"))
    table = element("table", caption(title), element("thead", element("tr", *heads)), element("tbody", *rows[:_MOST]))
    more = (
        element("p", f"{len(rows) - _MOST} more are in the records.", class_="soft") if len(rows) > _MOST else NOTHING
    )
    return joined((boxed(title, table), more))


def _rows(summary: SessionSummary) -> Iterator[Markup]:
    found = summary.provisional
    for workload, arm, name in sorted(found, key=lambda place: (place[0], place[2], arm_rank(place[1]))):
        values, metric = found[workload, arm, name], METRICS[name].metric if name in METRICS else None
        if metric is None:
            continue
        mean = statistics.fmean(values)
        unit = unit_of(metric, [mean])
        texts = (metric.title, arm.title, str(len(values)), f"{unit.text(mean)} {unit.name}".rstrip())
        yield element("tr", element("th", workload, scope="row"), *(element("td", text) for text in texts))
