"""Two hosts joined by a veth pair, or by a wire with a delay, for the tests of RTT. Runs in a namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from array import array
from dataclasses import asdict, replace
from pathlib import Path

from pytest_ipperf.agent.flows.engines.rtt import engine
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.rpc.codec import Decoder
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
from pytest_ipperf.lab.netns import delay_line
from tests.support.receive_timestamps import wait_until_stamped

NEAR = {4: "198.18.0.1", 6: "2001:2::1"}
FAR = {4: "198.18.0.2", 6: "2001:2::2"}
NOBODY = {4: "198.18.0.9", 6: "2001:2::9"}
ROOT, HERE = str(Path(__file__).parents[3]), str(Path(__file__).parent)


def spec(source, address, probe, waiting, payload_bytes=64, **others):
    return FlowSpec(
        **{
            "engine": "rtt",
            "ipver": 6 if ":" in address else 4,
            "source": source,
            "address": address,
            "ports": (23000, 23999),
            "connections": 1,
            "payload_bytes": payload_bytes,
            "factors": {"probe": probe, "waiting": waiting},
            "warmup_s": 0.01,
            "run_s": 0.02,
            "deadline_s": 2.0,
            "ident": 0x1F2E3D4C5B,
            **others,
        }
    )


def known(port):
    """Return the values of a far end that has enough processors."""
    return FarListening(port=port, processors=8, pinned=[0])


def rows(report):
    """Return (at_s, rtt_s) of each reply."""
    found = array("d", report.samples)
    return list(zip(found[::2], found[1::2], strict=True))


def far():
    """Serve specs from standard input until a line says that they are done."""
    say("")
    with rx_timestamping():
        for line in sys.stdin:
            end = engine.far(Decoder().decode(FlowSpec, json.loads(line), "spec"))
            say(json.dumps(asdict(end.listening)))
            sys.stdin.readline()
            say(json.dumps(asdict(end.finish(FlowReport())) | {"samples": ""}))


def say(text):
    os.write(1, f"{text}\n".encode())


class Pair:
    """Two ends: `near` runs here, and the far end in a process with a namespace of its own."""

    def __init__(self, delay_s=0.0):
        self._stamping = rx_timestamping()
        code = f"import sys; sys.path[:0] = {[ROOT, HERE]}; import rtt_ends; rtt_ends.far()"
        words = ["unshare", "--net", sys.executable, "-c", code]
        self._far = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._heard()
        pid = self._far.pid
        if delay_s:
            ends = [str(os.getpid()), "eth0", str(pid), "eth0"]
            subprocess.run(["unshare", "--net", sys.executable, delay_line.__file__, str(delay_s), *ends], check=True)
        else:
            ip(f"link add eth0 type veth peer name eth0 netns {pid}")
        for addresses, enter in ((NEAR, ()), (FAR, ("nsenter", f"--net=/proc/{pid}/ns/net"))):
            four, six = addresses.values()
            ip(f"addr add {four}/24 dev eth0\naddr add {six}/64 dev eth0 nodad\nlink set eth0 up", enter)
        silent = "lladdr 02:00:00:00:00:09 dev eth0 nud permanent"
        ip("\n".join(f"neigh add {address} {silent}" for address in NOBODY.values()))
        wait_until_stamped()

    def run(self, ipver, probe, waiting, payload_bytes=64, **others):
        """Return the reports of both ends."""
        one = spec(NEAR[ipver], FAR[ipver], probe, waiting, payload_bytes, **others)
        self._say(json.dumps(asdict(one)))
        listening = FarListening(**json.loads(self._heard()))
        near = engine.near(replace(one, far=listening), lambda: None)
        self._say("")
        return near, Decoder().decode(FlowReport, {**json.loads(self._heard()), "samples": b""}, "report")

    def _say(self, line):
        assert self._far.stdin
        self._far.stdin.write(f"{line}\n")
        self._far.stdin.flush()

    def _heard(self):
        assert self._far.stdout
        return self._far.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._far.communicate()
        self._stamping.close()


def ip(lines, enter=()):
    subprocess.run([*enter, "ip", "-batch", "-"], input=lines + "\n", text=True, check=True)
