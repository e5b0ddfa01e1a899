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
from pytest_ipperf.lab.agents.rpc_method import all_replies
from pytest_ipperf.lab.inventory.model import Links, Testbed
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.traffic import Traffic
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT, SERVER

# A pause of the machine makes a train look slow, and a pause of a forwarder behind the link makes it look fast. One of
# this many trains is undisturbed, if the path has its rate.
_TRIES = 8
_RECEIVERS = {CLIENT: SERVER, SERVER: CLIENT}


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

    Both ends send at the same time. The first train with the links' rate counts; if none of several has it, their
    median does. None are sent over links without a rate, or with loss, as a train ends with the first lost packet.
    """
    rate_bit_s, path = testbed.links.rate_bit_s, testbed.path(arm)
    if not rate_bit_s or testbed.links.loss:
        return {}
    # If packets grow or shrink on their way (ISATAP's at its router), either link may be the slower one.
    share = len({CLIENT, SERVER} & set(path.carriers)) / 2
    wire_bytes = mtu + FRAME_BYTES + round(share * TRANSPORTS[arm.transport].overhead_bytes)
    datagrams, backlog = length(rate_bit_s, wire_bytes)
    address, beside = {CLIENT: path.client, SERVER: path.server}, [agents[role] for role in _RECEIVERS]
    listening = {role: agents[role].train_listen.request(address[role], datagrams) for role in _RECEIVERS}
    ports = all_replies(listening, beside=beside)
    trains = {
        sender: PacketTrain(
            source=address[sender], address=address[receiver], port=ports[receiver], ident=0,
            packet_bytes=mtu, datagrams=datagrams, backlog=backlog,
        )
        for sender, receiver in _RECEIVERS.items()
    }  # fmt: skip
    seen: dict[str, list[float]] = {sender: [] for sender in trains}
    found: dict[str, float] = {}
    for _ in range(_TRIES):
        open_trains = {sender: train for sender, train in trains.items() if sender not in found}
        for sender, seen_bit_s in _sent(agents, open_trains, wire_bytes).items():
            if seen_bit_s is not None:
                seen[sender].append(seen_bit_s)
                if not below_rate(rate_bit_s, seen_bit_s) and not above_rate(rate_bit_s, seen_bit_s):
                    found[sender] = seen_bit_s
        if len(found) == len(trains):
            break
    return {sender: found.get(sender, statistics.median(each) if each else None) for sender, each in seen.items()}


def _sent(
    agents: Mapping[str, AgentClient], trains: Mapping[str, PacketTrain], wire_bytes: int
) -> dict[str, float | None]:
    """Send trains at the same time; return their rates, None for those of which too little arrived."""
    beside = [agents[role] for role in _RECEIVERS]
    sent = {sender: dataclasses.replace(train, ident=secrets.randbits(32)) for sender, train in trains.items()}
    all_replies({sender: agents[sender].train_send.request(train) for sender, train in sent.items()}, beside=beside)
    rates = {
        sender: agents[_RECEIVERS[sender]].train_rate.request(train.ident, train.datagrams, wire_bytes)
        for sender, train in sent.items()
    }
    return all_replies(rates, beside=beside)


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
