"""A wire that holds back chosen packets of the server by chosen times, and says what it did and saw.

Runs in a network namespace of its own between two veth ends. Each line of its input is an order; each line of its
output answers with what was since the last order, in nanoseconds. `held` is by point how long packets were kept, from
the kernel's stamp of their arrival to their departure. `lasted` is how long the phases were as the client's side of
the wire saw them: from the query to the answer, from SYN to SYN-ACK, from there to the greeting, from there to the
end. Every packet has a time of its own, so a hundred are held side by side; packets of one flow stay in order.
For the last 200 microseconds it does not sleep.

An order has `hold_ns`, a time for each point, and what the protocol is: its `port`, and in `marks` what the replies say
that are points too, `total` being the end. Other points are `dns`, `connect`, `first_byte`, and, where the reply
`data_port` has been seen, `data_connect` and `data` of a second connection; then the end is when both have ended.
Without marks the protocol goes by UDP, and its answer is the end.
"""

from __future__ import annotations

import collections
import errno
import gc
import heapq
import itertools
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

DEVICES = ("wire0", "wire1")
"""To the client and to the server."""

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_SO_TIMESTAMPNS = 35
_ALL = 0x0003
_SPIN_NS = 200_000
_NO_ROOM = (errno.EAGAIN, errno.ENOBUFS)
_PATIENCE_S = 10
# What the kernel would still do to a frame (checksum, segmentation) goes along with it, so nothing has to be set off.
_VNET_BYTES = 10
_FIN, _SYN, _ACK = 0x01, 0x02, 0x10
_END, _DATA_PORT = "total", "data_port"


class Wire:
    def __init__(self):
        self.hold_ns = {}
        self.port = 0
        self.marks = {}
        self._forget()
        self._waiting = []
        self._number = itertools.count()
        self._client, self._server = (self._socket(name) for name in DEVICES)

    def _forget(self):
        self._held = collections.defaultdict(list)
        self._lasted = collections.defaultdict(list)
        self._since = {}
        self._said = {}  # by flow, the points that have been
        self._ends = {}  # by flow, how many more make its end
        self._asking = []  # flows that are about to open a data connection, in this order
        self._owner = {}
        self._last_due = {}

    @staticmethod
    def _socket(name):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.settimeout(0)
        sock.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        sock.bind((name, _ALL))
        return sock

    def run(self):
        lines = sys.stdin.buffer
        inputs = [self._client, self._server, lines]
        while True:
            left_ns = self._waiting[0][0] - time.time_ns() if self._waiting else 10**9
            ready = select.select(inputs, [], [], max(0, left_ns - _SPIN_NS) / 1e9)[0]
            if lines in ready:
                line = lines.readline()
                if not line:
                    return
                self._order(json.loads(line))
            if self._client in ready:
                for frame, stamp_ns in self._read(self._client):
                    self._pass(frame, stamp_ns)
            if self._server in ready:
                for frame, stamp_ns in self._read(self._server):
                    self._keep(frame, stamp_ns)
            self._release()

    def _order(self, order):
        _tell({"held": self._held, "lasted": self._lasted})
        self._forget()
        self.hold_ns, self.port = order["hold_ns"], order["port"]
        self.marks = {point: mark.encode("ascii") for point, mark in order["marks"].items()}

    @staticmethod
    def _read(sock):
        for _ in range(64):
            try:
                frame, control, _, _ = sock.recvmsg(1 << 17, 64)
            except BlockingIOError:
                return
            seconds, nanoseconds = struct.unpack("ll", control[0][2])
            yield frame, seconds * 10**9 + nanoseconds

    def _pass(self, frame, stamp_ns):
        flow, flags, _ = _parts(frame, to_server=True)
        begins = flow and (flow[0] == socket.IPPROTO_UDP or flags & (_SYN | _ACK) == _SYN)
        if begins and self._said.get(flow) != set():  # else it is said again, as there was no answer
            self._since[flow] = stamp_ns
            self._said[flow] = set()
            self._ends[flow] = 1
            if flow[0] == socket.IPPROTO_TCP and flow[2] != self.port:  # one thread hears of a port and connects to it
                self._owner[flow] = self._asking.pop(0)
                self._ends[self._owner[flow]] += 1
        _send(self._server, frame)

    def _keep(self, frame, stamp_ns):
        flow, flags, said = _parts(frame, to_server=False)
        points = self._points(flow, flags, said) if flow in self._since else []
        due = max(stamp_ns + sum(self.hold_ns.get(each, 0) for each in points), self._last_due.get(flow, 0))
        self._last_due[flow] = due
        heapq.heappush(self._waiting, (due, next(self._number), stamp_ns, points, flow, frame))

    def _points(self, flow, flags, said):
        """What this frame is to the client; more than nothing only when it is so for the first time."""
        if flow[0] == socket.IPPROTO_UDP:
            found = ["dns" if self.marks else _END]
        elif flow in self._owner:
            found = ["data_connect"] * bool(flags & _SYN) + ["data"] * bool(said) + ["data_end"] * bool(flags & _FIN)
        elif flags & _SYN:
            found = ["connect"]
        elif said:
            found = ["first_byte"] + [point for point, mark in self.marks.items() if mark in said]
        else:
            found = []
        been = self._said[flow]
        found = [each for each in found if each not in been]
        been.update(found)
        return found

    def _release(self):
        while self._waiting and self._waiting[0][0] <= time.time_ns():
            _, _, stamp_ns, points, flow, frame = heapq.heappop(self._waiting)
            _send(self._client, frame)
            now_ns = time.time_ns()
            for point in points:
                self._held[point].append(now_ns - stamp_ns)
                self._reached(point, flow, now_ns)

    def _reached(self, point, flow, now_ns):
        if point == _DATA_PORT:
            self._asking.append(flow)
        elif point in {"dns", "connect", "first_byte"}:
            self._lasts(point, flow, now_ns)
        elif point in {_END, "data_end"}:
            owner = self._owner.get(flow, flow)
            self._ends[owner] -= 1
            if not self._ends[owner]:
                self._lasts(_END, owner, now_ns)

    def _lasts(self, phase, flow, now_ns):
        self._lasted[phase].append(now_ns - self._since[flow])
        self._since[flow] = now_ns


