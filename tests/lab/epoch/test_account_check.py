"""The choice of accounts: all of them, unless that moves too much, and never more at once than a host can take."""

from __future__ import annotations

import dataclasses
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.epoch import account_check
from pytest_ipperf.lab.epoch.account_check import AT_ONCE, batches, tried_accounts, within_s
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.servers import SERVERS

ARM = Arm(6, "native")
WORK = Workload(testbed="loopback", protocol="ftp", client="lean", connections=1, payload_bytes=1024)


@given(st.integers(1, 3000), st.integers(0, 2**31))
def test_what_is_moved_at_once_and_in_all_and_what_stays_is_bounded(users, payload_bytes):
    made = batches(users, payload_bytes)
    counts = [each.connections * each.bursts for each in made]
    assert all(each.connections <= AT_ONCE for each in made)
    assert all(each.connections == 1 or each.connections * payload_bytes <= 2**26 for each in made)
    assert max(counts) <= 500 + AT_ONCE
    assert sum(counts) * payload_bytes <= max(2**29, 5 * payload_bytes) + 2**26
    assert 1 <= tried_accounts(made, users) <= users
    assert sum(counts) <= users + 10 * len(made)


@given(st.integers(1, 3000))
def test_all_accounts_are_tried_where_that_moves_little(users):
    assert tried_accounts(batches(users, 1024), users) == users


@pytest.mark.parametrize(("payload_bytes", "count"), [(2**20, 500), (10**7, 54), (10**8, 5), (2**33, 5)])
def test_of_large_contents_fewer_are_fetched_from_all_over(payload_bytes, count):
    made = batches(500, payload_bytes)
    assert tried_accounts(made, 500) == count
    assert made[-1].first >= 400 or count == 500


def test_the_deadline_is_no_shorter_than_that_of_the_measurement_and_leaves_time_for_what_is_moved():
    (small,), large = batches(20, 1024), batches(500, 10**8)[0]
    assert 10 < within_s(small, 1024, 1.0) < 11
    assert within_s(small, 1024, 100.0) == 100.0
    assert within_s(large, 10**8, 10.0) == 110.0


def served(server, users, work=WORK):
    """Return the result of `verify` about a server, and the client's specs."""
    if missing := SERVERS[server].missing():
        pytest.skip(f"{server} cannot run here: {missing}")
    with live_testbed(BUILTIN["loopback"], f"test {os.getpid()}", 1.0, lambda _: None) as live:
        service = live.serve(work, server, ServerState(users=users, password="secret"))
        specs, load = [], live._run_load

        def noted(spec, arm):
            specs.append(spec)
            return load(spec, arm)

        live._run_load = noted  # type: ignore[method-assign]
        said = live.verify(ARM, service, work, 0.001)  # a deadline that nothing could keep
        return said.removeprefix(str(service)), specs


@pytest.mark.host
def test_more_accounts_are_verified_than_proftpd_has_room_for_sessions():
    said, specs = served("proftpd", 700)
    assert said.startswith(" holds its 700 accounts, as a log-in to each showed in ")
    assert sum(spec.connections * spec.bursts for spec in specs) == 700


@pytest.mark.host
def test_who_could_not_be_verified_in_time_is_tried_in_part_and_that_is_said(monkeypatch):
    monkeypatch.setattr(account_check, "_MOVED_BYTES", 100_000)
    monkeypatch.setattr(account_check, "_IN_FLIGHT_BYTES", 20_000)
    said, specs = served("pyftpdlib", 40, dataclasses.replace(WORK, payload_bytes=10_000))
    assert said.startswith(" holds 10 of its 40 accounts, as a log-in to each of the 10 showed in ")
    assert said.endswith(" s; the others were not tried, as that would move much")
    assert [(spec.first_index, spec.connections, spec.bursts) for spec in specs] == [
        (0, 2, 1), (8, 2, 1), (16, 2, 1), (24, 2, 1), (32, 2, 1),
    ]  # fmt: skip
