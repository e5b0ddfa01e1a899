"""Two hosts joined by a veth pair, each with tunnel endpoints, for the tests of the backends. Runs in a namespace."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.unmanaged_changes import UnmanagedChanges
from pytest_ipperf.agent.tunnels import bpf_assembler, encapsulation
from pytest_ipperf.agent.tunnels.tunnel import create_tunnel
from pytest_ipperf.transports.base import TunnelEndpoint
from tests.support.pings import ping, whole

NEAR, FAR, ROUTER = "198.18.0.1", "198.18.0.2", "198.18.0.3"
PORT = 5001
# The far host is both a tunnel's peer and in the site, and the tunnel takes its packets first; so ISATAP has addresses
# of its own.
SITE_NEAR, SITE_FAR = "198.18.0.11", "198.18.0.12"
REACHED = {"tunnel": "2001:2:0:41::2", "isatap": f"2001:2:0:5e:0:5efe:{SITE_FAR}"}
OWN = {"tunnel": "2001:2:0:41::1", "isatap": f"2001:2:0:5e:0:5efe:{SITE_NEAR}"}


def ends(local, remote, site, inner):
    yield TunnelEndpoint("tunnel", "ipperf-6in4", local, remote, (f"{inner}/64",))
    isatap = tuple(f"{prefix}:0:5efe:{site}/64" for prefix in ("fe80:", "2001:2:0:5e"))
    yield TunnelEndpoint("isatap", "ipperf-isatap", site, ROUTER, isatap)


IN_LAB = "@lab"


def raised(backend, local, stack):
    """Create both endpoints of this host, after the backend's name perhaps `@lab`; the stack undoes them."""
    changes = UnmanagedChanges() if backend.endswith(IN_LAB) else Changes()
    backend = backend.removesuffix(IN_LAB)
    stack.callback(lambda: undone(changes))
    mine = (NEAR, FAR, SITE_NEAR, OWN["tunnel"]) if local == NEAR else (FAR, NEAR, SITE_FAR, REACHED["tunnel"])
    for end in ends(*mine):
        create_tunnel(backend, end, changes, stack)


def undone(changes):
    said = changes.undo()
    assert said == [], said


def far(backend):
    """Echo datagrams; send each line of standard input, hexadecimal, as the IPv4 packet that it is."""
    with contextlib.ExitStack() as stack:
        say("here")
        sys.stdin.readline()
        raised(backend, FAR, stack)
        raw = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))  # with its own header
        with socket.create_server(("::", PORT), family=socket.AF_INET6) as tcp, datagrams("::") as udp:
            threading.Thread(target=echo_streams, args=(tcp,), daemon=True).start()
            threading.Thread(target=echo_datagrams, args=(udp,), daemon=True).start()
            say("up")
            for line in sys.stdin:
                raw.sendto(bytes.fromhex(line), (NEAR, 0))
                say("sent")


def say(text):
    os.write(1, f"{text}\n".encode())


def datagrams(address):
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind((address, PORT))
    return sock


def echo_streams(listening):
    while True:
        sock, _ = listening.accept()
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)


def echo_datagrams(sock):
    while True:
        sock.sendto(*sock.recvfrom(65536))


