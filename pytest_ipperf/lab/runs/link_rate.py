"""Check that the paths of a testbed have the rate of its links, and that no run exceeds it."""

from __future__ import annotations

import dataclasses
import secrets
import statistics
from collections.abc import Mapping

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.paths.packet_train import length
from pytest_ipperf.agent.rpc.messages import PacketTrain
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES, HeaderOverhead, header_cost
from pytest_ipperf.core.measurement.link_rate import TrainRates, above_rate, below_rate
from pytest_ipperf.core.measurement.path_proof import goodput_violations
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Links, Testbed
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.traffic import Traffic
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT, SERVER

# A pause of the machine makes a train look slow, and a pause of a forwarder behind the link makes it look fast. One of
# this many trains is undisturbed, if the path has its rate.
_TRIES = 8


def layers(arm: Arm, workload: Workload) -> HeaderOverhead:
    """Return the header overhead of an arm, on links with Ethernet's MTU."""
    protocol, datagram = PROTOCOLS[workload.protocol], PROTOCOLS[workload.protocol].datagram
    if isinstance(protocol, Traffic):
        datagram = protocol.sends_datagrams(values_of(workload.levels))
    return HeaderOverhead(ipver=arm.ipver, overhead_bytes=TRANSPORTS[arm.transport].overhead_bytes, datagram=datagram)


def arms_header_cost(links: Links, test: Arm, reference: Arm, workload: Workload) -> float:
    """Return the share by which headers alone lower one arm's goodput below the other's on a testbed's links.

    This applies to a stream, which uses all that it can get, on any links; to traffic offered at a rate, only if that
    is more than the links carry.
    """
    if isinstance(PROTOCOLS[workload.protocol], Traffic):
        return 0.0  # it offers the rate of its model, whatever the headers
    one, other = layers(test, workload), layers(reference, workload)
    offered_bit_s = values_of(workload.levels).get("rate")
    if not isinstance(offered_bit_s, float):
        return header_cost(one, other, workload.payload_bytes if one.datagram else 0)
    carried = (links.rate_bit_s * each.payload_share(workload.payload_bytes) or offered_bit_s for each in (one, other))
    test_bit_s, reference_bit_s = (min(offered_bit_s, each) for each in carried)
    return max(0.0, 1 - test_bit_s / reference_bit_s)


def train_rates(testbed: Testbed, arm: Arm, agents: Mapping[str, AgentClient], mtu: int) -> TrainRates:
    """Return the rates of packet trains of `mtu` bytes a packet on an arm's path, by sender.

    The first train with the links' rate counts; if none of several has it, their median does. None are sent over links
    without a rate, or with loss, as a train ends with the first lost packet.
    """
    if not testbed.links.rate_bit_s or testbed.links.loss:
        return {}
    return {
        sender: _train_rate(testbed, arm, agents, mtu, (sender, receiver))
        for sender, receiver in ((CLIENT, SERVER), (SERVER, CLIENT))
    }


def _train_rate(
    testbed: Testbed, arm: Arm, agents: Mapping[str, AgentClient], mtu: int, ends: tuple[str, str]
) -> float | None:
    rate_bit_s, path, (sender, receiver) = testbed.links.rate_bit_s, testbed.path(arm), ends
    address = {CLIENT: path.client, SERVER: path.server}
    # If packets grow or shrink on their way (ISATAP's at its router), either link may be the slower one.
    share = len({sender, receiver} & set(path.carriers)) / 2
    wire_bytes = mtu + FRAME_BYTES + round(share * TRANSPORTS[arm.transport].overhead_bytes)
    datagrams, backlog = length(rate_bit_s, wire_bytes)
    train = PacketTrain(
        source=address[sender],
        address=address[receiver],
        port=agents[receiver].train_listen(address[receiver], datagrams),
        ident=0,
        packet_bytes=mtu,
        datagrams=datagrams,
        backlog=backlog,
    )
    seen: list[float] = []
    for _ in range(_TRIES):
        ident = secrets.randbits(32)
        agents[sender].train_send(dataclasses.replace(train, ident=ident))
        measured_bit_s = agents[receiver].train_rate(ident, datagrams, wire_bytes)
        if (
            measured_bit_s is not None
            and not below_rate(rate_bit_s, measured_bit_s)
            and not above_rate(rate_bit_s, measured_bit_s)
        ):
            return measured_bit_s
        seen += [] if measured_bit_s is None else [measured_bit_s]
    return statistics.median(seen) if seen else None


def exceeds_link_rate(testbed: Testbed, arm: Arm, workload: Workload, result: LoadResult) -> list[str]:
    """Return the violations of a run that moved more content than the links let through.

    Each burst may find the links' token buckets full.
    """
    rate_bit_s = testbed.links.rate_bit_s
    if not rate_bit_s:
        return []
    return goodput_violations(
        rate_bit_s,
        layers(arm, workload),
        moved_bytes=result.content_bytes,
        time_s=result.wall_s,
        bucket_bytes=bucket_bytes(rate_bit_s) * result.attempted // workload.connections,
    )
