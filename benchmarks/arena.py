"""The network of the benchmarks beside other tools: hosts that are network namespaces, and pinned programs.

`near` is the sender and has the first processor, `far` the receiver and the last one. A veth pair joins them, and a
second path leads through a router whose egress may be given a rate. The routes set the congestion control to cubic for
tools that cannot choose it. All of it is in a network namespace, so the machine's network does not change, and it ends
with the program that made it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

DIRECT = {4: "198.18.0.2", 6: "2001:2::2"}
"""Addresses of the far host on the veth pair."""
ROUTED = {4: "198.18.2.2", 6: "2001:2:0:2::2"}
"""Addresses of the far host behind the router."""
LOCAL = {4: "127.0.0.1", 6: "::1"}
RATE_BIT_S, BURST_BYTES, LIMIT_BYTES = 100e6, 32_000, 150_000
"""The token bucket on the router's egress, and its queue, in bytes of Ethernet frames without check sequence."""
FRAME_BYTES = 14
"""Bytes that the bucket counts beside the IP packet."""
WAIT_S = 60.0
READY_S = 5.0
CPUS = os.cpu_count() or 1
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
TOOLS = {
    "D-ITG": ("ITGSend", "-h", "d-itg"),
    "dnsperf": ("dnsperf", "-h", "dnsperf"),
    "fping": ("fping", "-v", "fping"),
    "iperf3": ("iperf3", "--version", "iperf3"),
    "netperf": ("netperf", "-V", "netperf, in non-free"),
    "nuttcp": ("nuttcp", "-V", "nuttcp"),
    "SIPp": ("sipp", "-v", "sip-tester"),
    "ping": ("ping", "-V", "iputils-ping"),
    "sockperf": ("sockperf", "--version", "sockperf"),
    "tcpdump": ("tcpdump", "--version", "tcpdump"),
}
"""By tool: its program, how to ask for the version, and the Debian package."""
INSIDE = "IPPERF_ARENA_INSIDE"
TIED = ("setpriv", "--pdeathsig", "KILL", "--")
"""Command prefix: the command ends with the process that started it, however that ends."""
HOLD = ("unshare", "--net", "sh", "-c", "echo; exec cat")
LINKS = (("near", "direct", "far", "direct"), ("near", "way", "router", "here"), ("router", "there", "far", "way"))
ADDRESSES = {
    "near": (("direct", "198.18.0.1", "2001:2::1"), ("way", "198.18.1.1", "2001:2:0:1::1")),
    "far": (("direct", DIRECT[4], DIRECT[6]), ("way", ROUTED[4], ROUTED[6])),
    "router": (("here", "198.18.1.254", "2001:2:0:1::fe"), ("there", "198.18.2.254", "2001:2:0:2::fe")),
}
ROUTES = {
    "near": ("198.18.2.0/24 via 198.18.1.254", "2001:2:0:2::/64 via 2001:2:0:1::fe"),
    "far": ("198.18.1.0/24 via 198.18.2.254", "2001:2:0:1::/64 via 2001:2:0:2::fe"),
}
CUBIC = (
    "route change 198.18.0.0/24 dev direct proto kernel scope link src 198.18.0.1 congctl cubic",
    "route change local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic",
    "route replace 2001:2::/64 dev direct proto kernel metric 256 congctl cubic",
)
# Incomplete datagrams of one trial must not disturb the next (ip-sysctl: ipfrag_time).
FRAGMENTS = {
    f"net/{name}_{what}": value
    for name in ("ipv4/ipfrag", "ipv6/ip6frag")
    for what, value in (("high_thresh", 2**27), ("time", 1))
}