def _parts(frame, *, to_server):
    """Of a UDP or TCP frame: protocol and ports of client and server, TCP's flags, what is said; else nothing."""
    at = _VNET_BYTES + 12
    kind = frame[at : at + 2]
    if kind == b"\x08\x00":
        protocol, after = frame[at + 11], at + 2 + 4 * (frame[at + 2] & 15)
        end = at + 2 + int.from_bytes(frame[at + 4 : at + 6], "big")
    elif kind == b"\x86\xdd":
        protocol, after = frame[at + 8], at + 42
        end = after + int.from_bytes(frame[at + 6 : at + 8], "big")
    else:
        return None, 0, b""
    ports = struct.unpack_from("!HH", frame, after)
    flow = protocol, *(ports if to_server else reversed(ports))
    if protocol == socket.IPPROTO_TCP:
        return flow, frame[after + 13], frame[after + 4 * (frame[after + 12] >> 4) : end]
    return (flow if protocol == socket.IPPROTO_UDP else None), 0, b""


def _send(sock, frame):
    """Send it, as soon as the kernel has room: its queue for received packets is that of all namespaces."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            sock.send(frame)
        except OSError as error:
            if error.errno not in _NO_ROOM or time.monotonic() > until:
                raise
            # Not by spinning: this process may be before the kernel's thread that empties the queue.
            time.sleep(1e-4)
        else:
            return


def _tell(answer):
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def main():
    _tell(os.getpid())
    sys.stdin.buffer.readline()  # the devices are there
    for name in DEVICES:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    _tell("up")  # before any order: what is read with another line is not seen to have come
    gc.disable()
    Wire().run()


if __name__ == "__main__":
    main()
