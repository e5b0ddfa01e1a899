"""A measurement is rebuilt from its runs, and from the paths and the rate of its arms."""

import json
from array import array

import pytest

from pytest_ipperf.core.design.cell import Arm, Cell, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.plan import plan_for
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.experiment import Conditions, Measurement, answer
from pytest_ipperf.experiment.measurement import Network
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.plugin.session.rebuild import load_measurement
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.store import EventLog
from pytest_ipperf.store.log.event_log import _plain
from pytest_ipperf.store.session_reader import StoredWorkload

FOUR, TUNNEL = Arm(4, "native"), Arm(6, "tunnel")
WORKLOAD = Workload(testbed="lab.100mbit", protocol="http", client="lean", connections=1, payload_bytes=1024)
DESIGN = DESIGNS["paper"]  # of a single epoch, so that the order may be as even as this


def measured():
    """A workload of a lab with a rate, as measured by the experiment."""
    plan = plan_for(WORKLOAD, [FOUR, TUNNEL], DESIGN, 1)
    client = ClientFacts(cpu_s=0.1, wall_s=0.2, connections=1, lag_s=0.0, peak=1, tcp={})
    row = (0.0, 0.001, 0.002, 0.003, 0.01, 0.0, 0.0)
    runs = [
        Run(
            arm=arm, epoch=epoch.number, block=block, slot=slot, warmup=block < 0, started_at=0.0, attempted=1,
            failed={}, values={"response_time": 0.01}, completed_s=0.01, times=(0.01,), client=client,
            facts={"start_skew_s": 0.009 if block < 0 else 0.003 - 0.001 * slot, "start_skew_error_s": 0.001},
        )
        for epoch in plan.epochs
        for block, arms in enumerate((epoch.warmups, *epoch.blocks), start=-1)
        for slot, arm in enumerate(arms)
    ]  # fmt: skip
    return Measurement(
        plan=plan,
        service=ServerEndpoint("apache", "2.4", embedded=False, port=80, resolver_port=53, resolver="bind 9"),
        runs=tuple(runs),
        rows={(arm, epoch.number): (row,) for arm in (FOUR, TUNNEL) for epoch in plan.epochs},
        looks={FOUR: 1, TUNNEL: 1},
        trouble={},
        stopped="",
        seconds=(1.0,),
        baseline_costs={},
        answered=frozenset(),
        network=Network(
            links=Links(rate_bit_s=1e8, loss=0.01, delay_s=0.02),
            one_machine=True,
            backends={"tunnel": "ebpf"},
            client_hosts=("alpha", "gamma"),
        ),
        trains={
            (arm, epoch.number): {"client": 1e8, "server": None if arm == TUNNEL else 9.99e7}
            for arm in (FOUR, TUNNEL)
            for epoch in plan.epochs
        },
        hosts={"client": {"kernel": "6.1"}},
    )


def kept(measurement, folder):
    """Return the measurement as read back from a journal."""
    journal = EventLog(folder, "main")
    facts = [
        {
            "arm": str(run.arm), "epoch": run.epoch, "block": run.block, "slot": run.slot, "warmup": run.warmup,
            "started_at": 0.0, "attempted": 1, "failed": {}, "values": run.values, "facts": run.facts, "notes": [],
            "client": run.client, "columns": PHASES, "rows": 1,
            "offset": journal.append_samples(array("d", (0.0, 0.001, 0.002, 0.003, 0.01, 0.0, 0.0)).tobytes()),
        }
        for run in measurement.runs
    ]  # fmt: skip
    journal.close()
    epochs = [
        {
            "epoch": epoch.number, "fingerprint": measurement.hosts,
            "paths": {str(arm): {"trains": measurement.trains[arm, epoch.number]} for arm in (FOUR, TUNNEL)},
        }
        for epoch in measurement.plan.epochs
    ]  # fmt: skip
    complete = {
        "state": ServerState().digest_without_password, "service": measurement.service, "network": measurement.network,
        "looks": {"ipv4": 1, "ipv6-tunnel": 1}, "answered": [], "stopped": "", "seconds": [1.0],
    }  # fmt: skip
    journal = json.loads(json.dumps({"epochs": epochs, "runs": facts, "complete": complete}, default=_plain))
    return StoredWorkload(folder / "main.f64", {}, journal["epochs"], journal["runs"], [], journal["complete"])


def test_the_links_and_their_trains_are_those_that_were_measured(tmp_path):
    measurement = measured()
    rebuilt = load_measurement(kept(measurement, tmp_path), measurement.plan, ServerState(), 10.0)
    assert (rebuilt.network, rebuilt.trains) == (measurement.network, measurement.trains)
    conditions = Conditions(design=DESIGN, reference=FOUR, server="auto", deadline_s=10.0, owner="test", wait_s=1.0)
    cell, question = Cell(WORKLOAD, TUNNEL), Question("response_time", Margin.parse("10%"))
    (record,) = answer(rebuilt, cell, conditions, question).records
    assert (record,) == answer(measurement, cell, conditions, question).records
    assert (record.backend, record.rate_bit_s) == ("ebpf", 1e8)
    assert record.client_hosts == ("alpha", "gamma")
    assert (record.start_skew_s, record.start_skew_error_s) == (0.003, 0.001)
    assert record.start_skew_median_s == pytest.approx(0.0025)
    assert record.test.pace is not None
    assert record.test.pace.too_slow
