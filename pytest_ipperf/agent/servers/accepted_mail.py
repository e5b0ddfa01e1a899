"""Check the messages that a server said it accepted, in its own files.

A client believes a server's reply; a server that drops messages, or a box on the path that answers in its place,
replies all the same. So after each run the messages of that run are counted where the server keeps them, each by the
connection that sent it, and compared with what was sent: all of them, or, where they are large, as many as
`COMPARED_BYTES` hold and at least one. These are drawn by the server's host once the run is over, from the kernel's
random numbers, so that nothing on the path can know which they will be. Each stands for as many as were not looked at.
"""

from __future__ import annotations

import os
import random
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.protocols import application
from pytest_ipperf.servers.base import Kept, Server, Site

COMPARED_BYTES = 1 << 21
_DRAW = random.SystemRandom()
_HANDS = 16
# A queue file has an envelope and trace headers on top of the message, and file systems give out whole blocks.
_BESIDE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ExpectedMail:
    """A run is about to begin, in which so many connections deliver a message each to this server."""

    server: str
    messages: int


@dataclass(frozen=True, slots=True)
class QueuedMail:
    """A run is over: to connections with these `indices` (unsigned, 64 bits each) the server has replied `queued`."""

    server: str
    protocol: str
    indices: bytes


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Counts of the messages that the server has, and which connections have failed.

    `failed` are the indices of those that have failed after all. It has the messages of so many `kept` connections,
    `repeated` of them more than once; `compared` were compared, of which `wrong` are not what was sent. `sentences`
    tell what was expected and seen, each the same for the same trouble, as reports show it once for all runs.
    """

    failed: bytes
    kept: int
    repeated: int
    compared: int
    wrong: int
    sentences: tuple[str, ...]


def reserve_space(recipe: Server, site: Site, handing: ExpectedMail) -> None:
    """Remove what the server still keeps; LabError where its disk has no room for what it will be given."""
    _remove(recipe.kept(site))
    size = len(site.state.content)
    needed = handing.messages * (size + _BESIDE_BYTES)
    disk = os.statvfs(site.folder)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise LabError(
            f"{recipe.name} keeps the messages of a run until they are compared; {handing.messages} of {size} bytes "
            f"need {needed >> 20} MiB and {site.folder} has {free >> 20} MiB free: free some, set TMPDIR to a folder "
            "with more, or ask for fewer connections or a smaller payload"
        )
    if disk.f_files and handing.messages > disk.f_favail:  # some file systems have no fixed number of files
        raise LabError(
            f"{recipe.name} keeps the messages of a run until they are compared; {handing.messages} need as many files "
            f"and {site.folder} has room for {disk.f_favail}: remove some, set TMPDIR to a folder with room for more, "
            "or ask for fewer connections"
        )


def check_accepted(recipe: Server, site: Site, handed: QueuedMail) -> Acceptance:
    """Count and compare what the server keeps of a run, and remove it."""
    protocol = application(handed.protocol)
    completed = array("Q", handed.indices)
    everything = list(recipe.kept(site))
    kept: dict[int, Path] = {}
    times = Counter[int]()
    for each in everything:
        index = protocol.sent_by(each.sender)
        if index is not None:
            kept[index] = each.path
            times[index] += 1
    missing = [index for index in completed if index not in kept]
    repeated = [index for index in completed if times[index] > 1]
    once = [index for index in completed if times[index] == 1]
    drawn = _DRAW.sample(once, min(len(once), max(1, COMPARED_BYTES // max(1, len(site.state.content)))))
    wrong = {index: why for index in drawn if (why := protocol.difference(site.state, recipe.message(kept[index])))}
    _remove(everything)
    unseen = _standing_for(wrong, drawn, once)
    return Acceptance(
        failed=array("Q", [*missing, *repeated, *wrong, *unseen]).tobytes(),
        kept=len(completed) - len(missing),
        repeated=len(repeated),
        compared=len(drawn),
        wrong=len(wrong),
        sentences=tuple(_sentences(bool(missing), bool(repeated), next(iter(wrong.values()), ""))),
    )


def _remove(kept: Iterable[Kept]) -> None:
    """Remove the files side by side: each waits for the journal of its file system, as Postfix has synced them."""
    with ThreadPoolExecutor(_HANDS) as hands:
        for _ in hands.map(lambda each: each.path.unlink(missing_ok=True), kept):
            pass


def _standing_for(wrong: Collection[int], drawn: Collection[int], once: Sequence[int]) -> list[int]:
    """Draw those that are taken for wrong without having been compared: the share that it is of those that were."""
    rest = sorted(set(once) - set(drawn))
    return _DRAW.sample(rest, -(-len(rest) * len(wrong) // len(drawn))) if wrong else []


def _sentences(missing: bool, repeated: bool, difference: str) -> Iterator[str]:  # noqa: FBT001 - named by the caller
    expected = "expected each message that it said it accepted once in its files, seen"
    if missing:
        yield f"{expected} some missing"
    if repeated:
        yield f"{expected} some more than once"
    if difference:
        yield f"expected each message in its files to be the one that was sent, seen another: {difference}"
