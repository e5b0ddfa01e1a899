"""Rates from two readings of interface counters, and around a run with a real snmpd's answers."""

import dataclasses
import shutil
import socket
import threading
import time
from array import array

import pytest

from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.snmp_source import read_source
from pytest_ipperf.lab.runs.result import RunResult
from pytest_ipperf.lab.snmp import counters as module
from pytest_ipperf.lab.snmp.counters import InterfaceCounters, received_bit_s
from tests.lab.snmp.test_client import COMMUNITY, snmpd  # noqa: F401 - a fixture


def reading(uptime_s, **received):
    names = {name: {"in_bytes": each, "out_bytes": 0, "bits": 32} for name, each in received.items()}
    return {"uptime_s": uptime_s, "interfaces": names}


def test_the_interface_that_received_most_counts_by_the_agents_own_clock():
    assert received_bit_s(reading(10.0, lo=5, eth0=1000), reading(12.0, lo=5, eth0=2000)) == 4000.0


def test_a_counter_of_32_bits_may_wrap_once():
    assert received_bit_s(reading(0.5, eth0=2**32 - 100), reading(1.5, eth0=900)) == 8000.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, reading(2.0, eth0=1)),
        (reading(1.0, eth0=1), None),
        (reading(9.0, eth0=1), reading(2.0, eth0=1)),  # the agent was restarted
        (reading(1.0, eth0=1), reading(2.0, eth1=1)),
        (reading(None, eth0=1), reading(2.0, eth0=1)),
    ],
)
def test_without_two_readings_of_one_agent_there_is_no_rate(before, after):
    assert received_bit_s(before, after) is None


RESULT = RunResult(
    data=RunData(
        attempted=1, failed={}, columns=("at_s",), samples=array("d"), deadline_s=1.0, facts={"interface_bytes": 1.0}
    ),
    proof={}, violations=(), unsettled=(),
)  # fmt: skip


def bed_with(source):
    """Return testbed loopback, whose client has an SNMP agent."""
    bed = BUILTIN["loopback"]
    return dataclasses.replace(bed, client=dataclasses.replace(bed.client, snmp=source))


def send(over, bit_s):
    """Send at that rate over the loopback device, by a fixed schedule, as a busy machine wakes the sender late."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        began = time.monotonic()
        number = 0
        while not over.wait(max(0.0, began + number * 80_000 / bit_s - time.monotonic())):
            sock.sendto(bytes(10_000), sock.getsockname())
            number += 1


@pytest.mark.skipif(not shutil.which("snmpget"), reason="no snmpget here (Debian: apt-get install snmp)")
def test_a_real_agents_rate_around_a_run_is_that_which_was_sent(snmpd, monkeypatch):  # noqa: F811 - the fixture
    monkeypatch.setattr(module, "_LEAST_S", 1.0)
    source = read_source(f"{COMMUNITY}@{snmpd[4]}")
    meters = InterfaceCounters(bed_with(source), print)
    over = threading.Event()
    traffic = threading.Thread(target=send, args=(over, 20e6))
    traffic.start()

    def run():
        time.sleep(8)
        return RESULT

    try:
        time.sleep(2)  # the agent reads the kernel's counters every second
        found = meters.around(run, 8.0)
    finally:
        over.set()
        traffic.join()
    assert found.data.facts["snmp_bit_s"] == pytest.approx(20e6, rel=0.35)


def test_short_runs_and_those_that_count_no_octets_are_left_alone(monkeypatch):
    meters = InterfaceCounters(bed_with(read_source("public@127.0.0.1:9")), print)
    monkeypatch.setattr(meters, "counters", lambda: pytest.fail("asked"))
    assert meters.around(lambda: RESULT, 1.0) is RESULT
