"""Tries to have mail relayed by a server in a network of its own, in which every packet that leaves is seen.

`python -m tests.system.security.relaying NAME` tells what came of it, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import smtplib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site, program

ADDRESSES = ("127.0.0.1", "::1")
SENDERS = ("", "victim@example.org")
RECIPIENTS = (
    "someone@example.org",
    "someone%example.org@mail.ipperf.test",
    "someone%example.org@[127.0.0.1]",
    '"someone@example.org"@mail.ipperf.test',
    '"someone@example.org"',
    "someone@[192.0.2.25]",
    "someone@[IPv6:2001:db8::25]",
    "@mail.ipperf.test:someone@example.org",
    "example.org!someone",
    "example.org!someone@mail.ipperf.test",
    "someone@example.org@mail.ipperf.test",
    "root",
    "postmaster@localhost",
    '"|touch relayed"@mail.ipperf.test',
)
MESSAGE = b"Return-Receipt-To: victim@example.org\r\nSubject: relay\r\n\r\ntext\r\n"
LEAK = "leak"
_ALL = 3
_SO_RCVBUFFORCE, _BUFFER_BYTES = 33, 16 << 20
_PATIENCE_S = 60.0
_TCP_UDP = {6, 17}


class Wires:
    """All packets of TCP and UDP: of `trap`, to which everything leads that is not here, and of the loopback."""

    def __init__(self) -> None:
        subprocess.run(["sh", "-ec", _NETWORK], check=True)
        self.seen: dict[str, set[tuple[int, int]]] = {"trap": set(), "lo": set()}
        self._over = threading.Event()
        socks = {device: _hearing(device) for device in self.seen}
        self._threads = [threading.Thread(target=self._hear, args=each) for each in socks.items()]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """No more of it than what has come until now."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _hear(self, device: str, sock: socket.socket) -> None:
        with sock:
            while True:
                last = self._over.is_set()
                try:
                    while True:
                        if ports := _ports(sock.recv(65536)):
                            self.seen[device].add(ports)
                except TimeoutError:
                    if last:
                        return


def _hearing(device: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    sock.settimeout(0.05)
    sock.bind((device, _ALL))
    return sock


_NETWORK = """
ip link set lo up
ip link add trap type veth peer name beyond
ip link set beyond up
ip link set trap arp off
ip addr add 198.18.9.1/24 dev trap
ip -6 addr add 2001:2:0:9::1/64 dev trap nodad
ip link set trap up
ip route add default dev trap
ip -6 route add default dev trap
"""


def _ports(packet: bytes) -> tuple[int, int] | None:
    version = packet[0] >> 4
    protocol, start = (packet[9], (packet[0] & 15) * 4) if version == 4 else (packet[6], 40)
    return struct.unpack("!HH", packet[start : start + 4]) if protocol in _TCP_UDP else None


def attempts(port: int) -> dict[str, list[int]]:
    """By recipient, what the server answered to RCPT from each sender; where it took it, a message followed."""
    said: dict[str, list[int]] = {}
    for recipient in RECIPIENTS:
        for number, sender in enumerate(SENDERS):
            with smtplib.SMTP(ADDRESSES[number], port, "client.ipperf.test", timeout=_PATIENCE_S) as smtp:
                smtp.ehlo()
                smtp.docmd("MAIL", f"FROM:<{sender}>")
                code, _ = smtp.docmd("RCPT", f"TO:<{recipient}>")
                if code == 250:
                    smtp.data(MESSAGE)
                said.setdefault(recipient, []).append(code)
    return said


def _release(folder: str) -> None:
    """Have Postfix deliver all that it holds: also that must lead nowhere."""
    env = {**os.environ, "MAIL_CONFIG": f"{folder}/etc"}
    for command in (("postsuper", "-H", "ALL"), ("postqueue", "-f")):
        subprocess.run([program(command[0]), *command[1:]], env=env, check=True, capture_output=True)


def _await_deliveries(log: Callable[[], str], count: int) -> None:
    end = time.monotonic() + _PATIENCE_S
    while log().count(" status=") < count and time.monotonic() < end:
        time.sleep(0.05)


def main(name: str) -> None:
    """Tells the answers, the log, the ports that were seen, how many messages are kept, and how the queue is left."""
    wires = Wires()
    protocol = application("smtp")
    state = protocol.filled(ServerState(), 1000)
    recipe = SERVERS["aiosmtpd" if name == LEAK else name]
    try:
        with private_folder() as folder:
            port = free_port(ADDRESSES, 20000, 29999, random.Random(1))
            replies = protocol.canned_replies(state) if name == "null" else CannedReplies(b"", ())
            instance = ServerProcess(
                recipe, Site(str(folder / name), ADDRESSES, port, 50, state, canned_replies=replies)
            )
            instance.start()
            try:
                said = attempts(port) if name != "null" else {}
                if name == LEAK:
                    for family, address in ((socket.AF_INET, "192.0.2.25"), (socket.AF_INET6, "2001:db8::25")):
                        with socket.socket(family, socket.SOCK_DGRAM) as sock:
                            sock.sendto(b"leak", (address, 25))
                kept = len(list(recipe.kept(instance.site)))
                if name == "postfix":
                    _release(instance.site.folder)
                    _await_deliveries(instance.log, kept)
                quiet = instance.wait_quiet(_PATIENCE_S)
                time.sleep(0.5)  # for whatever is done later
                report = {"said": said, "quiet": quiet, "log": instance.log(), "port": port, "kept": kept}
                report["files"] = sorted(str(path) for path in folder.rglob("relayed"))
            finally:
                instance.stop()
    finally:
        wires.close()
    report["seen"] = {device: sorted(ports) for device, ports in wires.seen.items()}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    os.environ["PYTHONWARNINGS"] = "error"
    main(sys.argv[1])
