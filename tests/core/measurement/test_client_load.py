"""The client's part: shares, lateness and counters of several runs, put together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.measurement.client_load import CLIENT_BOUND, ClientFacts, client_load


def facts(**changed):
    plain = {"cpu_s": 0.5, "wall_s": 1.0, "connections": 100, "lag_s": 0.003, "peak": 10, "tcp": {}}
    return ClientFacts(**{**plain, **changed})


def test_the_share_is_the_floor_in_the_response_time_where_that_is_less_than_the_processor_was_busy():
    found = client_load([facts()], [], mean_s=0.01, baseline_cost_s=0.0015)
    assert found.share == pytest.approx(0.15)
    assert not found.client_bound


@pytest.mark.parametrize(("baseline_cost_s", "bound"), [(0.002, False), (0.00201, True), (0.02, True)])
def test_above_a_fifth_it_is_client_bound(baseline_cost_s, bound):
    assert client_load([facts()], [], mean_s=0.01, baseline_cost_s=baseline_cost_s).client_bound is bound
    assert CLIENT_BOUND == 0.2


def test_a_client_that_waits_for_the_network_is_not_what_bounds():
    """The baseline cost includes the network: over a long path it is nearly all of the response time."""
    found = client_load([facts(cpu_s=0.03)], [], mean_s=0.01, baseline_cost_s=0.0099)
    assert found.share == pytest.approx(0.03)
    assert not found.client_bound


def test_without_a_floor_the_share_is_what_the_processor_was_busy():
    assert client_load([facts()], [], mean_s=0.01, baseline_cost_s=None).share == 0.5


def test_long_runs_count_for_more_in_the_share_of_the_processor():
    found = client_load(
        [facts(cpu_s=1.0, wall_s=1.0), facts(cpu_s=0.0, wall_s=3.0)], [], mean_s=1, baseline_cost_s=None
    )
    assert found.cpu_share == 0.25


def test_lag_and_peak_are_medians_and_counters_are_sums():
    runs = [facts(lag_s=0.001 * lag, peak=peak, tcp=tcp) for lag, peak, tcp in (
        (1, 90, {"TCPTimeouts": 1}), (500, 100, {}), (3, 100, {"TCPTimeouts": 2, "ListenDrops": 1}),
    )]  # fmt: skip
    found = client_load(runs, [], mean_s=1, baseline_cost_s=None)
    assert (found.lag_s, found.peak) == (0.003, 100)
    assert found.tcp == {"ListenDrops": 1, "TCPTimeouts": 3}


def test_lateness_is_the_95th_percentile_of_what_the_kernel_told():
    late = [math.nan, *(number / 1000 for number in range(1, 101)), math.nan]
    assert client_load([facts()], late, mean_s=1, baseline_cost_s=None).late_s == 0.095
    assert client_load([facts()], [math.nan], mean_s=1, baseline_cost_s=None).late_s is None


def test_workers_are_busy_each_for_itself():
    assert client_load([facts(cpu_s=1.6, processors=2)], [], mean_s=1, baseline_cost_s=None).cpu_share == 0.8


def test_the_processor_is_never_busier_than_all_the_time():
    """A burst's time ends with its last figures, but closing open connections takes processor time after that."""
    assert client_load([facts(cpu_s=1.01)], [], mean_s=1, baseline_cost_s=None).cpu_share == 1


def test_where_connections_arrive_at_a_rate_the_time_without_any_makes_no_client_idle():
    arriving = [facts(cpu_s=0.5, wall_s=None, connections=100)]
    found = client_load(arriving, [], mean_s=0.02, baseline_cost_s=0.008)
    assert found.share == pytest.approx(0.4)
    assert found.cpu_share == pytest.approx(0.25)
    assert client_load(arriving, [], mean_s=0.02, baseline_cost_s=None).share == pytest.approx(0.25)
    assert client_load(arriving, [], mean_s=0.001, baseline_cost_s=None).share == 1
    assert (
        client_load(arriving, [], mean_s=0.001, baseline_cost_s=0.0013).share == 1
    )  # no more than all, whatever the spread


def test_how_far_behind_is_the_99th_percentile_and_too_far_is_a_fifth_of_the_response_time():
    behind = [number / 100_000 for number in range(1, 101)]
    found = client_load([facts()], [], behind, mean_s=1, baseline_cost_s=None)
    assert found.behind_s == 0.00099
    assert found.behind_too_far(0.0049)
    assert not found.behind_too_far(0.005)
    closed = client_load([facts()], [], [0.0] * 10, mean_s=1, baseline_cost_s=None)
    assert closed.behind_s == 0
    assert not closed.behind_too_far(0.001)
    assert client_load([facts()], [], mean_s=1, baseline_cost_s=None).behind_s == 0


@given(st.lists(st.floats(0, 10), min_size=1))
def test_nineteen_in_twenty_were_no_later_than_that(late):
    found = client_load([facts()], late, mean_s=1, baseline_cost_s=None).late_s
    assert found in late
    assert sum(each <= found for each in late) >= 0.95 * len(late)
