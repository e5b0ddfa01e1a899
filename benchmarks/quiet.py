"""The spread of runs on this machine, what each design can detect with it, and the effect of quiet measuring.

    python benchmarks/quiet.py spread [--connections 1,10,100,500] [--protocol http,smtp] [--epochs 10] [--blocks 4]
    python benchmarks/quiet.py worth [--connections 10,100] [--protocol http,smtp] [--epochs 10] [--blocks 4]
    python benchmarks/quiet.py sizes [--connections 1,10] [--protocol http,smtp] [--epochs 20] [--blocks 3]

`spread` measures IPv4 and IPv6 as a session does (epochs, warm-ups, random blocks, runs of 300 connections) and
separates the variance of the logarithms of the run values: within epochs, between epochs, and of the log ratio of the
arms. `worth` measures IPv4 alone, under the conditions of a session and with each of them undone, an epoch of each in
turn and in random order; ratios of spreads have a 95 % interval by bootstrap over the epochs. `sizes` measures IPv4 and
IPv6 in epochs of so many blocks of runs of 300 connections, and in epochs of twice as many blocks of half such runs, in
random order: their `power` is the information about the change that a second gives, 1 / (variance of the epochs'
changes x seconds of an epoch), relative to that of full runs, in the last row the geometric mean of all workloads.

An epoch begins when this machine has been idle for half a second. It is repeated if other processes used more than the
share `--calm` of the processors, so that the spread is that of the project's own work. `foreign` is the mean of that
share.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import math
import os
import random
import statistics
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from unittest.mock import patch

from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.inference.power import epoch_spread, minimum_detectable
from pytest_ipperf.lab.agents import bootstrap, fork_server
from pytest_ipperf.lab.agents.code_archive import code_archive
from pytest_ipperf.lab.agents.leases import leased
from pytest_ipperf.lab.epoch import live_testbed as epoch_module
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed, live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns import veth
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.metrics import METRICS

V4, V6 = Arm(4, "native"), Arm(6, "native")
LAB = BUILTIN["pair"]
QUICK, STANDARD = DESIGNS["quick"], DESIGNS["standard"]
PAYLOAD_BYTES = {"http": 10_240, "smtp": 1024}
DEADLINE_S = 10.0
OWNER, WAIT_S = f"benchmarks/quiet.py {os.getpid()}", 600.0
METRIC = METRICS["response_time"]
LOOKS = (
    ("quick", QUICK, 1),
    ("standard, first look", STANDARD, 1),
    ("standard, last look", STANDARD, STANDARD.looks),
)
RESAMPLES = 2000
IDLE_S = 0.5
CPUS = os.cpu_count() or 1


@dataclass(frozen=True)
class Condition:
    """A testbed, and the attributes of modules that are replaced while it is measured."""

    name: str
    testbed: Testbed = LAB
    run_connections: int = QUICK.run_connections
    more_blocks: int = 1
    others: tuple[tuple[ModuleType, str, Any], ...] = ()


def collecting_code() -> int:
    """Return a descriptor of the code archive with a client that does not disable garbage collection."""
    descriptor = os.memfd_create("collecting")
    with (
        zipfile.ZipFile(io.BytesIO(code_archive())) as usual,
        open(descriptor, "wb", closefd=False) as file,
        zipfile.ZipFile(file, "w") as other,
    ):
        for name in usual.namelist():
            text = usual.read(name)
            if name.endswith("agent/kernel/timer_slack.py"):
                assert b"    gc.disable()\n" in text
                text = text.replace(b"    gc.disable()\n", b"").replace(b"    gc.collect()\n", b"")
            other.writestr(name, text)
    return descriptor


def conditions() -> list[Condition]:
    """Return the usual condition, then each change alone, then all of them."""
    loose = dataclasses.replace(
        LAB, client=dataclasses.replace(LAB.client, cpus=()), server=dataclasses.replace(LAB.server, cpus=())
    )
    collecting = collecting_code()
    garbage = [(module, "code_file", lambda: collecting) for module in (bootstrap, fork_server)]
    hot = (epoch_module, "_SETTLE_S", 0.0)
    kernel = {name: value for name, value in veth._SYSCTLS.items() if "ipv6" in name}  # noqa: SLF001 - undone here
    narrow = (veth, "_SYSCTLS", kernel)
    return [
        Condition("as a session measures"),
        Condition("not pinned", loose),
        Condition("garbage collection on", others=(*garbage,)),
        Condition("no cool-down", others=(hot,)),
        Condition("the kernel's own queues and ports", others=(narrow,)),
        Condition("all of these", loose, others=(*garbage, hot, narrow)),
    ]


@dataclass(frozen=True)
class Value:
    """The logarithm of a run's value, with its arm and block."""

    arm: Arm
    block: int
    log_value: float


