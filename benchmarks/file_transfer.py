"""Goodput of a large file by FTP, as ours, curl and iperf3 find it on one shaped path, and ours against the ceilings.

    python benchmarks/file_transfer.py [--rounds 5] [--seconds 20] [--size 100m]

The sender is behind a router with a token bucket of 100 Mbit/s on its egress. In each round of an IP version every tool
receives for some seconds, in random order: ours fetches the file again and again, curl fetches a file that is large
enough for all of the time, both from the same ProFTPD, and iperf3 receives a stream. Goodput is what each reports;
`interface` is the counter of the receiver's device in our run, against the ceiling that the bucket allows. All figures
are medians of the rounds; a goal is that the pairs of a round agree within 1 %, the counter with theory within 0.5 %.
`foreign` is the number of processors that other programs used.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import Popen

from benchmarks.arena import FRAME_BYTES, RATE_BIT_S, Arena, arena, enter, have, machine
from benchmarks.ends import _asked, _end, _report
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread
from pytest_ipperf.agent.flows.spec import FlowServer, FlowSpec
from pytest_ipperf.agent.host_state.private_dir import populate
from pytest_ipperf.agent.rpc.codec import encoded
from pytest_ipperf.core.portable.content import FileContent
from pytest_ipperf.core.portable.server_state import LARGE_FILE, ServerState
from pytest_ipperf.core.portable.units import bytes_text, parse_bytes
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Entry, Site

SENDER = {4: "198.18.1.1", 6: "2001:2:0:1::1"}
"""Addresses of the host behind the router, which serves here."""
RECEIVER = {4: "198.18.2.2", 6: "2001:2:0:2::2"}
PORT, IPERF_PORT = 21021, 21022
PASSWORD = "arena"  # noqa: S105 - of a server that ends with the benchmark
HEADERS = {4: 20 + 32, 6: 40 + 32}
MTU = 1500
CLOSE, CLOSE_TO_THEORY = 0.01, 0.005
NAMES = ("ours", "curl", "iperf3")


@dataclass(frozen=True)
class Bench:
    """The network with its server, our receiver's process, and the sizes of a trial."""

    net: Arena
    receiver: Popen[str]
    size: int
    seconds: float


def ours(bench: Bench, ipver: int) -> tuple[float, float]:
    """Return our goodput and the interface's rate in bit/s."""
    spec = FlowSpec(
        engine="file_transfer", ipver=ipver, source="", address=SENDER[ipver], ports=(20000, 24999), connections=1,
        payload_bytes=bench.size, factors={}, warmup_s=0.5, run_s=bench.seconds, deadline_s=5.0, ident=0,
        service=FlowServer(port=PORT, users=["user0"], password=PASSWORD), device="way",
    )  # fmt: skip
    report = _report(_asked(bench.receiver, encoded(FlowSpec, spec))["report"])
    assert not report.failed, report.failed
    facts = report.facts
    return 8 * facts["payload_bytes"] / facts["seconds"], 8 * facts["interface_bytes"] / facts["seconds"]


def curl(bench: Bench, ipver: int) -> tuple[float, float]:
    """Return curl's goodput; it ends with status 28 when its time is over."""
    host = SENDER[ipver] if ipver == 4 else f"[{SENDER[ipver]}]"
    url = f"ftp://user0:{PASSWORD}@{host}:{PORT}/long.bin"
    with bench.net.far.running(
        "curl", "--silent", "--disable-epsv" if ipver == 4 else "--ftp-pasv", "--output", "/dev/null",
        "--max-time", f"{bench.seconds:g}", "--write-out", "%{json}", url,
    ) as running:  # fmt: skip
        said = json.loads(running.ended(bench.seconds + 30).said)
    assert running.status == 28, said["errormsg"]
    return 8 * said["size_download"] / (said["time_total"] - said["time_starttransfer"]), 0.0


