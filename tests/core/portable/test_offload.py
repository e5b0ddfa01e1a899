"""Levels of the factor `offload`: the settings of each, and what packets must show with them."""

import pytest

from pytest_ipperf.core.portable.offload import OFFLOAD, SINGLE, merges, offload_settings

EVERY = set(SINGLE.values())


def test_unchanged_switches_nothing_and_is_in_no_workload():
    assert offload_settings("unchanged") == {}
    assert OFFLOAD.held("unchanged") == ()
    assert [level.text for level in OFFLOAD.held("off")] == ["offloadoff"]


def test_off_is_all_off_and_on_leaves_lro_as_it_was():
    assert offload_settings("off") == dict.fromkeys(EVERY, False)
    assert offload_settings("on") == dict.fromkeys({*EVERY, "sg"} - {"lro"}, True)


@pytest.mark.parametrize("name", SINGLE)
def test_one_alone_has_only_what_it_needs_beside_it(name):
    on = {each for each, value in offload_settings(name).items() if value}
    needed = {"tso": {"tx-checksum", "sg"}, "gso": {"sg"}, "lro": {"rx-checksum"}}
    assert on == {SINGLE[name]} | needed.get(name, set())
    assert offload_settings(name).keys() >= EVERY


@pytest.mark.parametrize("name", SINGLE)
def test_without_one_those_that_need_it_are_off_too(name):
    off = {each for each, value in offload_settings(f"no{name}").items() if not value}
    assert off == {SINGLE[name]} | {"tx": {"tso"}, "rx": {"lro"}}.get(name, set())


@pytest.mark.parametrize(
    ("level", "wanted"),
    [("on", True), ("off", False), ("tso", True), ("gso", True), ("nogso", True), ("gro", None), ("tx", False),
     ("rx", False), ("lro", None), ("nogro", True), ("unchanged", None)],
)  # fmt: skip
def test_packets_larger_than_the_mtu_are_wanted_where_a_sender_may_make_them(level, wanted):
    assert merges(offload_settings(level)) is wanted