@dataclass(frozen=True)
class Epoch:
    """The runs of one live testbed, its seconds, and the share of the processors that other programs used."""

    values: tuple[Value, ...]
    foreign: float
    seconds: float


Measured = Callable[[Condition, Workload, Sequence[Arm]], Epoch]


def calm_epochs(blocks: int, calm: float, rng: random.Random) -> Measured:
    """Return a function that measures an epoch, repeated until others used no more than that share."""

    def measured(condition: Condition, workload: Workload, arms: Sequence[Arm]) -> Epoch:
        while True:
            while foreign_share(lambda: time.sleep(IDLE_S))[1] > calm:
                pass
            with leased(LAB, OWNER, WAIT_S, say):
                began = time.monotonic()
                values, foreign = foreign_share(lambda: one_epoch(condition, workload, arms, blocks, rng))
            if foreign <= calm:
                return Epoch(tuple(values), foreign, time.monotonic() - began)

    return measured


T = TypeVar("T")


def foreign_share(call: Callable[[], T]) -> tuple[T, float]:
    """Call, and return the result with the share of the processors that others used; it must leave no processes."""
    before_s, began = others_s(), time.monotonic()
    returned = call()
    return returned, (others_s() - before_s) / ((time.monotonic() - began) * CPUS)


def others_s() -> float:
    """Return the processor time of all processes except this one and the kernel's, with that of ended children."""
    return sum(each.cpu_s for level in tree(1) for each in level if each.pid != os.getpid())


def one_epoch(
    condition: Condition, workload: Workload, arms: Sequence[Arm], blocks: int, rng: random.Random
) -> list[Value]:
    """Measure one epoch: a warm-up of each arm, then the blocks."""
    with contextlib.ExitStack() as stack:
        for module, name, value in condition.others:
            stack.enter_context(patch.object(module, name, value))
        up = stack.enter_context(live_testbed(condition.testbed, OWNER, WAIT_S, say))
        service = up.serve(workload, "auto")
        numbers = range(-1, blocks * condition.more_blocks)
        order = [(block, arm) for block in numbers for arm in rng.sample(list(arms), len(arms))]
        design = dataclasses.replace(QUICK, run_connections=condition.run_connections)
        bursts = {
            block: design.bursts(workload.connections) if block >= 0 else design.warmup_bursts(workload.connections)
            for block in numbers
        }
        values = [Value(arm, block, one_run(up, service, workload, arm, bursts[block])) for block, arm in order]
    return [each for each in values if each.block >= 0]


def say(text: str) -> None:
    """Print what is not part of the table."""
    print(text, file=sys.stderr)


def one_run(up: LiveTestbed, service: ServerEndpoint, workload: Workload, arm: Arm, bursts: int) -> float:
    """Make a run; return the logarithm of its value."""
    result = up.run(arm, service, workload, bursts=bursts, deadline_s=DEADLINE_S)
    assert not result.violations, result.violations
    value = METRIC.value(result.data)
    assert value is not None
    return math.log(value)


# --- spreads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """Standard deviations of logarithms, within and between epochs: 0.03 is 3 %."""

    within: float
    between: float


def spread(epochs: Sequence[Sequence[float]]) -> Spread:
    """Return the variance components of a balanced design, without the chance part between epochs."""
    within = statistics.fmean(map(statistics.variance, epochs))
    between = statistics.variance(map(statistics.fmean, epochs)) - within / len(epochs[0])
    return Spread(math.sqrt(within), math.sqrt(max(0.0, between)))


