"""Forwarder: a process that forwards packets between one end of a veth pair and a raw socket of protocol 41.

It needs no other device, and no right that an ordinary user does not have in a namespace of their own. The kernel sets
IPv4's identification; everything else follows the rules of `pytest_ipperf.agent.tunnels.encapsulation`.
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
"""Line printed when it forwards."""
_ETH_P_IPV6 = 0x86DD
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_IP_HDRINCL = 3
_PR_SET_PDEATHSIG = 1
_BUFFER_BYTES = 8 << 20
_ETHERNET_BYTES = 14
_READ_BYTES = 1 << 16
# Packets forwarded in one direction before the other gets its turn.
_TURN = 64
# For the filter: the offset of the source in an IPv4 header, and the length of a whole packet.
_SOURCE, _ALL = 12, 0xFFFFFFFF


class Forwarder:
    """Forwarder of a tunnel endpoint; `device` is the pair's other end, `mac` the address of the tunnel's device."""

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
            self._outside.connect((end.remote, 0))  # the kernel then delivers no packets of other senders
        self._inside.bind((device, _ETH_P_IPV6))

    def exclude(self, peers: str) -> None:
        """Exclude packets from these addresses, which are for the configured tunnels with these peers."""
        self._others |= {socket.inet_aton(peer) for peer in peers.split()}
        _drop(self._outside, self._others)  # raw sockets receive copies of them too

    def serve(self, control: int) -> None:
        """Forward until `control` is at its end; its input is passed to `exclude`."""
        steps = {self._inside.fileno(): self._outwards(), self._outside.fileno(): self._inwards()}
        poll = select.poll()
        for descriptor in (control, *steps):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != control:
                    with contextlib.suppress(BlockingIOError):
                        steps[descriptor]()
                elif peers := os.read(control, _READ_BYTES):
                    self.exclude(peers.decode())
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
                    # Without route or buffer space, or too long: the packet is lost, as on a link.
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
                except OSError:  # an ICMP error about a packet sent
                    continue
                if packet:
                    with contextlib.suppress(OSError):
                        send(frame + packet)

        return step


def _drop(sock: socket.socket, sources: Collection[bytes]) -> None:
    """Let the kernel drop packets from these IPv4 addresses (socket(7), SO_ATTACH_FILTER)."""
    nothing = len(sources)  # steps from the first comparison to the last return
    equal = [(JUMP_EQUAL, nothing - at, 0, int.from_bytes(each, "big")) for at, each in enumerate(sources)]
    attach(sock, [(LOAD_WORD, 0, 0, _SOURCE), *equal, (RETURN, 0, 0, _ALL), (RETURN, 0, 0, 0)])


def main() -> None:
    """Run the forwarder; its last argument has its parent process, then the arguments of `Forwarder`."""
    parent, end, device, mac = json.loads(sys.argv[-1])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the signal was set
        return
    for name in ("addresses", "routes"):
        end[name] = ()  # not needed here
    forwarder = Forwarder(TunnelEndpoint(**end), device, mac)
    gc.disable()  # a collection would be a pause on the link
    os.write(sys.stdout.fileno(), UP)
    forwarder.serve(sys.stdin.fileno())
