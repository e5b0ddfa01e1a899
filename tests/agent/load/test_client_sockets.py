"""Sockets of the clients as the wire shows them: one family, one source, and a port of its own for each."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import random
import socket
import struct
import threading
import zlib

import pytest

from pytest_ipperf.agent.host_state.private_dir import populate, private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from tests.support.payloads import payload_of

N = 20
SERVED = {server.protocol: name for name, server in SERVERS.items() if server.embedded}
ADDRESSES = {4: "127.0.0.1", 6: "::1"}
PORTS = (20000, 29999)
SO_RCVBUFFORCE = 33  # the module `socket` has no such name
CLIENTS = (("lean", 1), ("lean", 3), ("library", 1))


class Wire:
    """All connections begun on the loopback device: first segments of TCP, and datagrams."""

    def __init__(self):
        self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        # The kernel's limit for others is less than a burst, and a busy machine may read none of it before its end.
        for option in (socket.SO_RCVBUF, SO_RCVBUFFORCE):
            with contextlib.suppress(PermissionError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, 1 << 24)
        self._sock.bind(("lo", 0))
        self._sock.settimeout(0.2)
        self._thread = threading.Thread(target=self._listen)
        self._ended = False
        self.begun, self.asked = set(), set()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended = True
        self._thread.join(10)
        self._sock.close()

    def _listen(self):
        while True:  # until everything received so far has been read
            try:
                packet = self._sock.recv(65536)
            except TimeoutError:
                if self._ended:
                    return
                continue
            self._hear(packet)

    def _hear(self, packet):
        if packet[0] >> 4 == 4:
            family, kind, rest = 4, packet[9], packet[4 * (packet[0] & 15) :]
            source, to = (socket.inet_ntop(socket.AF_INET, packet[at : at + 4]) for at in (12, 16))
        else:
            family, kind, rest = 6, packet[6], packet[40:]
            source, to = (socket.inet_ntop(socket.AF_INET6, packet[at : at + 16]) for at in (8, 24))
        ports = struct.unpack_from("!HH", rest)
        if kind == socket.IPPROTO_TCP and rest[13] & 0x12 == 0x02:  # SYN, and not its answer
            (sequence,) = struct.unpack_from("!I", rest, 4)
            self.begun.add((family, source, ports[0], to, ports[1], sequence))
        elif kind == socket.IPPROTO_UDP:
            # Seen twice on this device, and perhaps sent again, it counts once; another from the same port does not.
            self.asked.add((family, source, ports[0], to, ports[1], zlib.crc32(rest[8:])))


def started(stack, name, protocol, state):
    """Start a server; return its port."""
    folder = stack.enter_context(private_folder())
    data = ""
    if SERVERS[name].provisioned:
        data = str(folder / "data")
        populate(data, SERVERS[name].provisions(data, state))
    port = free_port(tuple(ADDRESSES.values()), *PORTS, random.Random())
    zone = {protocol.host: tuple(ADDRESSES.values())}
    site = Site(str(folder / name), tuple(ADDRESSES.values()), port, N, state, zone, data=data, ports=PORTS)
    instance = ServerProcess(SERVERS[name], site)
    stack.callback(instance.stop)
    instance.start()
    return port


def sockets(name):
    """Return as JSON what each client opened in a burst over each family: from which source to which server."""
    protocol = application(name)
    size = payload_of(protocol, 1000)
    state = protocol.filled(ServerState(users=N if protocol.accounts else 0, password="secret"), size)
    seen = []
    with contextlib.ExitStack() as stack:
        resolver = started(stack, "nameserver", protocol, state)
        port = resolver if protocol.resolves else started(stack, SERVED[name], protocol, state)
        for (client, workers), (ipver, address) in itertools.product(CLIENTS, ADDRESSES.items()):
            if client == "library" and not protocol.has_library:
                continue
            spec = LoadSpec(
                protocol=name, client=client, payload_bytes=size, connections=N, bursts=1, ipver=ipver,
                resolver="" if protocol.datagram else address, resolver_port=resolver,
                name=address if protocol.datagram else protocol.host, port=port, source=address, deadline_s=10.0,
                ident=0, state=dataclasses.replace(state, messages=(), pages={}), workers=workers,
            )  # fmt: skip
            with Wire() as wire:
                told = load(spec)
            facts = {"failed": told.failed, "families": told.families, "sources": told.sources}
            where = {"client": client, "ipver": ipver, "port": port, "resolver": resolver}
            seen.append({**where, **facts, "begun": sorted(wire.begun), "asked": sorted(wire.asked)})
    return json.dumps(seen)


@pytest.mark.parametrize("name", applications())
def test_each_connection_has_a_port_of_its_own_and_all_have_the_arms_family(name, isolated):
    if reason := SERVERS[SERVED[name]].missing():
        pytest.skip(reason)
    told = json.loads(isolated(f"from test_client_sockets import *\nprint(sockets({name!r}))").splitlines()[-1])
    assert {seen["client"] for seen in told} >= {"lean"}
    for seen in told:
        check(application(name), seen)


def check(protocol, seen):
    ipver, address = seen["ipver"], ADDRESSES[seen["ipver"]]
    assert seen["failed"] == {}
    assert seen["families"] == ["AF_INET6" if ipver == 6 else "AF_INET"]
    assert seen["sources"] == [address]
    everything = [tuple(each) for each in seen["begun"] + seen["asked"]]
    assert {(family, source, to) for family, source, _, to, *_ in everything} == {(ipver, address, address)}
    asked = [each for each in seen["asked"] if each[4] == seen["port" if protocol.datagram else "resolver"]]
    # The kernel may choose a port that another query has just released, for two of twenty at most.
    assert len(asked) == N
    assert len({each[2] for each in asked}) >= N - 2
    if protocol.datagram:
        assert seen["begun"] == []
        return
    first = [each for each in seen["begun"] if each[4] == seen["port"]]
    assert len(first) == len({each[2] for each in first}) == N
    # Each data connection goes to a port of its own, so only the pairs have to differ.
    data = [each for each in seen["begun"] if each[4] != seen["port"]]
    assert len(data) == len({(each[2], each[4]) for each in data}) == N * (protocol.sockets - 1)