def ratio_interval(tests: Sequence[float], references: Sequence[float]) -> tuple[float, float, float]:
    """Return the root of a ratio of mean variances, one of each for each epoch, with its 95 % interval."""
    rng = random.Random(1)

    def ratio(places: Sequence[int]) -> float:
        return math.sqrt(sum(tests[at] for at in places) / sum(references[at] for at in places))

    places = range(len(tests))
    drawn = sorted(ratio(rng.choices(places, k=len(tests))) for _ in range(RESAMPLES))
    return ratio(places), drawn[round(0.025 * RESAMPLES)], drawn[round(0.975 * RESAMPLES)]


def logs_of(epoch: Epoch, arm: Arm) -> list[float]:
    """Return the logarithms of an arm's runs."""
    return [each.log_value for each in epoch.values if each.arm == arm]


def ratios_of(epoch: Epoch) -> list[float]:
    """Return ln(IPv6 / IPv4) of each block."""
    by_block: dict[int, dict[Arm, float]] = defaultdict(dict)
    for each in epoch.values:
        by_block[each.block][each.arm] = each.log_value
    return [found[V6] - found[V4] for found in by_block.values()]


def mean_ms(logs: Iterable[Sequence[float]]) -> float:
    """Return the mean of all runs in ms."""
    return 1e3 * statistics.fmean(math.exp(log) for each in logs for log in each)


def foreign_text(epochs: Iterable[Epoch]) -> str:
    """Format the share that others used."""
    return f"{100 * statistics.fmean(each.foreign for each in epochs):.1f} %"


# --- what is printed --------------------------------------------------------------------------------------------------


def show_spread(workload: Workload, epochs: int, measured: Measured, rng: random.Random) -> Power | None:
    """Print a row: the spread of both arms and of their ratio, and what each design can detect."""
    del rng
    found = [measured(conditions()[0], workload, (V4, V6)) for _ in range(epochs)]
    arms = [spread([logs_of(each, arm) for each in found]) for arm in (V4, V6)]
    ratio = spread([ratios_of(each) for each in found])
    detected = []
    for _, design, looks in LOOKS:
        sd = epoch_spread(ratio.within, ratio.between, design.blocks, METRIC.metric.location)
        detected.append(minimum_detectable(sd, looks * design.epochs, alpha=design.alpha))
    shares = [*(each for arm in (*arms, ratio) for each in (arm.within, arm.between)), *detected]
    texts = (f"{mean_ms(logs_of(each, V4) for each in found):.2f}", *(f"{100 * share:.1f} %" for share in shares))
    print(f"| {workload.protocol} | {workload.connections} | {' | '.join(texts)} | {foreign_text(found)} |", flush=True)
    return None


def show_worth(workload: Workload, epochs: int, measured: Measured, rng: random.Random) -> Power | None:
    """Print a row for each condition: the spread of IPv4, and its ratio to the usual one."""
    found: dict[str, list[Epoch]] = defaultdict(list)
    every = conditions()
    for _ in range(epochs):
        for condition in rng.sample(every, len(every)):
            found[condition.name].append(measured(condition, workload, (V4,)))
    logs = {name: [logs_of(each, V4) for each in lives] for name, lives in found.items()}
    usual = [statistics.variance(values) for values in logs[every[0].name]]
    for name in (condition.name for condition in every):
        both = spread(logs[name])
        ratio, low, high = ratio_interval([statistics.variance(values) for values in logs[name]], usual)
        print(
            f"| {workload.protocol} | {workload.connections} | {name} | {mean_ms(logs[name]):.2f} "
            f"| {100 * both.within:.1f} % | {100 * both.between:.1f} % | {ratio:.2f} ({low:.2f} .. {high:.2f}) "
            f"| {foreign_text(found[name])} |",
            flush=True,
        )
    return None


