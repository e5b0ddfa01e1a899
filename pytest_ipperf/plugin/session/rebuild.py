"""Rebuild the measurement of a workload from the records of a session."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.measurement.link_rate import TrainRates
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData, completed_s, completed_times, course_of
from pytest_ipperf.core.portable.errors import DamageError, InvalidError, UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.experiment import KeptRuns, Measurement
from pytest_ipperf.experiment.measurement import Network
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.store import StoredWorkload

_UNUSABLE = (DamageError, InvalidError, KeyError, IndexError, TypeError, ValueError, AttributeError, OSError)


def load_measurement(found: StoredWorkload, plan: Plan, state: ServerState, deadline_s: float) -> Measurement:
    """Return the measurement of `plan` from the records of a complete workload.

    Raise UsageError if the server held another `state`, or the records are inconsistent.
    """
    if found.complete.get("state") != state.digest_without_password:
        raise UsageError("its server held other content there (server_state)")
    try:
        return _measurement(found, plan, deadline_s)
    except _UNUSABLE as error:
        raise UsageError(f"its records cannot be used ({type(error).__name__}: {error})") from error


def _measurement(found: StoredWorkload, plan: Plan, deadline_s: float) -> Measurement:
    complete = found.complete
    runs, rows = _runs(found, plan, deadline_s)
    return Measurement(
        plan=plan,
        service=ServerEndpoint(**complete["service"]),
        runs=runs,
        rows=rows,
        looks={Arm.parse(arm): looks for arm, looks in complete["looks"].items()},
        trouble={},
        stopped=complete["stopped"],
        seconds=tuple(complete["seconds"]),
        baseline_costs=_baseline_costs(found),
        answered=frozenset(map(Arm.parse, complete["answered"])),
        network=_network(complete["network"]),
        trains=_trains(found),
        hosts=found.epochs[0]["fingerprint"],
    )


def load_kept(found: StoredWorkload, plan: Plan, state: ServerState, deadline_s: float) -> KeptRuns:
    """Return the runs that were made of `plan` before it broke off.

    Raise UsageError as `load_measurement` does, and if a run contradicts its path.
    """
    if found.workload_event.get("state") != state.digest_without_password:
        raise UsageError("its server held other content there (server_state)")
    if any(run.get("contradictions") for run in found.runs):
        raise UsageError("an arm was not what it is called there")
    try:
        runs, rows = _runs(found, plan, deadline_s)
        costs = _baseline_costs(found)
        began = {run.epoch for run in runs}
        return KeptRuns(
            runs=runs,
            rows=rows,
            services={
                epoch["epoch"]: ServerEndpoint(**epoch["service"]) for epoch in found.epochs if epoch["epoch"] in began
            },
            baseline_costs=costs if len(found.baseline_costs) == len(plan.arms) else {},
            backends={name: value for epoch in found.epochs for name, value in epoch["backends"].items()},
            trains=_trains(found),
            hosts=found.epochs[0]["fingerprint"] if found.epochs else {},
        )
    except _UNUSABLE as error:
        raise UsageError(f"its records cannot be used ({type(error).__name__}: {error})") from error


def _runs(
    found: StoredWorkload, plan: Plan, deadline_s: float
) -> tuple[tuple[Run, ...], dict[tuple[Arm, int], tuple[tuple[float, ...], ...]]]:
    """Return the runs, and the samples of connections by arm and epoch."""
    runs, kind = [], PROTOCOLS[plan.workload.protocol].kind
    rows: dict[tuple[Arm, int], list[tuple[float, ...]]] = {}
    for facts, samples in zip(found.runs, found.samples(), strict=True):
        outcome = RunData(
            attempted=facts["attempted"],
            failed=facts["failed"],
            columns=tuple(facts["columns"]),
            samples=samples,
            deadline_s=deadline_s,
            facts=facts["facts"],
        )
        run = _run(facts, outcome)
        runs.append(run)
        if not run.warmup:
            rows.setdefault((run.arm, run.epoch), []).extend(kind.connection_rows(outcome.rows()))
    return tuple(runs), {place: tuple(samples) for place, samples in rows.items()}


def _baseline_costs(found: StoredWorkload) -> dict[Arm, float]:
    return {Arm.parse(each["arm"]): each["value"] for each in found.baseline_costs if each["value"] is not None}


def _trains(found: StoredWorkload) -> dict[tuple[Arm, int], TrainRates]:
    return {
        (Arm.parse(arm), epoch["epoch"]): facts["trains"]
        for epoch in found.epochs
        for arm, facts in epoch["paths"].items()
    }


def _network(facts: Mapping[str, Any]) -> Network:
    clients = tuple(facts.get("client_hosts", ()))
    return Network(**{**facts, "links": Links(**facts["links"]), "client_hosts": clients})


def _started_at(facts: Mapping[str, Any]) -> float:
    """Return the start of a run on the monotonic clock of now, which another boot or machine does not share."""
    if "began_at" not in facts:
        return float(facts["started_at"])
    return float(facts["began_at"]) - time.time() + time.monotonic()


def _run(facts: Mapping[str, Any], outcome: RunData) -> Run:
    """Return one run; raise InvalidError if its values do not follow from its samples."""
    values = {name: METRICS[name].value(outcome) for name in facts["values"]}
    for name, value in values.items():
        logged = facts["values"][name]
        if (value is None) != (logged is None) or (value is not None and not math.isclose(value, logged, rel_tol=1e-9)):
            raise InvalidError(f"its samples give {value} for {name}, but {logged} was recorded")
    return Run(
        arm=Arm.parse(facts["arm"]),
        epoch=facts["epoch"],
        block=facts["block"],
        slot=facts["slot"],
        warmup=facts["warmup"],
        started_at=_started_at(facts),
        attempted=facts["attempted"],
        failed=facts["failed"],
        values=values,
        client=ClientFacts(**facts["client"]) if facts["client"] else None,
        completed_s=completed_s(outcome),
        facts=facts["facts"],
        notes=tuple(facts["notes"]),
        times=completed_times(outcome),
        course=course_of(outcome),
        began_at=facts.get("began_at", 0.0),
        took_s=facts.get("took_s", 0.0),
    )
