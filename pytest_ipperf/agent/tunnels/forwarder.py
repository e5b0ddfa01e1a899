"""Forward packets in a process of its own between one end of a veth pair and a raw socket of protocol 41.

It needs no device but those, and no right that an ordinary user does not have in a namespace of their own. The kernel
makes IPv4's identification; everything else is by the rules of `pytest_ipperf.agent.tunnels.encapsulation`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Collection

from pytest_ipperf.agent.sockets.buffers import set_buffer_size
from pytest_ipperf.agent.sockets.filters import JUMP_EQUAL, LOAD_WORD, RETURN, attach
from pytest_ipperf.agent.tunnels.encapsulation import PROTOCOL, EncapsulationRules
from pytest_ipperf.transports.base import TunnelEndpoint

UP = b"up\n"
"""Said when it forwards."""
_ETH_P_IPV6 = 0x86DD
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_IP_HDRINCL = 3
_PR_SET_PDEATHSIG = 1
_BUFFER_BYTES = 8 << 20
_ETHERNET_BYTES = 14
_READ_BYTES = 1 << 16
# Packets carried one way before the other gets its turn.
_TURN = 64
# Of a filter: where an IPv4 header has its source, and a packet's end.
_SOURCE, _ALL = 12, 0xFFFFFFFF


class Forwarder:
    """`device` is the pair's other end, `mac` that of the tunnel's device."""

    def __init__(self, end: TunnelEndpoint, device: str, mac: str) -> None:
        self._rules = EncapsulationRules.of(end)
        self._others: set[bytes] = set()
        self._frame = bytes.fromhex(mac) + bytes(6) + _ETH_P_IPV6.to_bytes(2, "big")
        self._inside = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._inside.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._outside = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, PROTOCOL)
        self._outside.setsockopt(socket.IPPROTO_IP, _IP_HDRINCL, 1)
        for sock in (self._inside, self._outside):
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                set_buffer_size(sock, option, _BUFFER_BYTES)
        self._outside.bind((end.local, 0))
        if not self._rules.isatap:
            self._outside.connect((end.remote, 0))  # the kernel gives it nothing of others
        self._inside.bind((device, _ETH_P_IPV6))

    def exclude(self, peers: str) -> None:
        """Exclude packets from these addresses, which are for the configured tunnels with these peers."""
        self._others |= {socket.inet_aton(peer) for peer in peers.split()}
        _spare(self._outside, self._others)  # they come in copies

    def serve(self, control: int) -> None:
        """Forward until `control` is at its end; what is read there is given to `exclude`."""
        steps = {self._inside.fileno(): self._outwards(), self._outside.fileno(): self._inwards()}
        poll = select.poll()
        for descriptor in (control, *steps):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != control:
                    with contextlib.suppress(BlockingIOError):
                        steps[descriptor]()
                elif said := os.read(control, _READ_BYTES):
                    self.exclude(said.decode())
                else:
                    return

    def _outwards(self) -> Callable[[], None]:
        receive, send, encapsulated = self._inside.recv, self._outside.sendto, self._rules.encapsulated
        names: dict[bytes, tuple[str, int]] = {}

        def step() -> None:
            for _ in range(_TURN):
                packet = encapsulated(receive(_READ_BYTES)[_ETHERNET_BYTES:])
                if packet:
                    to = packet[16:20]
                    name = names.get(to) or names.setdefault(to, (socket.inet_ntoa(to), 0))
                    # No route, no room, too long: it is lost, as on a link.
                    with contextlib.suppress(OSError):
                        send(packet, name)

        return step

    def _inwards(self) -> Callable[[], None]:
        receive, send, decapsulated = self._outside.recv, self._inside.send, self._rules.decapsulated
        frame, others = self._frame, self._others

        def step() -> None:
            for _ in range(_TURN):
                try:
                    packet = decapsulated(receive(_READ_BYTES), others)
                except BlockingIOError:
                    return
                except OSError:  # of an ICMP error about what was sent
                    continue
                if packet:
                    with contextlib.suppress(OSError):
                        send(frame + packet)

        return step


def _spare(sock: socket.socket, sources: Collection[bytes]) -> None:
    """Has the kernel drop what comes from these IPv4 addresses (socket(7), SO_ATTACH_FILTER)."""
    nothing = len(sources)  # steps from the first comparison to the last return
    equal = [(JUMP_EQUAL, nothing - at, 0, int.from_bytes(each, "big")) for at, each in enumerate(sources)]
    attach(sock, [(LOAD_WORD, 0, 0, _SOURCE), *equal, (RETURN, 0, 0, _ALL), (RETURN, 0, 0, 0)])


def main() -> None:
    """Run the forwarder; its last argument has the process that it belongs to, then `Forwarder`'s."""
    parent, end, device, mac = json.loads(sys.argv[-1])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the signal was set
        return
    for name in ("addresses", "routes"):
        end[name] = ()  # not its affair
    forwarder = Forwarder(TunnelEndpoint(**end), device, mac)
    gc.disable()  # a collection would be a pause on the link
    os.write(sys.stdout.fileno(), UP)
    forwarder.serve(sys.stdin.fileno())
