"""The two ends of UDP runs on two hosts: namespaces joined by a veth pair, or by a router. Runs in a namespace."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.rpc.codec import Decoder, encoded
from pytest_ipperf.core.portable.errors import LabError

FAR = {4: "198.18.0.2", 6: "2001:2::2"}
NEAR = {4: "198.18.0.1", 6: "2001:2::1"}
PORTS = (21000, 21999)


def spec_of(**given):
    ipver = given.pop("ipver", 4)
    rate = given.pop("rate", 1e7)
    plain = {
        "engine": "udp", "ipver": ipver, "source": NEAR[ipver], "address": FAR[ipver], "ports": PORTS, "connections": 1,
        "payload_bytes": 1400, "warmup_s": 0.05, "run_s": 0.2, "deadline_s": 2.0, "ident": 0x123456789, **given,
    }  # fmt: skip
    return FlowSpec(factors={"rate": rate}, **plain)


def serve():
    """Run the far host: specs come as lines, in pairs: one to listen, one with the near end's report."""
    for line in sys.stdin:
        spec = json.loads(line)
        try:
            with contextlib.closing(ENGINES["udp"].far(Decoder().decode(FlowSpec, spec, "spec"))) as far:
                say(dataclasses.asdict(far.listening))
                near = json.loads(sys.stdin.readline())
                if near:
                    report = dataclasses.asdict(far.finish(flow_report(near)))
                    say({**report, "samples": base64.b64encode(report["samples"]).decode()})
        except LabError as error:
            say({"error": str(error)})


def flow_report(plain):
    return Decoder().decode(FlowReport, {**plain, "samples": plain["samples"] or b""}, "report")


def say(plain):
    os.write(1, (json.dumps(plain) + "\n").encode())


class Hosts:
    """This namespace and another one with a listening far host; `enter` is the command prefix that leads there."""

    def __init__(self, *before):
        here = Path(__file__)
        code = (
            f"import sys; sys.path[:0] = {[str(here.parents[3]), str(here.parent)]}; import udp_ends; udp_ends.serve()"
        )
        self._held = network()
        self.enter = ["nsenter", f"--net=/proc/{self._held.pid}/ns/net"]
        self._joined()
        run(f"ping -q -c 1 -w 9 -i 0.05 {FAR[6]}")  # the kernel takes its time with IPv6 on a link that comes up
        argv = [*self.enter, *before, sys.executable, "-c", code]
        self.far = started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _joined(self):
        run(f"ip link add near type veth peer name far netns {self._held.pid}")
        sides: Any = (([], "near", NEAR), (self.enter, "far", FAR))
        for enter, device, _ in sides:
            run("ip link set lo up", enter)
            run(f"ip link set {device} up", enter)
        for enter, device, addresses in sides:
            run(f"ip addr add {addresses[4]}/24 dev {device}", enter)
            run(f"ip addr add {addresses[6]}/64 dev {device} nodad", enter)

    def listen(self, spec):
        report = self._asked(encoded(FlowSpec, spec))
        assert "error" not in report, report
        return dataclasses.replace(spec, far=FarListening(**report))

    def near(self, spec):
        return ENGINES["udp"].near(spec, lambda: None)

    def finish(self, near):
        report = self._asked(json.loads(json.dumps({**encoded(FlowReport, near), "samples": ""})))
        if "error" in report:
            raise LabError(report["error"])
        return flow_report({**report, "samples": base64.b64decode(report["samples"])})

    def flow(self, **given):
        near = self.near(self.listen(spec_of(**given)))
        return near, self.finish(near)

    def _asked(self, plain):
        self.far.stdin.write(json.dumps(plain) + "\n")
        self.far.stdin.flush()
        return json.loads(self.far.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.far)
        ended(self._held)


