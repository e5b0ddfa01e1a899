"""Voice and games beside D-ITG: rates, sizes, pacing and processor time, by tcpdump at the receiver.

    python benchmarks/traffic.py [--seconds 60] [--rounds 1] [--calls 100,300,1000] [--one-way N] [--realtime]

Every codec with and without RTP's header compressed and D-ITG's voice activity detection, and three games: all of these
flows at once, one way, from one process to one process over a veth pair, for each IP version once by ours and once by
D-ITG in each round, in random order. Ours sends them as one model, whose packets have the size of RTP and not its
fields. `off by` is the relative error of the payload's bit rate on the wire, between the
first and the last packet, and that of the tool's own report. A goal is that no codec of ours is off by more than 1 %,
nor differs by more from D-ITG's.

Sizes and intervals of games are random, so their distributions are compared, by the largest difference of the two
distribution functions (Kolmogorov-Smirnov) and the probability p of a larger one by chance. Gaps are rounded to a
millisecond, as the error of pacing is another matter.

The second part makes many calls at once: of G.729.3 in both directions, as the protocol `voip` has them, and of G.729.2
one way beside D-ITG and SIPp, whose called end reads no RTP (`--one-way 100` makes these alone). Sent late is by how
much packets left after their instants, of the direction that was later; the error of a gap is its distance on the wire
from the codec's. Processor time is that of each end for a call, in parts in 1000 of one processor. `foreign` is the
number of processors that other programs used. With `--realtime` all tools run before all other programs (SCHED_FIFO),
so that these do not interrupt them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.arena import DIRECT, Arena, arena, enter, have, machine
from benchmarks.ends import Ends, ends
from benchmarks.modelled import CALL, CODECS, LEAST_BYTES, SENT, Sent, cumulative, distance, together
from benchmarks.referee import Datagram, watching
from benchmarks.rounds import Goal, foreign, head, interleaved, paired, row, show, spread
from benchmarks.sipp import RTP_PORT, scenario

OURS, DITG, SIPP = "ours", "D-ITG", "SIPp"
PORT = itertools.count(30000)
NEAR = {4: "198.18.0.1", 6: "2001:2::1"}
"""Address of the near end on the veth pair."""
CLOSE, LATE_US, ALL = 1.0, 1000, 99.9
"""The limits of the goals: percent, us, percent."""
BOTH = 5
"""The column of the processor time of both ends."""
LEFT_S = 5
"""Time that D-ITG has after its flows to end; with 100 flows and more it often never does, and is ended."""
CONTROL = 0xFFFF
"""Stream of our control packets."""
MS = 1_000_000
REALTIME = ("chrt", "--fifo", "1")
Flow = Sequence[Datagram]


@dataclass(frozen=True)
class Trial:
    """Packets of each flow on the wire, what the tool reports in bit/s of each, and its ends' processor time in s."""

    flows: Sequence[Flow]
    reported_bit_s: Mapping[int, float]
    cpu_s: tuple[float, float]


