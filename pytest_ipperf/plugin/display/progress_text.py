"""Text of a workload's progress lines, the same whether made from its own process or from its journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.portable.units import quantity_text, seconds_text
from pytest_ipperf.metrics import METRICS

_PACES = (0.1, 10.0)
"""Bounds of the ratio of a workload's duration to its forecast by which other forecasts are corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPosition:
    """Position of a workload in its session: the `number`th of `count`.

    `runs_before` are the runs of workloads already measured, `runs_after` those of workloads still to be measured, up
    to their first looks. `forecast_s` and `later_s` are the forecasts of this workload and of the later ones.
    """

    number: int
    count: int
    runs_before: int
    runs_after: int
    forecast_s: float
    later_s: float


class ProgressText:
    """Progress of one workload from its beginning; every `now_s` is of the same clock.

    With a `position`, the lines count the session's workloads and runs, and give the session's time left.
    """

    def __init__(self, plan: Plan, now_s: float, position: SessionPosition | None = None) -> None:
        self.plan = plan
        self._position = position
        self._began_s = now_s
        self._look = 0
        self._planned = plan.first_runs
        self._done = self._kept_done = 0
        self._kept: Mapping[int, int] = {}
        self._service = ""

    @property
    def _title(self) -> str:
        if not self.plan.confirms:
            return f"{self.plan.workload}"
        number = f" (set {self.plan.confirms})" if self.plan.confirms > 1 else ""
        return f"{self.plan.workload} again{number}"

    def begun(self) -> str:
        """Return the line of a measurement that begins, empty for one that needs none."""
        if not self.plan.confirms:
            return ""
        arms = ", ".join(map(str, self.plan.arms))
        return (
            f"  {self.plan.workload}: seems beyond a margin; measuring {arms} in {len(self.plan.epochs)} fresh epochs"
        )

    def keep(self, runs: Mapping[int, int]) -> None:
        """Note the numbers of runs that an earlier session has made, by epoch."""
        self._kept = runs
        self._skip_kept()

    def _skip_kept(self) -> None:
        kept = sum(self._kept.get(epoch.number, 0) for epoch in self.plan.look(self._look))
        self._done += kept
        self._kept_done += kept

    def epoch_started(self, service: str) -> None:
        """Note the server of the epoch that has started."""
        self._service = service

    def run_done(self, now_s: float, arm: str, epoch: int, values: Mapping[str, float | None]) -> str:
        """Count a finished run; return the line with its position, first figure and the time left."""
        self._done += 1
        plan = self.plan
        took_s = now_s - self._began_s
        left_s = took_s / (self._done - self._kept_done) * max(0, self._planned - self._done)
        if self._position is not None:
            return self._of_session(self._position, took_s, left_s, f"{arm} {_value_text(values)}", epoch)
        look = f"  look {self._look + 1}/{plan.looks}" if plan.looks > 1 else ""
        return (
            f"  {self._title}{look}  epoch {epoch + 1}/{plan.epochs_by(self._look + 1)}"
            f"  run {self._done}/{self._planned}"
            f"  {arm} {_value_text(values)}  {seconds_text(left_s)} left"
        )

    def _of_session(self, position: SessionPosition, took_s: float, left_s: float, figure: str, epoch: int) -> str:
        """Return the line with the session's position; later forecasts are corrected by the pace of this workload."""
        low, high = _PACES
        pace = (took_s + left_s) / position.forecast_s if position.forecast_s else 1.0
        later_s = position.later_s * min(max(pace, low), high)
        done = position.runs_before + self._done
        planned = position.runs_before + self._planned + position.runs_after
        look = f"look {self._look + 1}/{self.plan.looks}  " if self.plan.looks > 1 else ""
        return (
            f"  workload {position.number}/{position.count}  run {done}/{planned}  "
            f"about {seconds_text(left_s + later_s)} left  {self._title}  {look}"
            f"epoch {epoch + 1}/{self.plan.epochs_by(self._look + 1)}  {figure}"
        )

    def look_done(self, number: int, undecided: Collection[str], going_on: Collection[Arm]) -> str:
        """Note a look, after which the arms `going_on` are measured on; return its line, empty if there are none."""
        if not going_on:
            return ""
        plan = self.plan
        self._look = number + 1
        self._planned = self._done + plan.runs_of(plan.look(number + 1), going_on)
        self._skip_kept()
        return f"  {self._title}: undecided at look {number + 1} of {plan.looks}: {', '.join(undecided)}; measuring on"

    def broke_off(self, sentence: str) -> str:
        """Return the line of a measurement that failed."""
        return f"  broke off {self._title} after {self._done} of {self._planned} runs: {sentence}"

    def ended(self, now_s: float) -> str:
        """Return the line of a complete measurement."""
        took, plan = seconds_text(now_s - self._began_s), self.plan
        looks = f", {self._look + 1} of {plan.looks} looks" if plan.looks > 1 else ""
        return f"  measured {self._title}: {self._done} runs in {took}{looks}, server {self._service}"


def _value_text(values: Mapping[str, float | None]) -> str:
    name, value = next(iter(values.items()))
    return "-" if value is None else quantity_text(value, METRICS[name].metric.unit)