class Routed(Hosts):
    """Two hosts with a router between them, in a third namespace that `router` leads to."""

    def _joined(self):
        self._routing = network()
        self.router = ["nsenter", f"--net=/proc/{self._routing.pid}/ns/net"]
        run(f"ip link add near type veth peer name left netns {self._routing.pid}")
        run(f"ip link add right netns {self._routing.pid} type veth peer name far netns {self._held.pid}")
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            subprocess.run([*self.router, "sh", "-c", f"echo 1 > /proc/sys/net/{name}"], check=True)
        sides: Any = (
            ([], "near", NEAR[4], NEAR[6]), (self.router, "left", "198.18.0.254", "2001:2::fe"),
            (self.router, "right", "198.18.0.253", "2001:2::fd"), (self.enter, "far", FAR[4], FAR[6]),
        )  # fmt: skip
        for enter, device, *_ in sides:
            run("ip link set lo up", enter)
            run(f"ip link set {device} up", enter)
        for enter, device, four, six in sides:
            run(f"ip addr add {four}/32 dev {device}", enter)
            run(f"ip addr add {six}/128 dev {device} nodad", enter)
        for enter, device in (([], "near"), (self.enter, "far")):
            run(f"ip route add 198.18.0.0/24 dev {device} scope link", enter)
            run(f"ip route add 2001:2::/64 dev {device}", enter)
        for number, device in (("1", "left"), ("2", "right")):
            run(f"ip route add 198.18.0.{number} dev {device}", self.router)
            run(f"ip route add 2001:2::{number} dev {device}", self.router)
        self._answered()

    def _answered(self):
        """Let the router receive packets for the hosts behind it, by static neighbour entries."""
        for enter, device, other in (([], "near", 2), (self.enter, "far", 1)):
            peer = "left" if device == "near" else "right"
            mac = json.loads(run(f"ip -j link show {peer}", self.router))[0]["address"]
            run(f"ip neigh add 198.18.0.{other} lladdr {mac} dev {device}", enter)
            run(f"ip neigh add 2001:2::{other} lladdr {mac} dev {device}", enter)

    def __exit__(self, *raised):
        super().__exit__(*raised)
        ended(self._routing)


def network() -> Any:
    """Start a process that has a network namespace of its own."""
    popen = started(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    popen.stdout.readline()
    return popen


def started(words, **how) -> Any:
    return subprocess.Popen(words, **how)


def ended(popen):
    popen.stdin.close()
    popen.wait()
    popen.stdout.close()


def run(words, enter=()):
    return subprocess.run([*enter, *words.split()], check=True, capture_output=True, text=True).stdout


def rows(report):
    samples = array("d", report.samples)
    return list(zip(samples[::3], samples[1::3], samples[2::3], strict=True))


class Wire:
    """Every UDP packet that a device saw, by tcpdump: the numbers of a run's datagrams."""

    def __init__(self, path, device, enter=()):
        self._path = path
        words = ["tcpdump", "-i", device, "-w", path, "-U", "-s", "100", "-B", "16384", "-n", "--immediate-mode", "udp"]
        self._popen = started([*enter, *words], stderr=subprocess.PIPE)
        self._popen.stderr.readline()

    def numbers(self, ident):
        """Return the numbers of the datagrams as they passed; none of fragmented ones."""
        self._finish()
        mark, data, at, found = ident << 1 & 0x1FFFFFFFF | 1, Path(self._path).read_bytes(), 24, []
        while at < len(data):
            kept = int.from_bytes(data[at + 8 : at + 12], "little")
            frame = data[at + 16 : at + 16 + kept]
            payload = frame[62 if frame[12:14] == b"\x86\xdd" else 42 :]
            at += 16 + kept
            word = int.from_bytes(payload[:8], "little")
            if word >> 31 == mark:
                found.append(word & 0x7FFFFFFF)
        return found

    def _finish(self):
        """End tcpdump once it has written all that the kernel has for it, as SIGTERM would discard the rest."""
        end, seen = time.monotonic() + 20, (1, 0)
        while len(set(seen)) > 1:
            assert time.monotonic() < end, "tcpdump does not come to an end"
            self._popen.send_signal(signal.SIGUSR1)  # it tells what it has captured, and what the kernel had for it
            captured, received, dropped = map(int, re.findall(rb"(\d+) packets?", self._popen.stderr.readline()))
            assert not dropped
            seen = captured, received
        self._popen.terminate()
        self._popen.communicate()


class FragmentWire(Wire):
    """The same for datagrams in fragments: the numbers of those of which all fragments passed."""

    def numbers(self, ident):
        super().numbers(ident)
        mark, data, at = ident << 1 & 0x1FFFFFFFF | 1, Path(self._path).read_bytes(), 24
        held: dict[bytes, int] = {}
        wanted: dict[bytes, int] = {}
        numbers: dict[bytes, int] = {}
        while at < len(data):
            kept = int.from_bytes(data[at + 8 : at + 12], "little")
            packet = data[at + 30 : at + 16 + kept]
            at += 16 + kept
            if packet[0] >> 4 == 4:
                key, place, length, udp = (
                    packet[4:6],
                    int.from_bytes(packet[6:8], "big") & 0x1FFF,
                    packet[2:4],
                    packet[20:],
                )
                size = int.from_bytes(length, "big") - 20
            else:
                assert packet[6] == 44  # the fragment header
                key, place, udp = packet[44:48], int.from_bytes(packet[42:44], "big") & 0xFFF8, packet[48:]
                size = int.from_bytes(packet[4:6], "big") - 8
            held[key] = held.get(key, 0) + size
            word = int.from_bytes(udp[8:16], "little")
            if not place and word >> 31 == mark:
                wanted[key], numbers[key] = int.from_bytes(udp[4:6], "big"), word & 0x7FFFFFFF
        return [number for key, number in numbers.items() if held[key] == wanted[key]]