@dataclass(frozen=True)
class Bench:
    """The network, our two processes, the time of a trial and a folder."""

    place: Arena
    ends: Ends
    seconds: float
    folder: str

    def ours(self, sent: Sequence[Sent], ipver: int, pattern: str) -> Trial:
        """Send these flows from one process."""
        with watching(self.place.far, "direct", "in", self.folder) as seen:
            flown = self.ends.run(
                "traffic", DIRECT[ipver], payload_bytes=512, run_s=self.seconds, warmup_s=0.0,
                traffic=together(sent), pattern=pattern,
            )  # fmt: skip
        # Clocks are compared on another port.
        port = max(seen.begun, key=lambda each: seen.begun[each])
        found = _by(seen.of(port), lambda each: int.from_bytes(each.key[2:4], "big"))
        found.pop(CONTROL)
        packets = Counter(map(int, flown.outcome.samples[1::5]))
        bit_s = {which: 8 * packets[which] * sent[which].mean_bytes() / self.seconds for which in packets}
        return Trial([found[which] for which in range(len(sent))], bit_s, (flown.near_cpu_s, flown.far_cpu_s))

    def ditg(self, sent: Sequence[Sent], ipver: int, _: str) -> Trial:
        """Send these flows by one ITGSend."""
        control, ports = next(PORT), [next(PORT) for _ in sent]
        script, log = Path(self.folder, "flows"), f"{self.folder}/receiver.log"
        common = f"-a {DIRECT[ipver]} -Sdp {control} -t {1000 * self.seconds:.0f}"
        script.write_text(
            "".join(f"{common} -rp {port} {flow.ditg}\n" for port, flow in zip(ports, sent, strict=True)),
            encoding="ascii",
        )
        near, far = self.place.near, self.place.far
        with (
            watching(far, "direct", "in", self.folder) as seen,
            far.running("ITGRecv", "-Sp", str(control), port=control) as receiver,
            near.running("ITGSend", str(script), "-l", f"{self.folder}/sender.log", "-x", log) as sender,
        ):
            try:
                one = sender.ended(self.seconds + LEFT_S)
            except AssertionError:
                one = sender.stop()
            other = receiver.stop()
        found = _by(seen.whole, lambda each: each.port)
        assert all(found[port] for port in ports), f"D-ITG sent only {len(found)} of {len(ports)} flows: {one.said}"
        reported = dict(_reported(near.run("ITGDec", log, fails=True).said))
        bit_s = {which: reported[port] for which, port in enumerate(ports) if port in reported}
        return Trial([found[port] for port in ports], bit_s, (one.cpu_s, other.cpu_s))

    def sipp(self, sent: Sequence[Sent], ipver: int, _: str) -> Trial:
        """Make as many calls of G.729 as there are flows, each of which streams RTP to the called end."""
        near, far, address, port = self.place.near, self.place.far, DIRECT[ipver], next(PORT)
        caller = (
            "sipp",
            "-sf",
            scenario(self.folder, self.seconds),
            f"{address}:{port}",
            "-i",
            NEAR[ipver],
            "-nostdin",
        )
        with (
            watching(far, "direct", "in", self.folder) as seen,
            far.running(
                "sipp", "-sn", "uas", "-i", address, "-p", str(port), "-mp", str(RTP_PORT), "-nostdin"
            ) as called,
            near.running(*caller, "-m", str(len(sent)), "-r", str(10 * len(sent))) as calling,
        ):
            one = calling.ended(self.seconds + LEFT_S)
            other = called.stop(9)
        found = _by(seen.of(RTP_PORT), lambda each: int.from_bytes(each.key[8:12], "big"))
        assert len(found) == len(sent), f"SIPp sent {len(found)} of {len(sent)} streams: {one.said[-400:]}"
        return Trial(list(found.values()), {}, (one.cpu_s, other.cpu_s))

    def calls(self, number: int) -> tuple[float, ...]:
        """Make calls in both directions; return lateness in us, shares that came, and processor time of a call."""
        flown = self.ends.run(
            "voip", DIRECT[4], payload_bytes=1, run_s=self.seconds, connections=number, traffic=CALL,
            pattern=f"{number}", codec="g729.3",
        )  # fmt: skip
        planned = flown.fact("planned_bit_s") * self.seconds / 8 / flown.fact("size_bytes")
        late_us = [1e6 * flown.fact(name) for name in ("late_s", "late_p99_s")]
        shares = [flown.fact("unique") / planned, flown.fact("missed") / planned]
        cpu = [1e3 * each / self.seconds / number for each in (flown.near_cpu_s, flown.far_cpu_s)]
        return (*late_us, *shares, *cpu)


def _by(seen: Sequence[Datagram], key: Callable[[Datagram], int]) -> dict[int, list[Datagram]]:
    found: dict[int, list[Datagram]] = defaultdict(list)
    for each in seen:
        found[key(each)].append(each)
    return found


def _reported(said: str) -> Iterator[tuple[int, float]]:
    """Yield the port and the bit rate of each flow in ITGDec's output."""
    for part in said.split("Flow number:")[1:]:
        port, kbit_s = re.search(r"To +\S+:(\d+)", part), re.search(r"Average bitrate += +([\d.]+)", part)
        if port and kbit_s:
            yield int(port[1]), 1e3 * float(kbit_s[1])


def packets_s(flow: Flow) -> float:
    """Return the packets a second between the first and the last one."""
    return 1e9 * (len(flow) - 1) / (flow[-1].ended_ns - flow[0].ended_ns)


def mean_bytes(flow: Flow) -> float:
    """Return the mean payload of a packet."""
    return statistics.fmean(each.payload_bytes for each in flow)


def bit_s(flow: Flow) -> float:
    """Return the bit rate of the payload."""
    return 8 * packets_s(flow) * mean_bytes(flow)


def gaps_ns(flow: Flow) -> list[int]:
    """Return the times between packets."""
    return [after.ended_ns - before.ended_ns for before, after in itertools.pairwise(flow)]


def _off(found: float, right: float) -> float:
    return 100 * (found / right - 1)


# --- flows at once ----------------------------------------------------------------------------------------------------

Trials = Mapping[str, Sequence[tuple[Trial, float]]]
"""By tool, for each round: a trial, and the number of processors that others used."""


