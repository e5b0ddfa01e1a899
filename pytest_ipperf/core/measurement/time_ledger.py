"""Ledger of time: on which activity a session spent its seconds, each of them on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MEASURED, WARMUP = "measured", "warmup"
BETWEEN = ("drain", "finish", "run")
EPOCHS = ("wait", "reboot", "build", "serve", "verify", "proof", "baseline_cost", "teardown")
OTHERS = ("judge", "reports", "rest")

ACTIVITIES: Mapping[str, str] = {
    MEASURED: "bursts, or counted traffic, of runs that count",
    WARMUP: "the same of warm-up runs",
    "drain": "before a run: until nothing of the previous one is under way",
    "finish": "after a run: until the servers are idle, and their counts",
    "run": "the rest of runs: requests, preparation between bursts, traffic before the counted one, records",
    "wait": "for the hosts' leases",
    "reboot": "of hosts between epochs",
    "build": "namespaces, agents, tunnels, while the lab of the epoch before is taken down",
    "serve": "server processes, with what they hold",
    "verify": "log-ins to the accounts",
    "proof": "routes, packet sizes and rates of the arms' paths",
    "baseline_cost": "runs against the null server",
    "teardown": "of servers, agents and namespaces, as far as nothing is built meanwhile",
    "judge": "verdicts at looks",
    "reports": "tables and page",
    "rest": "pytest, its plugins and the tests",
}
"""Activities, and what each of them contains."""


@dataclass(frozen=True, slots=True)
class TimeLedger:
    """Seconds by activity, see `ACTIVITIES`."""

    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def total_of(cls, parts: Iterable[Mapping[str, float]]) -> TimeLedger:
        """Return the sum of ledgers' seconds."""
        total: dict[str, float] = {}
        for part in parts:
            for name, seconds in part.items():
                total[name] = total.get(name, 0.0) + seconds
        return cls(total)

    @property
    def wall_s(self) -> float:
        """Seconds of all activities."""
        return sum(self.seconds.values())

    def of(self, *names: str) -> float:
        """Return the seconds of these activities together."""
        return sum(self.seconds.get(name, 0.0) for name in names)

    def share(self, *names: str) -> float:
        """Return the share of these activities in all seconds; 0 of an empty ledger."""
        return self.of(*names) / self.wall_s if self.wall_s else 0.0

    @property
    def neither(self) -> float:
        """Share of the seconds in which neither a counted run nor a warm-up was measured."""
        return 1 - self.share(MEASURED, WARMUP) if self.wall_s else 0.0

    @property
    def sentences(self) -> list[str]:
        """Sentences about the ledger: the shares of the session, then the seconds beside measuring."""
        if not self.wall_s:
            return []
        first = (
            f"time: {self.wall_s:.1f} s, {self.share(MEASURED):.0%} in measured runs, {self.share(WARMUP):.0%} in "
            f"warm-ups, {self.neither:.0%} in neither"
        )
        groups = (("between runs", BETWEEN), ("epochs", EPOCHS), ("others", OTHERS))
        return [first, *(text for title, names in groups if (text := self._group(title, names)))]

    def _group(self, title: str, names: Iterable[str]) -> str:
        parts = [f"{name.replace('_', ' ')} {self.of(name):.1f}" for name in names if self.of(name) >= _SHOWN_S]
        return f"time, {title}: {self.of(*names):.1f} s ({', '.join(parts)})" if parts else ""


_SHOWN_S = 0.05