class Pair:
    """Two hosts: `near` is made here by `raised`, unless empty; `far` in a process with a namespace of its own."""

    def __init__(self, near, far):
        self.stack = contextlib.ExitStack()
        # Packets of two processors may overtake each other.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        here = Path(__file__)
        path = [str(here.parents[3]), str(here.parent)]
        code = f"import sys; sys.path[:0] = {path}; import ends; ends.far({far!r})"
        words = ["unshare", "--net", sys.executable, "-c", code]
        self.far = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.far.stdout is not None
        self.far.stdout.readline()
        pid = self.far.pid
        there = ["nsenter", f"--net=/proc/{pid}/ns/net"]
        ip(f"link add eth0 type veth peer name eth0 netns {pid}")
        for (first, second), enter in (((NEAR, SITE_NEAR), ()), ((FAR, SITE_FAR), there)):
            ip(f"addr add {first}/24 dev eth0\naddr add {second}/24 dev eth0\nlink set eth0 up\nlink set lo up", enter)
            # A backend reads and writes whole packets, as in a lab that has a rate.
            subprocess.run([*enter, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad"], check=True)
            plain = (
                "from pytest_ipperf.agent.kernel.ethtool import set_offloads as s; s('eth0', {'tx-checksum': False})"
            )
            code = f"import sys; sys.path[:0] = {path}; {plain}"
            subprocess.run([*enter, sys.executable, "-c", code], check=True)
        if near:
            raised(near, NEAR, self.stack)
        self.expect("\n", "up")

    def expect(self, line, answer):
        assert self.far.stdin is not None
        assert self.far.stdout is not None
        self.far.stdin.write(line)
        self.far.stdin.flush()
        assert self.far.stdout.readline().strip() == answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.far.communicate()
        self.stack.close()

    def gets_in(self, source, inner_source, transport, outer=None):
        """Return whether a datagram by protocol 41 with these sources reaches a socket here, beside a valid one.

        On a busy machine one may be lost or late, so it is tried three times.
        """
        rightful = FAR if transport == "tunnel" else SITE_FAR
        wanted = enveloped(source, transport, datagram(inner_source, OWN[transport], b"let me in"))
        beside = enveloped(rightful, transport, datagram(REACHED[transport], OWN[transport], b"I may come"))
        with datagrams(OWN[transport]) as sock:
            for _ in range(3):
                for packet in (outer(wanted) if outer else wanted, beside):
                    self.expect(packet.hex() + "\n", "sent")
                sock.settimeout(5)
                heard = {sock.recv(100)}
                sock.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    while True:
                        heard.add(sock.recv(100))
                if b"let me in" in heard:
                    return True
        return False


def enveloped(source, transport, inner):
    there = NEAR if transport == "tunnel" else SITE_NEAR
    return encapsulation.outer(socket.inet_aton(source), socket.inet_aton(there), 0, 64, len(inner)) + inner


def datagram(source, to, text=b"text"):
    """Return a packet of IPv6 and UDP."""
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    head = struct.pack("!HHHH", PORT + 1, PORT, 8 + len(text), 0)
    summed = addresses + struct.pack("!II", 8 + len(text), 17) + head + text + bytes(len(text) % 2)
    head = head[:6] + struct.pack("!H", 0xFFFF - int.from_bytes(summed, "big") % 0xFFFF)
    return struct.pack("!IHBB", 6 << 28, 8 + len(text), 17, 64) + addresses + head + text


def ip(lines, enter=()):
    subprocess.run([*enter, "ip", "-batch", "-"], input=lines + "\n", text=True, check=True)


def pings(address, *words):
    """Return whether two echo requests are answered; what ping said if they are not."""
    argv = ping(address, *words, count=2, interval_s=0.05)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return whole(done.stdout, 2) or done.stdout + done.stderr


def streams(address):
    """Return whether a third of a megabyte is echoed unchanged."""
    data = hashlib.shake_256(address.encode()).digest(1 << 18)
    with socket.create_connection((address, PORT), 30) as sock:
        threading.Thread(target=sock.sendall, args=(data,), daemon=True).start()
        back = b""
        while len(back) < len(data) and (more := sock.recv(65536)):
            back += more
    return back == data


def wire(address, length, traffic_class):
    """Return the packet on the link of an echoed datagram from here."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) as seen,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock,
    ):
        seen.bind(("eth0", 3))
        seen.settimeout(20)
        sock.settimeout(20)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class)
        sock.sendto(bytes(length), (address, PORT))
        assert sock.recv(65536) == bytes(length)
        while True:
            packet, (_, kind, *_) = seen.recvfrom(65536)
            if kind == 0x0800 and packet[9] == encapsulation.PROTOCOL and packet[26] == socket.IPPROTO_UDP:
                return packet


def devices():
    return sorted(name for _, name in socket.if_nameindex())


def programs(device):
    """Return the number of BPF programs at a device's ingress."""
    result = bpf_assembler._bpf(16, struct.pack("=II56x", socket.if_nametoindex(device), 46))[1]
    return struct.unpack_from("=I", result, 24)[0]


def holder(backend):
    """Start a stand-in for an agent, with both endpoints; return it and the forwarders that it started."""
    here = Path(__file__)
    path = [str(here.parents[3]), str(here.parent)]
    body = (
        f"with contextlib.ExitStack() as s: ends.raised({backend!r}, ends.NEAR, s); print(flush=True); sys.stdin.read()"
    )
    code = f"import contextlib, sys; sys.path[:0] = {path}; import ends\n{body}"
    popen = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert popen.stdout is not None
    assert popen.stdout.readline()
    children = Path(f"/proc/{popen.pid}/task/{popen.pid}/children").read_text().split()
    forwarders = [pid for pid in children if b"ipperf-forwarder" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return popen, forwarders


def waited(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def gone(pid):
    return not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
