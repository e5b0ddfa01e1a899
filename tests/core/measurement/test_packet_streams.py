"""Streams of packets among the samples of a run."""

from array import array

import pytest

from pytest_ipperf.core.measurement.packet_streams import mean_of_streams, packet_streams
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics import METRICS


def data(columns, *rows):
    samples = array("d", [value for row in rows for value in row])
    return RunData(attempted=len(rows), failed={}, columns=columns, samples=samples, deadline_s=1.0)


def test_a_run_without_streams_has_one():
    (one,) = packet_streams(data(("sequence", "sent_s", "received_s"), (0, 1.0, 1.5), (1, 2.0, 2.5)))
    assert one == (array("d", [0, 1]), array("d", [1.0, 2.0]), array("d", [1.5, 2.5]))


def test_streams_are_told_apart_in_order_of_arrival():
    columns = ("direction", "stream", "sequence", "sent_s", "received_s")
    run = data(columns, (0, 4, 0, 0.0, 0.1), (1, 7, 0, 0.0, 0.5), (0, 4, 2, 0.2, 0.4), (1, 7, 1, 0.1, 0.6))
    four, seven = packet_streams(run)
    assert (four.sequence, seven.sequence) == (array("d", [0, 2]), array("d", [0, 1]))
    # One stream's delay goes from 100 to 200 ms, the other's stays: jitter is 100 / 16 ms in the one, 0 in the other.
    assert METRICS["jitter"].value(run) == pytest.approx(0.1 / 16 / 2)
    # Numbers 0 and 2 are not consecutive.
    assert METRICS["ipdv"].value(run) == pytest.approx(0.0, abs=1e-12)


def test_streams_without_a_figure_are_left_out_of_the_mean():
    assert mean_of_streams([1.0, None, 3.0]) == 2.0
    assert mean_of_streams([None]) is None