def iperf3(bench: Bench, ipver: int) -> tuple[float, float]:
    """Return the goodput at iperf3's receiver."""
    with bench.net.far.running("iperf3", "--server", "--one-off", "--port", str(IPERF_PORT), port=IPERF_PORT):
        done = bench.net.near.run(
            "iperf3", "--client", RECEIVER[ipver], "--port", str(IPERF_PORT), "--json", "--omit", "0.5",
            "--time", f"{bench.seconds:g}",
        )  # fmt: skip
    return json.loads(done.said)["end"]["sum_received"]["bits_per_second"], 0.0


@contextlib.contextmanager
def serving(net: Arena, size: int, seconds: float) -> Iterator[None]:
    """Serve the file, and one that outlasts a trial, by ProFTPD on the sender's host."""
    recipe = SERVERS["proftpd"]
    assert not recipe.missing(), recipe.missing()
    long_bytes = round(2 * seconds * RATE_BIT_S / 8)
    state = replace(ServerState(content=b"small", users=1, password=PASSWORD), file_bytes=size)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        data, place = f"{folder}/data", f"{folder}/server"
        long_file = Entry("home/long.bin", FileContent(long_bytes), 0o644)
        populate(data, [*recipe.provisions(data, state), long_file])
        site = Site(place, (SENDER[4], SENDER[6]), PORT, 10, state, data=data, ports=(22000, 22999))
        populate(place, recipe.entries(site))
        with net.near.running(*recipe.argv(site), port=PORT):
            yield


def ceilings(ipver: int) -> tuple[float, float]:
    """Return the highest goodput and interface rate that the bucket lets through, which counts frames."""
    frame = MTU + FRAME_BYTES
    return RATE_BIT_S * (MTU - HEADERS[ipver]) / frame, RATE_BIT_S


def compare(bench: Bench, ipver: int, rounds: int) -> Sequence[Goal]:
    """Print the table of an IP version, and return its goals."""
    kinds = {"ours": ours, "curl": curl, "iperf3": iperf3}
    tools = {name: partial(kinds[name], bench, ipver) for name in NAMES}
    found: Mapping[str, list[tuple[float, ...]]] = measured(tools, rounds, f"file/{ipver}")
    goodput = {name: [trial[0] / 1e6 for trial in found[name]] for name in NAMES}
    best, interface = ceilings(ipver)
    head(f"IPv{ipver}, Mbit/s", "goodput", "of the ceiling", "foreign")
    for name in NAMES:
        share = [1e6 * each / best for each in goodput[name]]
        foreign_each = [trial[-1] for trial in found[name]]
        row(name, spread(goodput[name], 2), spread(share, 4), spread(foreign_each, 2))
    counted = [trial[1] / interface for trial in found["ours"]]
    row("ours, interface", spread([trial[1] / 1e6 for trial in found["ours"]], 2), spread(counted, 4), "")
    ratios = {name: paired(goodput["ours"], goodput[name]) for name in NAMES[1:]}
    goals = [
        Goal(f"IPv{ipver}: ours and {name} differ", [abs(each - 1) for each in ratio], CLOSE)
        for name, ratio in ratios.items()
    ]
    theory = Goal(f"IPv{ipver}: interface and theory differ", [abs(each - 1) for each in counted], CLOSE_TO_THEORY)
    return [*goals, theory]


def main() -> None:
    """Compare the tools over both IP versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--size", type=parse_bytes, default=parse_bytes("100m"))
    asked = parser.parse_args()
    enter()
    assert have("iperf3") == ["iperf3"], "iperf3 is not installed (Debian: apt-get install iperf3)"
    machine("iperf3")
    print(f"{asked.rounds} rounds of {asked.seconds:g} s, files of {bytes_text(asked.size)}, {LARGE_FILE} for ours")
    with arena() as net, serving(net, asked.size, asked.seconds), contextlib.ExitStack() as stack:
        net.shape()
        bench = Bench(net, _end(stack, net.far, "near"), asked.size, asked.seconds)
        goals = [goal for ipver in (4, 6) for goal in compare(bench, ipver, asked.rounds)]
    show(goals, 4)


if __name__ == "__main__":
    main()