def show_sizes(workload: Workload, epochs: int, measured: Measured, rng: random.Random) -> Power | None:
    """Print a row for each size of a run: how the epochs' changes spread, and the power of a second of measuring."""
    half = QUICK.run_connections // 2
    every = [Condition("full runs"), Condition("half runs", run_connections=half, more_blocks=2)]
    found: dict[str, list[Epoch]] = defaultdict(list)
    for _ in range(epochs):
        for condition in rng.sample(every, len(every)):
            found[condition.name].append(measured(condition, workload, (V4, V6)))
    powers = [Power.of(found[condition.name], found[every[0].name], rng) for condition in every]
    for condition, power in zip(every, powers, strict=True):
        lives = found[condition.name]
        changes = [statistics.median(ratios_of(each)) for each in lives]
        print(
            f"| {workload.protocol} | {workload.connections} | {condition.name} | {len(lives)} "
            f"| {statistics.fmean(each.seconds for each in lives):.2f} | {100 * statistics.stdev(changes):.1f} % "
            f"| {power} | {foreign_text(lives)} |",
            flush=True,
        )
    return powers[-1]


@dataclass(frozen=True)
class Power:
    """Logarithm of the information of a second, relative to that of other epochs, and of its bootstrap resamples."""

    log: float
    drawn: tuple[float, ...]

    @classmethod
    def of(cls, tests: Sequence[Epoch], references: Sequence[Epoch], rng: random.Random) -> Power:
        """Return the power of epochs relative to others."""

        def log_information(lives: Sequence[Epoch]) -> float:
            changes = [statistics.median(ratios_of(each)) for each in lives]
            return -math.log(statistics.variance(changes) * statistics.fmean(each.seconds for each in lives))

        return cls(
            log_information(tests) - log_information(references),
            tuple(
                log_information(rng.choices(tests, k=len(tests)))
                - log_information(rng.choices(references, k=len(references)))
                for _ in range(RESAMPLES)
            ),
        )

    @classmethod
    def mean_of(cls, powers: Sequence[Power]) -> Power:
        """Return the geometric mean of workloads' powers, which were resampled independently."""
        drawn = zip(*(each.drawn for each in powers), strict=True)
        return cls(statistics.fmean(each.log for each in powers), tuple(map(statistics.fmean, drawn)))

    def __str__(self) -> str:
        drawn = sorted(self.drawn)
        low, high = (drawn[round(share * RESAMPLES)] for share in (0.025, 0.975))
        return f"{math.exp(self.log):.2f} ({math.exp(low):.2f} .. {math.exp(high):.2f})"


HEADERS = {
    "spread": "| protocol | connections | IPv4, ms | IPv4 within | between | IPv6 within | between | ratio within "
    f"| between | {' | '.join(name for name, _, _ in LOOKS)} | foreign |",
    "worth": "| protocol | connections | condition | mean, ms | within | between | within / usual | foreign |",
    "sizes": "| protocol | connections | runs | epochs | seconds of an epoch | spread | power | foreign |",
}
SHOWN = {"spread": show_spread, "worth": show_worth, "sizes": show_sizes}
CONNECTIONS = {"spread": "1,10,100,500", "worth": "10,100", "sizes": "1,10"}


def workloads(protocols: str, connections: str) -> Iterator[Workload]:
    """Yield the workloads that the arguments name."""
    for protocol in protocols.split(","):
        for number in connections.split(","):
            yield Workload(
                testbed=LAB.name,
                protocol=protocol,
                client="lean",
                connections=int(number),
                payload_bytes=PAYLOAD_BYTES[protocol],
            )


def main() -> None:
    """Measure the requested table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SHOWN)
    parser.add_argument("--connections")
    parser.add_argument("--protocol", default="http,smtp")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--calm", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(HEADERS[asked.what])
    powers = []
    for workload in workloads(asked.protocol, asked.connections or CONNECTIONS[asked.what]):
        rng = random.Random(f"{asked.seed} {workload}")
        power = SHOWN[asked.what](workload, asked.epochs, calm_epochs(asked.blocks, asked.calm, rng), rng)
        powers += [power] if power else []
    if len(powers) > 1:
        print(f"| all | | half runs | | | | {Power.mean_of(powers)} | |")


if __name__ == "__main__":
    main()
