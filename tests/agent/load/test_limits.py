"""Limits of descriptors and ports: a run that exceeds them is refused before it starts, in one sentence."""

from __future__ import annotations

import re
import resource

import pytest

from pytest_ipperf.agent.load.limits import enough_descriptors, enough_ports, most_descriptors
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.portable.errors import LabError


def spec(**changed):
    settings = {
        "protocol": "http", "client": "lean", "payload_bytes": 1000, "connections": 5000, "bursts": 3, "ipver": 4,
        "resolver": "", "resolver_port": 0, "name": "127.0.0.1", "port": 9, "source": "127.0.0.1", "deadline_s": 10.0,
        "ident": 0,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


@pytest.fixture
def limits(monkeypatch):
    """Replace the limits of this process; record what they were set to."""
    seen = {"soft": 1024, "hard": 4096}

    def set_to(_, pair):
        seen["soft"], seen["hard"] = pair

    monkeypatch.setattr(resource, "getrlimit", lambda _: (seen["soft"], seen["hard"]))
    monkeypatch.setattr(resource, "setrlimit", set_to)
    return seen


def test_too_few_descriptors_are_told_with_what_would_be_enough(limits):
    sentence = (
        "5000 connections need 5064 file descriptors in a process here, and no more than 4096 are allowed "
        "(ulimit -H -n); allow 5064, or measure with fewer connections or more workers"
    )
    with pytest.raises(LabError, match=f"^{re.escape(sentence)}$"):
        enough_descriptors(spec())
    assert limits["soft"] == 1024
    limits["hard"] = 5064
    enough_descriptors(spec())
    assert limits["soft"] == 5064


def test_workers_have_descriptors_of_their_own(limits):
    enough_descriptors(spec(workers=2))
    assert limits["soft"] == 4096


def test_the_soft_limit_is_never_lowered(limits):
    limits.update(soft=4000)
    enough_descriptors(spec(connections=10))
    assert limits["soft"] == 4000


def test_a_host_without_a_limit_has_enough(limits):
    limits.update(hard=resource.RLIM_INFINITY)
    enough_descriptors(spec(connections=50_000))
    assert limits["soft"] > 50_000


def test_sessions_that_stay_are_counted_for_each_burst_and_data_connections_for_one():
    assert most_descriptors(spec(protocol="http", connections=100)) == 164
    assert most_descriptors(spec(protocol="ftp", connections=100)) == 464


def test_an_ordinary_host_has_ports_for_five_thousand():
    enough_ports(spec())


PORTS = """
from test_limits import *
try:
    enough_ports(spec(connections={connections}, rate_per_s={rate}, protocol="{protocol}"))
except LabError as error:
    print(error)
"""
NARROW = "ip link set lo up; echo 40000 40049 >/proc/sys/net/ipv4/ip_local_port_range"


def test_too_few_ports_are_told_with_what_there_is(isolated):
    assert isolated(PORTS.format(connections=51, rate=0, protocol="http"), up=NARROW) == (
        "51 connections at once need as many ports, and there are 50 from 40000 to 40049 "
        "(net.ipv4.ip_local_port_range); widen the range, or measure with fewer connections"
    )
    assert isolated(PORTS.format(connections=50, rate=0, protocol="http"), up=NARROW) == ""
    assert isolated(PORTS.format(connections=51, rate=10, protocol="http"), up=NARROW) == ""  # not open at once


@pytest.mark.parametrize("rate", [0, 10])
def test_sessions_that_stay_keep_the_ports_of_all_bursts(isolated, rate):
    assert isolated(PORTS.format(connections=17, rate=rate, protocol="ftp"), up=NARROW) == (
        "17 connections in each of 3 bursts, which stay to the end of the run, need 51 ports, and there are 50 from "
        "40000 to 40049 (net.ipv4.ip_local_port_range); widen the range, or measure with fewer connections"
    )
    assert isolated(PORTS.format(connections=16, rate=rate, protocol="ftp"), up=NARROW) == ""


REAL = """
import resource
from test_limits import *
from pytest_ipperf.agent.load.runner import load
from tests.support.servers.tcp import silent_listener
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 100))
with silent_listener() as port:
    try:
        load(spec(connections=37, port=port))
    except LabError as error:
        print(error)
    told = load(spec(connections=36, bursts=1, port=port, deadline_s=1.0))
    print(told.failed)
"""


def test_a_run_that_cannot_be_is_not_begun_and_one_that_can_is(isolated):
    said, failed = isolated(REAL).splitlines()
    assert said.startswith("37 connections need 101 file descriptors in a process here, and no more than 100 are ")
    assert failed == "{'talk deadline': 36}"
