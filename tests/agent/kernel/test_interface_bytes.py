"""Counters of an interface, beside what the kernel says elsewhere."""

import socket
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.interface_bytes import interface_bytes


def of_proc(device):
    (line,) = [each for each in Path("/proc/net/dev").read_text().splitlines() if each.strip().startswith(f"{device}:")]
    fields = line.partition(":")[2].split()
    return int(fields[0]), int(fields[8])


def test_they_are_those_that_proc_has():
    before, seen, after = of_proc("lo"), interface_bytes("lo"), of_proc("lo")
    assert before[0] <= seen.received <= after[0]
    assert before[1] <= seen.sent <= after[1]


def test_a_datagram_counts_with_its_headers():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        before = interface_bytes("lo")
        sender.sendto(bytes(1000), receiver.getsockname())
        after = interface_bytes("lo")
    assert after.received - before.received >= 20 + 8 + 1000  # lo has no Ethernet header


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(OSError, match="no interface with this name"):
        interface_bytes("nothing0")