def at_once(bench: Bench, tools: Sequence[str], rounds: int) -> list[Goal]:
    """Compare all codecs and games over both IP versions; return the goals."""
    goals: list[Goal] = []
    for ipver in (4, 6):
        found: dict[str, list[tuple[Trial, float]]] = defaultdict(list)
        for name in interleaved(tools, rounds, f"traffic {ipver}"):
            send = {OURS: bench.ours, DITG: bench.ditg}[name]
            found[name].append(foreign(partial(send, SENT, ipver, f"{ipver} {len(found[name])}")))
        goals += show_codecs(ipver, found)
        show_games(ipver, found)
        show_cost(ipver, found)
    return goals


def show_codecs(ipver: int, found: Trials) -> list[Goal]:
    """Print a row for each kind of call; return the goals."""
    each_tool = [f"{name}{what}" for name in found for what in (": packets/s x B", ", off by, %", ", its report, %")]
    head(f"IPv{ipver}", "packets/s x B", "kbit/s", *each_tool, *(["ours - D-ITG, %"] if DITG in found else []))
    off: dict[str, list[list[float]]] = {name: [[] for _ in trials] for name, trials in found.items()}
    for which, sent in enumerate(SENT[:CODECS]):
        right_bit_s = 8 * sent.packets_s * sent.mean_bytes()
        cells = [f"{sent.packets_s:.2f} x {sent.mean_bytes():.0f}", f"{right_bit_s / 1e3:.3f}"]
        for name, trials in found.items():
            flows = [trial.flows[which] for trial, _ in trials]
            for told, flow in zip(off[name], flows, strict=True):
                told.append(_off(bit_s(flow), right_bit_s))
            reported = [_off(trial.reported_bit_s.get(which, float("nan")), right_bit_s) for trial, _ in trials]
            sizes = statistics.median(map(mean_bytes, flows))
            cells.append(f"{statistics.median(map(packets_s, flows)):.3f} x {sizes:.2f}")
            cells.append(f"{statistics.median(told[-1] for told in off[name]):+.3f}")
            cells.append(f"{statistics.median(reported):+.3f}")
        if DITG in found:
            both = zip(off[OURS], off[DITG], strict=True)
            cells.append(f"{statistics.median(ours[-1] - theirs[-1] for ours, theirs in both):+.3f}")
        row(sent.name, *cells)
    goals = [Goal(f"IPv{ipver}: the codec of ours that is off most, %", _most(off[OURS]), CLOSE)]
    if DITG in found:
        apart = [
            [one - other for one, other in zip(*both, strict=True)] for both in zip(off[OURS], off[DITG], strict=True)
        ]
        goals.append(Goal(f"IPv{ipver}: the codec most apart between ours and D-ITG, %", _most(apart), CLOSE))
    return goals


