"""Offloads of a device, read and set here and compared with ethtool's output."""

from __future__ import annotations

import ast
import socket

import pytest

from pytest_ipperf.agent.kernel.ethtool import offloads
from tests.support.needs import require

UP = "ip link add one type veth peer name two"
SHOWN = """
import re, subprocess
from pytest_ipperf.agent.kernel.ethtool import features, offloads, set_features, set_offloads
from pytest_ipperf.core.portable.errors import LabError
# Not `tcp-segmentation-offload`, which is on for ethtool while any feature with a name like it is.
NAMES = {"tso": "tx-tcp-segmentation", "gso": "generic-segmentation-offload", "sg": "tx-scatter-gather",
         "gro": "generic-receive-offload", "tx-checksum": "tx-checksumming", "rx-checksum": "rx-checksumming"}
def shown():
    told = subprocess.run(["ethtool", "-k", "one"], check=True, capture_output=True, text=True).stdout
    return {name: re.search(rf"^\\s*{long}: (on|off)", told, re.M)[1] == "on" for name, long in NAMES.items()}
def set_by_ethtool(name, on):
    short = {"tx-checksum": "tx", "rx-checksum": "rx"}.get(name, name)
    subprocess.run(["ethtool", "-K", "one", short, "on" if on else "off"], check=True, capture_output=True)
"""


@pytest.fixture(scope="module")
def beside_ethtool(isolated):
    require("ethtool")
    return lambda code: ast.literal_eval(isolated(SHOWN + code, UP))


def test_what_is_read_is_what_ethtool_shows(beside_ethtool):
    code = """
found = [(offloads("one"), shown())]
for name in NAMES:
    set_by_ethtool(name, False)
    found.append((offloads("one"), shown()))
    set_by_ethtool(name, True)
    found.append((offloads("one"), shown()))
print(found)
"""
    found = beside_ethtool(code)
    assert [read for read, _ in found] == [shown for _, shown in found]
    assert len({tuple(sorted(read.items())) for read, _ in found}) > 5


def test_what_is_set_is_what_ethtool_shows_and_is_undone_by_what_was_before(beside_ethtool):
    code = """
at_first, found = shown(), []
for wanted in WANTED:
    before = features("one")
    set_offloads("one", wanted)
    found.append((wanted, shown()))
    set_features("one", before.wanted)
    assert features("one") == before
    found.append((at_first, shown()))
print(found)
"""
    each = [{name: False} for name in ("tso", "gso", "gro", "tx-checksum", "rx-checksum", "sg")]
    wanted = [*each, {name: False for one in each for name in one}, {"gro": True, "tso": False}]
    found = beside_ethtool(f"WANTED = {wanted!r}{code}")
    assert [asked for asked, _ in found] == [{name: shown[name] for name in asked} for asked, shown in found]


def test_an_offload_that_cannot_be_switched_is_named(isolated):
    code = """
from pytest_ipperf.agent.kernel.ethtool import offloads, set_offloads
from pytest_ipperf.core.portable.errors import LabError
for device, wanted in (("lo", {"sg": False, "gso": True}), ("none", {"gro": True, "tso": False})):
    try:
        set_offloads(device, wanted)
    except LabError as error:
        print(error)
print(offloads("lo")["sg"])
"""
    assert isolated(code).splitlines() == [
        "device 'lo': offloads cannot be switched: sg off",
        "device 'none': offloads cannot be switched: No such device",
        "True",
    ]


def test_who_may_not_set_them_is_told_so(isolated):
    code = """
from pytest_ipperf.agent.kernel.ethtool import offloads, set_offloads
from pytest_ipperf.core.portable.errors import LabError
import ctypes
class Rights(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in "abcdef"]
# capset(2), version 3: none is left.
assert ctypes.CDLL(None).capset(ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)), ctypes.byref(Rights())) == 0
try:
    set_offloads("one", {"gro": not offloads("one")["gro"], "tso": True})
except LabError as error:
    print(error)
"""
    assert isolated(code, UP) == "device 'one': offloads cannot be switched: Operation not permitted"


def test_a_mixed_setting_is_restored_feature_by_feature(beside_ethtool):
    code = """
def all_shown():
    return subprocess.run(["ethtool", "-k", "one"], check=True, capture_output=True, text=True).stdout
# One of the features of TSO alone is off, so is checksumming, which TSO depends on, and is wanted all the same.
for words in (["tx-tcp6-segmentation", "off"], ["tx", "off"], ["gro", "off"]):
    subprocess.run(["ethtool", "-K", "one", *words], check=True, capture_output=True)
before, shown_before = features("one"), all_shown()
for level in ({"tso": True, "gso": True, "tx-checksum": True, "sg": True, "gro": True}, {"gso": False, "tso": False}):
    set_offloads("one", level)
    assert all_shown() != shown_before
set_features("one", before.wanted)
print([features("one") == before, all_shown() == shown_before])
"""
    assert beside_ethtool(code) == [True, True]


def test_every_device_of_this_host_can_be_asked():
    names = {"sg", "tx-checksum", "rx-checksum", "tso", "gso", "gro"}
    for device in [*(name for _, name in socket.if_nameindex()), "no-such-device", ""]:
        assert set(offloads(device)) <= names
