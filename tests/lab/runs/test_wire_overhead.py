"""Overhead of messages on the wire of a lab, beside what is computed for them, and beside tcpdump."""

import subprocess

import pytest

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.core.portable.traffic.carrier import TCP, UDP
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs.flows import Duration
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT
from tests.support.needs import require

ARMS = [Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel")]
DURATION = Duration(warmup_s=0.05, run_s=0.15)
ATTEMPTS = 30
"""Runs until one has no packet of neighbour discovery, none that TCP has sent again, and none of two messages.

TCP makes such packets where a busy machine sends a message late, together with the next one.
"""


@pytest.fixture(scope="module")
def up():
    if why := unusable():
        pytest.skip(why)
    testbed = with_rate("lab.20mbit", BUILTIN)
    assert testbed is not None
    with live_testbed(testbed, "test", 60.0, print, transports=("tunnel",)) as live:
        yield live


def run(live, arm, carrier, payload, capture=0):
    """Return a run of messages of `payload` bytes, ten milliseconds apart."""
    levels = levels_from_text(PROTOCOLS["traffic"].factors, "constant" if carrier == UDP else f"constant-{carrier}")
    workload = Workload(
        testbed="lab.20mbit", protocol="traffic", client=LEAN, connections=1, payload_bytes=payload, levels=levels
    )
    service = live.serve(workload, "embedded")
    result = live.run(arm, service, workload, bursts=1, deadline_s=2.0, duration=DURATION, capture=capture)
    assert result.violations == ()
    return result


@pytest.mark.parametrize("payload", [32, 8192])
@pytest.mark.parametrize("carrier", [TCP, UDP])
@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_messages_take_the_packets_and_bytes_that_are_computed(up, arm, carrier, payload):
    overhead = HeaderOverhead(
        ipver=arm.ipver, overhead_bytes=TRANSPORTS[arm.transport].overhead_bytes, datagram=carrier == UDP
    )
    packets, ip_bytes = overhead.packets(payload), overhead.ip_bytes(payload)
    seen = []
    for _ in range(ATTEMPTS):
        facts = run(up, arm, carrier, payload).data.facts
        messages = facts["wire_messages"]
        assert facts["wire_payload_bytes"] == messages * payload
        assert messages >= facts["sent"]
        assert facts["wire_fragments"] == (messages * packets if carrier == UDP and packets > 1 else 0)
        seen.append((facts["wire_packets"] - messages * packets, facts["wire_bytes"] - messages * ip_bytes))
        assert carrier == TCP or min(seen[-1]) >= 0
        if seen[-1] == (0, 0) and messages:
            return
    raise AssertionError(f"packets and bytes beyond those computed: {seen}")


@pytest.mark.parametrize(
    ("arm", "condition"), [(ARMS[0], "ip[6:2] & 0x3fff != 0"), (ARMS[1], "ip6[6] == 44")], ids=["ipv4", "ipv6"]
)
def test_tcpdump_sees_the_fragments_that_are_counted(up, arm, condition, tmp_path):
    require("tcpdump")
    # Its sender gets no processor for a whole run now and then.
    runs = (run(up, arm, UDP, 8192, capture=1000) for _ in range(ATTEMPTS))
    result = next(each for each in runs if each.data.facts["wire_messages"])
    file = tmp_path / "client.pcap"
    file.write_bytes(result.captures[CLIENT])
    done = subprocess.run(
        ["/usr/bin/tcpdump", "-n", "-r", str(file), condition], capture_output=True, text=True, check=True
    )
    seen = len(done.stdout.splitlines())
    assert seen == result.data.facts["wire_fragments"] == 6 * result.data.facts["wire_messages"]
