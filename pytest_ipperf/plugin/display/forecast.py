"""Forecast the measurements, their duration, and the differences that they can detect on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.plugin.session.spread_cache import CellMetric, compared, power_forecasts

if TYPE_CHECKING:  # scipy comes with it
    from pytest_ipperf.core.records.power_forecast import PowerForecast


def forecast_lines(session: Session, *, each: bool) -> list[str]:
    """Return the lines that describe the plan; with `each`, also those of every workload."""
    plans, resumed = session.to_measure, _resumed_lines(session)
    if not plans:
        return resumed
    design, forecasts = session.settings.design, dict(power_forecasts(session))
    seconds = {plan.workload: session.forecast_s(plan) for plan in plans}
    total_s = sum(seconds.values())
    first, most = sum(plan.first_runs for plan in plans), sum(plan.runs for plan in plans)
    workloads = f"{len(plans)} workload{'s' * (len(plans) > 1)}"
    sizes = dict.fromkeys(session.design_of(plan.workload).size_text() for plan in plans)
    scale = f"{' and '.join(sizes)} (design {design.name}), {_range(str(first), str(most))} runs"
    lines = [f"plan: {workloads}, {scale}, about {duration_text(session, total_s)}"]
    if each:
        lines += [line for plan in plans for line in _workload_lines(session, plan, seconds[plan.workload], forecasts)]
    lines += _confirming_lines(session)
    lines += _budget_lines(session, total_s)
    lines += _detectable_lines(session, forecasts)
    return [f"ipperf: {line}" for line in lines] + resumed


def _resumed_lines(session: Session) -> list[str]:
    """Return the lines on reused workloads and on those measured anew; shown first, as measuring may take hours."""
    resumed = session.resumed
    if resumed is None or not session.plans:
        return []
    origins = Counter(filter(None, map(session.reused_from, session.plans))) or {resumed.kept.name: 0}
    lines = [
        f"{count} of {len(session.plans)} workloads are reused from session {name}"
        for name, count in sorted(origins.items())
    ]
    lines += [f"{workload} goes on after the {runs} runs of session {name}" for workload, name, runs in resumed.begun()]
    lines += [f"measured anew: {workload}: {why}" for workload, why in resumed.not_reused.items()]
    return [f"ipperf: {line}" for line in lines]


def duration_text(session: Session, first_s: float) -> str:
    """Return the text of a duration: up to the first look, and at most."""
    return _range(seconds_text(first_s), seconds_text(first_s * session.settings.design.looks))


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _workload_lines(
    session: Session, plan: Plan, first_s: float, forecasts: Mapping[CellMetric, PowerForecast]
) -> list[str]:
    runs = _range(str(plan.first_runs), str(plan.runs))
    about = duration_text(session, first_s)
    lines = [f"  {plan.workload}: {', '.join(map(str, plan.arms))}; {runs} runs, about {about}"]
    cells = [Cell(plan.workload, arm) for arm in plan.arms]
    of_plan = {item: found for cell in cells for item, found in forecasts.items() if item.cell == cell}
    if of_plan:
        detectable = ", ".join(f"{item.cell.arm} {_detectable_text(found)}" for item, found in of_plan.items())
        lines.append(f"    detects differences of: {detectable}")
    return lines


def _detectable_text(found: PowerForecast) -> str:
    margin = "" if found.margin_fraction is None else f" (margin {_share(found.margin_fraction, found)})"
    return f"{_share(found.detectable, found)}{margin}"


def _budget_lines(session: Session, total_s: float) -> list[str]:
    budget_s = session.settings.budget_s
    if budget_s is None:
        return []
    budget = seconds_text(budget_s)
    if total_s > budget_s:
        return [f"the budget of {budget} is too small for all of it; what does not fit is INCONCLUSIVE"]
    if total_s * session.settings.design.looks > budget_s:
        return [f"the budget of {budget} may be too small for every look; what is undecided by then is INCONCLUSIVE"]
    return []


def _confirming_lines(session: Session) -> list[str]:
    """Return the line on the fresh epochs of cells that exceed their margins."""
    if session.settings.flags and session.settings.confirm:
        return ["--ipperf-confirm has no effect in a night, which measures flagged cells again itself"]
    if not session.confirms:
        return []
    more = seconds_text(sum(map(session.confirming_s, session.to_measure)))
    scale = session.settings.design.confirming().size_text()
    return [f"up to {more} more if cells exceed their margins: each is measured again in {scale} (--ipperf-confirm)"]


def _detectable_lines(session: Session, forecasts: Mapping[CellMetric, PowerForecast]) -> list[str]:
    """Return what the design detects here, from the best cell to the worst, and a warning for each too insensitive."""
    if not forecasts:
        return []
    counts = [found.sessions for found in forecasts.values()]
    count = _range(str(min(counts)), str(max(counts)))
    ordered = sorted(forecasts, key=lambda cell: forecasts[cell].detectable)
    ends = dict.fromkeys((ordered[0], ordered[-1]))
    detectable = " to ".join(f"{_share(forecasts[cell].detectable, forecasts[cell])} ({cell})" for cell in ends)
    looks = ", by its last look," if session.settings.design.looks > 1 else ""
    cells = len(compared(session))
    unknown = cells - len({item.cell for item in forecasts})
    rest = f"; {unknown} of {cells} cells have no earlier data" if unknown else ""
    sessions = f"{count} earlier session{'s' * (count != '1')}"
    lines = [f"at the spread of {sessions} this design{looks} detects differences of {detectable}{rest}"]
    return lines + [_warning(item, found) for item, found in forecasts.items() if found.falls_short]


def _warning(item: CellMetric, found: PowerForecast) -> str:
    if found.epochs is None:
        remedy = "no number of epochs would suffice"
    elif found.better is not None:
        name, detectable = found.better
        remedy = (
            f"about {found.epochs} epochs like these would suffice; --design={name} detects {_share(detectable, found)}"
        )
    else:
        remedy = f"about {found.epochs} epochs like these would suffice, but no design does"
    margin, fraction = _share(found.margin_fraction or 0.0, found), _share(found.detectable, found)
    return f"{item}: a margin of {margin} is less than the {fraction} that this design can detect here; {remedy}"


def _share(fraction: float, found: PowerForecast) -> str:
    return f"{100 * fraction:.{3 if fraction >= 0.1 else 2}g} {found.unit}"