@dataclass(frozen=True)
class Host:
    """A namespace, given by a process in it, and the processor of the commands that run there.

    `policy` are the words that give them another scheduling policy.
    """

    pid: int
    cpu: int
    policy: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """Return the command prefix that enters the namespace and binds to its processor."""
        return [*TIED, *self.enter(), "taskset", "--cpu-list", str(self.cpu), *self.policy]

    def enter(self) -> list[str]:
        """Return the command prefix that enters the namespace on any processor."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def run(self, *argv: str, fails: bool = False) -> Done:
        """Run a command to its end; AssertionError if it fails, unless it may."""
        with self.running(*argv) as running:
            done = running.ended()
        assert fails or not running.status, f"{' '.join(argv)}: {done.said}"
        return done

    @contextlib.contextmanager
    def running(self, *argv: str, port: int = 0) -> Iterator[Running]:
        """Run a command in the background once it listens on the port, if one is given; end it at exit."""
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                [*self.words(), *argv],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, "PATH": SEARCH},
            )  # fmt: skip
            running = Running(process, output)
            try:
                if port:
                    running.listens(port)
                yield running
            finally:
                running.stop()

    def ip(self, *lines: str) -> None:
        """Run these lines of `ip` commands."""
        subprocess.run([*self.enter(), "ip", "-batch", "-"], input="\n".join(lines), check=True, text=True)


@dataclass(frozen=True)
class Done:
    """Output and processor time (user and kernel) of a command."""

    said: str
    cpu_s: float

    def number(self, pattern: str) -> float:
        """Return the number that the pattern's group matches in the output."""
        found = re.search(pattern, self.said)
        assert found, f"no {pattern!r} in: {self.said}"
        return float(found[1])