def _most(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [max(map(abs, each)) for each in rounds]


def show_games(ipver: int, found: Trials) -> None:
    """Print the figures of each game, and how far its distributions are apart."""
    head(
        f"IPv{ipver}", "", "packets", "packets/s", "B, mean", "kbit/s", "gap, ms: median", "99 %",
        "sizes: distance (p)", "gaps: distance (p)",
    )  # fmt: skip
    for which, sent in enumerate(SENT[CODECS:], CODECS):
        right_s = f"{sent.packets_s:.2f}" if sent.packets_s else "-"
        row(sent.name, "model", "", right_s, f"{sent.mean_bytes():.2f}", *"-----")
        drawn: dict[str, tuple[list[int], list[int]]] = {}
        for name, trials in found.items():
            flows = [trial.flows[which] for trial, _ in trials]
            sizes = [each.payload_bytes for flow in flows for each in flow]
            gaps = sorted(gap for flow in flows for gap in gaps_ns(flow))
            drawn[name] = sizes, [round(gap / MS) for gap in gaps]
            row(
                sent.name, name, str(len(sizes)), f"{statistics.median(map(packets_s, flows)):.2f}",
                f"{statistics.fmean(sizes):.2f}", f"{statistics.median(map(bit_s, flows)) / 1e3:.3f}",
                *(f"{gaps[len(gaps) * share // 100] / MS:.3f}" for share in (50, 99)),
                distance(sizes, cumulative(sent.size, least=LEAST_BYTES)),
                distance(drawn[name][1], cumulative(sent.stream.interval_s, unit=1e-3, rounded=True)),
            )  # fmt: skip
        if DITG in drawn:
            between = (distance(*both) for both in zip(drawn[OURS], drawn[DITG], strict=True))
            row(sent.name, "ours to D-ITG", *"------", *between)


def show_cost(ipver: int, found: Trials) -> None:
    """Print the processor time of all flows."""
    head(f"IPv{ipver}, all flows", "packets", "sender, us a packet", "receiver, us a packet", "ours / it", "foreign")
    cost = {
        name: [[1e6 * cpu_s / sum(map(len, trial.flows)) for cpu_s in trial.cpu_s] for trial, _ in trials]
        for name, trials in found.items()
    }
    for name, trials in found.items():
        ratios = paired([sum(each) for each in cost[OURS]], [sum(each) for each in cost[name]])
        packets = statistics.median(sum(map(len, trial.flows)) for trial, _ in trials)
        ends_us = (spread(end, 2) for end in zip(*cost[name], strict=True))
        row(name, f"{packets:.0f}", *ends_us, spread(ratios, 2), spread([others for _, others in trials], 2))


# --- calls ------------------------------------------------------------------------------------------------------------


def calls(bench: Bench, numbers: Sequence[int], rounds: int) -> list[Goal]:
    """Make calls in both directions; return the goals of the largest number."""
    head(
        "calls, both directions", "packets/s sent", "sent late, us: median", "99 %", "came, %", "never sent, %",
        "client, 1/1000 a call", "server, 1/1000 a call", "foreign",
    )  # fmt: skip
    goals: list[Goal] = []
    for number in numbers:
        trials = [foreign(partial(bench.calls, number)) for _ in range(rounds)]
        median, p99, came, missed, near, far = zip(*(figures for figures, _ in trials), strict=True)
        percent = [[100 * each for each in share] for share in (came, missed)]
        row(
            str(number), f"{2 * number * 33}", spread(median, 0), spread(p99, 0),
            *(spread(each, 2) for each in (*percent, near, far, [others for _, others in trials])),
        )  # fmt: skip
        goals = [
            Goal(f"{number} calls: sent late, 99 %, us", p99, LATE_US),
            Goal(f"{number} calls: came, %", percent[0], ALL, at_least=True),
        ]
    return goals


def one_way(bench: Bench, tools: Sequence[str], number: int, rounds: int) -> None:
    """Make calls in one direction beside D-ITG and SIPp, which streams this codec."""
    call = next(each for each in SENT if each.name == "G.729.2, RTP")
    sends = {OURS: bench.ours, DITG: bench.ditg, SIPP: bench.sipp}
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for name in interleaved(tools, rounds, f"calls {number}"):
        trial, others = foreign(partial(sends[name], [call] * number, 4, f"{len(found[name])}"))
        gaps_us = (gap / 1e3 for flow in trial.flows for gap in gaps_ns(flow))
        wrong = sorted(abs(gap_us - 1e6 / call.packets_s) for gap_us in gaps_us)
        off = _off(sum(map(packets_s, trial.flows)) / number, call.packets_s)
        cpu = [1e3 * each / bench.seconds / number for each in trial.cpu_s]
        found[name].append((off, wrong[len(wrong) // 2], wrong[len(wrong) * 99 // 100], *cpu, sum(cpu), others))
    head(
        f"{number} calls, one way", "rate off by, %", "gap error, us: median", "99 %", "sender, 1/1000 a call",
        "receiver, 1/1000 a call", "both, ours / it", "foreign",
    )  # fmt: skip
    columns = {name: list(zip(*trials, strict=True)) for name, trials in found.items()}
    for name, (off_each, median, p99, near, far, both, others_each) in columns.items():
        ratios = paired(columns[OURS][BOTH], both)
        row(
            name, spread(off_each, 3), *(spread(each, 1) for each in (median, p99)),
            *(spread(each, 2) for each in (near, far, ratios, others_each)),
        )  # fmt: skip


def main() -> None:
    """Compare flows, then make calls."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each trial with all flows")
    parser.add_argument("--rounds", type=int, default=1, help="of these")
    parser.add_argument("--calls", default="100,300,1000", help="at once")
    parser.add_argument("--call-seconds", type=float, default=5, help="of each trial of calls")
    parser.add_argument("--one-way", type=int, default=0, help="number of calls of that part; alone if given")
    parser.add_argument("--call-rounds", type=int, default=3, help="of these")
    parser.add_argument("--realtime", action="store_true", help="run both tools before all other programs")
    asked = parser.parse_args()
    enter()
    tools = [OURS, *have(DITG)]
    machine(*tools[1:], "tcpdump")
    numbers = [int(each) for each in asked.calls.split(",")]
    with arena() as plain, tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        policy = REALTIME if asked.realtime else ()
        place = replace(plain, near=replace(plain.near, policy=policy), far=replace(plain.far, policy=policy))
        both = stack.enter_context(ends(place.near, place.far))
        bench = Bench(place, both, asked.seconds, folder)
        if asked.one_way:
            bench = replace(bench, seconds=asked.call_seconds)
            one_way(bench, [*tools, *have(SIPP)], asked.one_way, asked.call_rounds)
            return
        goals = at_once(bench, tools, asked.rounds)
        bench = replace(bench, seconds=asked.call_seconds)
        goals += calls(bench, numbers, asked.call_rounds)
        one_way(bench, [*tools, *have(SIPP)], numbers[0], asked.call_rounds)
    show(goals, 3)


if __name__ == "__main__":
    main()
