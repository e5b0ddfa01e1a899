"""Overhead of modelled traffic on the wire: the packets that the near end's device sends for its messages."""

from __future__ import annotations

import time

from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.agent.flows.traffic.far_end import model_of
from pytest_ipperf.agent.flows.traffic.sender import Send
from pytest_ipperf.agent.paths.wire_packets import WireCounter
from pytest_ipperf.core.portable.traffic.carrier import TCP
from pytest_ipperf.core.portable.traffic.model import DOWN
from pytest_ipperf.core.portable.traffic.schedule import Packet

_QUEUED_S = 0.02


class CountedMessages:
    """Sender of messages by `send` that counts them, and the packets of the device, from construction until `facts`."""

    def __init__(self, spec: FlowSpec, send: Send) -> None:
        self._send = send
        self._messages = self._payload_bytes = 0
        self._refused = False
        # Acknowledgements of what comes back are no part of the messages.
        back = spec.factors.get("carrier") == TCP and any(each.direction == DOWN for each in model_of(spec).streams)
        self._counter = WireCounter(spec.device) if spec.device and not back else None

    def send(self, packet: Packet, counts: bool, at_ns: int) -> bool:  # noqa: FBT001 - the type `Send`
        """Send a message, of the run or of the warm-up, and count it."""
        accepted = self._send(packet, counts, at_ns)
        self._messages += 1
        self._payload_bytes += packet.size_bytes
        self._refused |= not accepted
        return accepted

    def facts(self) -> dict[str, float]:
        """Return the facts, once the device has sent what is queued; none if it cannot tell, or messages were lost."""
        if self._counter is None:
            return {}
        time.sleep(_QUEUED_S)
        wire = self._counter.count()
        if wire is None or self._refused or not self._messages:
            return {}
        return {
            "wire_messages": self._messages,
            "wire_payload_bytes": self._payload_bytes,
            "wire_packets": wire.packets,
            "wire_bytes": wire.ip_bytes,
            "wire_fragments": wire.fragments,
        }
