"""What tests get of one arm."""

import math

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.arm_samples import ArmSamples
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError, UsageError

FOUR = Arm(4, "native")


def samples(*runs, failed=0):
    """Make an arm's samples: each run has these times in seconds and so many failures."""
    made = [
        Run(
            arm=FOUR, epoch=number, block=0, slot=0, warmup=False, started_at=0.0, attempted=len(times) + failed,
            failed={"refused": failed}, times=times, values={"response_time": sum(times) / len(times)},
        )
        for number, times in enumerate(runs)
    ]  # fmt: skip
    return ArmSamples(arm=FOUR, metric="response_time", runs=made)


def test_samples_are_those_of_each_run_and_quantiles_those_of_all():
    found = samples((1.0, 2.0), (3.0, 4.0))
    assert found.samples == ((1.0, 2.0), (3.0, 4.0))
    assert (found.values, found.mean) == ((1.5, 3.5), 2.5)
    assert (found.p50, found.quantile(0.75), found.p95, found.p99, found.p999) == (2.0, 3.0, 4.0, 4.0, 4.0)
    assert (found.attempted, found.completed, found.failed_share) == (4, 4, 0.0)


def test_failed_connections_are_infinitely_slow():
    found = samples((1.0, 2.0), (3.0,), failed=1)
    assert (found.quantile(0.6), found.p95, found.failed_share) == (3.0, math.inf, pytest.approx(0.4))


def test_flows_have_no_quantiles_and_an_arm_without_runs_has_nothing():
    flow = Run(
        arm=FOUR, epoch=0, block=0, slot=0, warmup=False, started_at=0.0, attempted=9, failed={},
        values={"throughput": 1e8},
    )  # fmt: skip
    found = ArmSamples(arm=FOUR, metric="throughput", runs=[flow])
    assert found.mean == 1e8
    with pytest.raises(UsageError, match="flows keep no times of connections"):
        found.quantile(0.95)
    with pytest.raises(InvalidError, match="no run of ipv4 has a value of response_time"):
        _ = samples().mean
    assert samples().failed_share == 0.0
