"""Probes of the way back, in a network namespace of their own."""

from __future__ import annotations

import ast

import pytest

from pytest_ipperf.agent.paths.reverse_pmtu import PmtuProber
from pytest_ipperf.core.portable.errors import LabError

BETWEEN = """
from pytest_ipperf.agent.paths.reverse_pmtu import PmtuProber, PmtuReflector
def between(near, far, sizes, asked=1):
    reflector = PmtuReflector(far, 20000)
    prober = PmtuProber(near, far, 20000)
    for _ in range(asked):
        prober.request()
    result = reflector.send(sizes), prober.received(min(sizes))
    prober.close(), reflector.close()
    return result
"""


def said(text):
    return ast.literal_eval(text)


def test_the_mtu_comes_back_and_one_byte_more_is_refused(isolated):
    code = f"{BETWEEN}print([between('127.0.0.1', '127.0.0.2', [65535]), between('::1', '::1', [65536, 65537])])"
    assert said(isolated(code)) == [([], [65535]), ([65537], [65536])]


def test_what_fits_comes_in_order_and_is_waited_for_no_longer(isolated):
    assert said(isolated(f"{BETWEEN}print(between('::1', '::1', [1480, 1481]))")) == ([], [1481, 1480])


def test_who_has_not_asked_gets_nothing_and_silence_is_told(isolated):
    assert said(isolated(f"{BETWEEN}print(between('::1', '::1', [1480], asked=0))")) == ([], [])


def test_what_has_no_way_back_is_silence(isolated):
    code = """
import subprocess
from pytest_ipperf.agent.paths.reverse_pmtu import PmtuProber, PmtuReflector
reflector = PmtuReflector("127.0.0.1", 20000)
prober = PmtuProber("192.0.2.1", "127.0.0.1", 20000)
prober.request()
subprocess.run(["ip", "addr", "del", "192.0.2.1/32", "dev", "lo"], check=True)
print((reflector.send([1480]), prober.received(1480)))
prober.close(), reflector.close()
"""
    assert said(isolated(code, "ip link set lo up; ip addr add 192.0.2.1/32 dev lo")) == ([], [])


def test_an_address_that_is_not_this_hosts_is_told():
    with pytest.raises(LabError, match=r"^no probe of the way back on 192\.0\.2\.1: "):
        PmtuProber("192.0.2.1", "192.0.2.2", 20000)
