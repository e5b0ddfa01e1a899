"""Nothing passes on the control network while anything is measured: what tcpdump sees there, against its own clock.

What the agents count themselves, `control` of each run, has to be nothing too.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

pytestmark = pytest.mark.skipif(
    shutil.which("tcpdump") is None, reason="no tcpdump here (Debian: apt-get install tcpdump)"
)

HTTP = """
    import pytest

    @pytest.mark.http
    @pytest.mark.levels(connections=[10], payload=["1k"])
    def test_http(measured, margin):
        assert measured.slowdown <= margin
"""
TCP = """
    import pytest

    @pytest.mark.tcp
    @pytest.mark.metric("throughput")
    def test_tcp(measured, margin):
        assert measured.slowdown <= margin
"""
LINE = re.compile(r"(\d+\.\d+) IP6? (\S+)\.(\d+) > (\S+)\.(\d+): tcp (\d+)")


@dataclass(frozen=True)
class Segment:
    """`at` is the time of day in seconds."""

    at: float
    source: tuple[str, str]
    destination: tuple[str, str]
    payload_bytes: int


class Trace:
    """TCP on a device of a host, from construction to `end`, or that of the stack."""

    def __init__(self, stack, host, device, only, folder):
        self._file = folder / f"{host.name}-{device}.pcap"
        words = [
            "tcpdump",
            "-i",
            device,
            "-w",
            str(self._file),
            "-U",
            "--immediate-mode",
            "-n",
            "-s",
            "100",
            "-B",
            "16384",
            "-Z",
            "root",
            only,
        ]
        enter = ["nsenter", "--target", str(host.pid), "--net"]
        self._process = stack.enter_context(subprocess.Popen([*enter, *words], stderr=subprocess.PIPE, text=True))
        stack.callback(self._process.kill)
        assert self._process.stderr
        assert "listening on" in self._process.stderr.readline()

    def end(self):
        self._process.terminate()
        said = self._process.communicate(timeout=20)[1]
        assert "\n0 packets dropped by kernel" in said, said
        reported = subprocess.run(
            ["tcpdump", "-r", str(self._file), "-ttnnq"], capture_output=True, text=True, check=True
        )
        found = [LINE.match(line) for line in reported.stdout.splitlines()]
        return [Segment(float(m[1]), (m[2], m[3]), (m[4], m[5]), int(m[6])) for m in found if m]


def connections(segments, client):
    """When each of the client's was under way, from its first segment to the last that brought anything."""
    found: dict[tuple[tuple[str, str], tuple[str, str]], list[Segment]] = {}
    for each in segments:
        found.setdefault((min(each.source, each.destination), max(each.source, each.destination)), []).append(each)
    for each in found.values():
        carrying = [segment.at for segment in each if segment.payload_bytes]
        if each[0].source[0] in (client.ipv4, client.ipv6) and carrying:
            yield each[0].at, max(carrying)


def measured(stands, *argv, suite):
    """The measured moments, and by host those at which something passed to the controller or from it."""
    client, server = stands.hosts["client1"], stands.hosts["server1"]
    with contextlib.ExitStack() as stack:
        traces = [Trace(stack, host, "control", "tcp port 22", stands.folder) for host in (client, server)]
        busy = Trace(stack, client, "eth0", "tcp", stands.folder)
        process = stands.session("--design=smoke", *argv, suite=suite)
        said, _ = process.communicate(timeout=300)
        control = {trace._file.stem: [each.at for each in trace.end()] for trace in traces}
        spans = list(connections(busy.end(), client))
    assert process.returncode == NOTHING_DECIDED, said
    return spans, control


def within(spans, control):
    """By host, what passed while anything was measured."""
    return {
        name: [at for at in times if any(begin <= at <= end for begin, end in spans)] for name, times in control.items()
    }


def check(stands, spans, control, *, number):
    """Nothing did, and this is not for want of a trace."""
    runs = stands.events("run")
    assert sum(run["attempted"] for run in runs) >= number
    assert len(spans) >= number
    assert all(len(times) > 100 for times in control.values()), control
    assert not any(within(spans, control).values()), within(spans, control)
    assert {run["proof"]["control"] for run in runs} == {0}
    assert stands.left() == []


def test_nothing_passes_on_the_control_network_in_the_bursts_of_connections(farm):
    stands = farm()
    spans, control = measured(stands, suite=HTTP)
    check(stands, spans, control, number=8 * 30)


def test_what_passes_there_would_be_seen(farm):
    """Somebody else's line to the client, of which the agent knows nothing, so it counts nothing."""
    stands = farm()
    words = ["ssh", "-F", str(stands.ssh_config), "client1", "while sleep 0.01; do echo; done"]
    with subprocess.Popen([*stands.entry, *words], stdout=subprocess.DEVNULL) as talking:
        try:
            spans, control = measured(stands, suite=HTTP)
        finally:
            talking.kill()
    found = within(spans, control)
    assert found["client1-control"]
    assert found["server1-control"] == []
    assert {run["proof"]["control"] for run in stands.events("run")} == {0}


@pytest.mark.evidence
@pytest.mark.parametrize("duration", ["500ms", "12s"])
def test_nothing_passes_there_in_the_seconds_of_a_flow(farm, duration):
    """Twelve seconds are longer than any keep-alive, or question of ssh's, would let pass."""
    stands = farm()
    spans, control = measured(stands, f"--duration={duration}", suite=TCP)
    check(stands, spans, control, number=8)