class Running:
    """A running program whose output goes to a file, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[str]) -> None:
        self.status: int | None = None
        self._process = process
        self._output = output
        self._cpu_s = 0.0

    def listens(self, port: int) -> None:
        """Wait until the namespace has a socket on that port."""
        wanted, until = f":{port:04X} ", time.monotonic() + READY_S
        while time.monotonic() < until:
            for table in ("tcp", "tcp6", "udp", "udp6"):
                with contextlib.suppress(OSError):
                    lines = Path(f"/proc/{self._process.pid}/net/{table}").read_text(encoding="ascii").splitlines()
                    if any(wanted in line and line.split()[3] in ("0A", "07") for line in lines):
                        return
            assert not self._gone(), self._all()
            time.sleep(0.01)
        raise AssertionError(f"{self._process.args!r} does not listen on port {port}: {self._all()}")

    def says(self, text: str) -> None:
        """Wait until the output contains the text."""
        until = time.monotonic() + READY_S
        while text not in self._all():
            assert not self._gone(), self._all()
            assert time.monotonic() < until, self._all()
            time.sleep(0.01)

    def ended(self, within_s: float = WAIT_S) -> Done:
        """Wait until the program ends by itself; return its output and processor time."""
        until = time.monotonic() + within_s
        while not self._gone():
            assert time.monotonic() < until, f"{self._process.args!r} does not end: {self._all()}"
            time.sleep(0.005)
        return Done(self._all(), self._cpu_s)

    def stop(self, signal: int = 15) -> Done:
        """End the process, and return its output."""
        if not self._gone():
            self._process.send_signal(signal)
            until = time.monotonic() + READY_S
            while not self._gone() and time.monotonic() < until:
                time.sleep(0.005)
            if not self._gone():
                self._process.kill()
        return self.ended()

    def _gone(self) -> bool:
        """Return whether the process has ended; wait4 then gives its processor time, which Popen would drop."""
        if self.status is None:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
                self._cpu_s = used.ru_utime + used.ru_stime
        return self.status is not None

    def _all(self) -> str:
        self._output.seek(0)
        return self._output.read()


# --- the arena --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arena:
    """The two hosts, and the router between them."""

    near: Host
    far: Host
    router: Host

    def shape(self, rate_bit_s: float = RATE_BIT_S) -> None:
        """Limit the rate of the router's egress towards the far host."""
        self.router.run(
            "tc", "qdisc", "replace", "dev", "there", "root", "tbf", "rate", f"{rate_bit_s:.0f}bit",
            "burst", f"{BURST_BYTES}b", "limit", f"{LIMIT_BYTES}b",
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until the far host holds no fragment of an earlier trial."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            output = "".join(Path(f"/proc/{self.far.pid}/net/sockstat{six}").read_text("ascii") for six in ("", "6"))
            if all(int(held) == 0 for held in re.findall(r"^FRAG6?: inuse (\d+)", output, re.MULTILINE)):
                return
            time.sleep(0.05)


def enter() -> None:
    """Run this program in a network namespace and exit, unless it already runs in one."""
    if INSIDE in os.environ:
        return
    for words in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        if not subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
            argv = [*TIED, *words, sys.executable, *sys.argv]
            sys.exit(subprocess.run(argv, check=False, env={**os.environ, INSIDE: "1"}).returncode)
    sys.exit("no network namespace can be had here, and these measurements stand in one (as root, unshare --net)")


@contextlib.contextmanager
def arena() -> Iterator[Arena]:
    """Build two hosts and a router; remove them at exit."""
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        pids = {name: _held(stack) for name in ADDRESSES}
        hosts = {name: Host(pid, cpus[-1] if name == "far" else cpus[0]) for name, pid in pids.items()}
        for first, device, second, other in LINKS:
            hosts[first].ip(f"link add {device} type veth peer name {other} netns {pids[second]}")
        for name, host in hosts.items():
            _furnish(name, host)
        hosts["near"].ip(*CUBIC)
        for address in (*DIRECT.values(), *ROUTED.values()):  # fills the neighbour caches
            hosts["near"].run("ping", "-c", "1", "-W", "3", address, fails=True)
        yield Arena(**hosts)


def _held(stack: contextlib.ExitStack) -> int:
    """Return the process that holds a namespace until the stack is closed."""
    holder = stack.enter_context(subprocess.Popen(HOLD, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert holder.stdin
    assert holder.stdout
    holder.stdout.readline()
    stack.callback(holder.stdin.close)
    return holder.pid


def _furnish(name: str, host: Host) -> None:
    host.ip("link set lo up")
    quiet = {f"net/ipv6/conf/{device}/accept_dad": 0 for device in ("all", *(each[0] for each in ADDRESSES[name]))}
    forwarding = {"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1} if name == "router" else {}
    words = [f"{key.replace('/', '.')}={value}" for key, value in {**quiet, **forwarding, **FRAGMENTS}.items()]
    host.run("sysctl", "-qw", *words)
    for device, four, six in ADDRESSES[name]:
        # Without GSO the packets of a shaped path are as on a wire.
        size = "" if device == "direct" else " gso_max_segs 1"
        host.ip(
            f"addr add {four}/24 dev {device}", f"addr add {six}/64 dev {device} nodad", f"link set {device}{size} up"
        )
    host.ip(*(f"route add {line}" for line in ROUTES.get(name, ())))


def machine(*tools: str) -> None:
    """Print what the figures depend on, including the versions of these tools."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text("ascii", "replace"), re.MULTILINE)
    print(
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; {model[1] if model else platform.machine()}, "
        f"{CPUS} processors; Linux {platform.release()}; Python {platform.python_version()}; "
        + "; ".join(f"{name} {_version(name)}" for name in tools)
    )


def _version(name: str) -> str:
    program, option, _ = TOOLS[name]
    done = subprocess.run([program, option], capture_output=True, text=True, check=False, env={"PATH": SEARCH})
    found = re.search(r"\d+\.\d[\w.]*|(?<=iputils )\w+", done.stdout + done.stderr)
    return found[0] if found else "of unknown version"


def have(*names: str) -> list[str]:
    """Return the tools that are installed; print the names of the others."""
    missing = [name for name in names if not shutil.which(TOOLS[name][0], path=SEARCH)]
    for name in missing:
        print(f"{name} is not installed and is left out (Debian: {TOOLS[name][2]})")
    return [name for name in names if name not in missing]
