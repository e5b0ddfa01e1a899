"""Offloads switched between runs, and restored bit by bit from a mixed setting, however the agent ends."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.agent.host_state.test_changes import HOST, UP, run_folder

__all__ = ["run_folder"]

# A mixed setting: one of TSO's features is off, and so is checksumming, without which no TSO is in force.
MIXED = (
    UP
    + """
for words in "tx-tcp6-segmentation off" "tx off" "gro off"; do ethtool -K va $words >/dev/null; done
"""
)
OFFLOADS = """
from pytest_ipperf.agent.host_state.switched_offloads import SwitchedOffloads
from pytest_ipperf.agent.kernel.ethtool import features
EVERY = ("tso", "gso", "gro", "rx-checksum", "tx-checksum")
ON, OFF = {"sg": True, **dict.fromkeys(EVERY, True)}, dict.fromkeys(EVERY, False)
mixed = features("va")
assert not mixed.on("tso") and mixed.on("gso") and not mixed.on("gro")
"""


@pytest.fixture
def host(isolated):
    """Run code on a new host with a mixed setting; return the value that it printed last."""

    def run(code):
        return ast.literal_eval(isolated(HOST + OFFLOADS + textwrap.dedent(code), MIXED).splitlines()[-1])

    return run


def test_what_was_mixed_is_mixed_again_and_nothing_is_left(host, run_folder):
    found = host("""
        changes = Changes()
        offloads = SwitchedOffloads(changes)
        states = [offloads.switch("va", level) for level in (ON, OFF, ON, {}, OFF)]
        between = features("va") != mixed
        print([states[1] == OFF, states[2] == ON, states[3], between, changes.undo(), features("va") == mixed,
               snapshot() == before])
    """)
    assert found == [True, True, {}, True, [], True, True]
    assert list(run_folder.iterdir()) == []


def test_without_settings_they_are_what_they_were(host):
    assert host("""
        changes = Changes()
        offloads = SwitchedOffloads(changes)
        offloads.switch("va", OFF)
        offloads.switch("va", {})
        print([features("va") == mixed, offloads.devices, changes.undo()])
    """) == [True, ["va"], []]


def test_an_agent_that_is_killed_leaves_what_was_there(host, run_folder):
    assert host("""
        def switched():
            kept.append(Changes())
            SwitchedOffloads(kept[-1]).switch("va", OFF)
        as_agent(switched)
        print(until(lambda: not rollback_helper() and features("va") == mixed))
    """)
    assert list(run_folder.iterdir()) == []


def test_of_a_killed_rollback_helper_the_next_agent_restores_what_was_there(host, run_folder):
    assert host("""
        def switched():
            kept.append(Changes())
            offloads = SwitchedOffloads(kept[-1])
            offloads.switch("va", ON)
            offloads.switch("va", OFF)
            os.kill(rollback_helper(), signal.SIGKILL)
        as_agent(switched)
        until(lambda: not rollback_helper())  # a process that is killed lives for a moment
        left = features("va") != mixed
        Changes()
        print([left, features("va") == mixed])
    """) == [True, True]
    assert list(run_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("device", "settings", "sentence"),
    [
        ("none", {"gro": True}, "device 'none': its offloads are unknown: No such device"),
        ("va", {"lro": True}, "device 'va' cannot have lro on; its driver decides (ethtool -k va)"),
        ("lo", {"tx-checksum": False}, "device 'lo' cannot have tx-checksum off; its driver decides (ethtool -k lo)"),
    ],
)
def test_what_a_device_cannot_have_is_told(host, device, settings, sentence):
    assert (
        host(f"""
        try:
            SwitchedOffloads(Changes()).switch({device!r}, {settings!r})
        except LabError as error:
            print(repr(str(error)))
    """)
        == sentence
    )
