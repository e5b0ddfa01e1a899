"""Games: players at once, whose packets follow published distributions of size and interval (paper 004, Fig. 11)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.factor import Factor
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.traffic.carrier import CARRIER
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LOAD
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN
from pytest_ipperf.core.portable.workload_kind import FLOWS, WorkloadKind
from pytest_ipperf.protocols.traffic import OWN_BYTES, Traffic

GAME = Factor(
    name="game",
    title="game",
    unit="word",
    levels=("cs.active",),
    help="game, by the name of its traffic model: one of the package's, or one of a user's own folder",
    words=("counterstrike", "cs.active", "cs.inactive", "quake3"),
    further=MODEL_NAME_PATTERN,
)


@dataclass(frozen=True, kw_only=True)
class Game(Traffic):
    """Games; a connection is a player."""

    kind: ClassVar[WorkloadKind] = replace(FLOWS, unit="player")

    name: str = "game"
    title: str = "Game traffic"
    summary: str = "send the packets of players of an online game"
    source: str = "RFC 768; paper 004, Fig. 11"
    connections: tuple[int, ...] = (1, 10)
    payload: tuple[str, ...] = (str(OWN_BYTES),)
    factors: tuple[Factor, ...] = (GAME, CARRIER, OFFLOAD, LOAD, GENERATORS)
    model_factor: str = "game"


protocol = Game()
