"""Verification, in a server's own files, of the messages that it accepted.

A client believes a server's reply; a server that drops messages, or a box on the path that answers in its place,
replies all the same. So after each run the messages of that run are counted where the server keeps them, each by the
connection that sent it, and compared with what was sent: all of them, or, if they are large, a sample of as many as
`COMPARED_BYTES` hold and at least one. The server's host draws the sample once the run is over, from the kernel's
random numbers, so that nothing on the path can predict it. Each compared message stands for a share of the others.
"""

from __future__ import annotations

import os
import random
import time
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.protocols import application
from pytest_ipperf.servers.base import Kept, Server, Site

COMPARED_BYTES = 1 << 21
INDEX_BYTES = 8
# At least, and for each message's file.
_CHECK_S, _FILE_S = 60.0, 0.02
_DRAW = random.SystemRandom()
_THREADS = 16
_ALONE_S = 0.01
# A queue file has an envelope and trace headers on top of the message, and file systems allocate whole blocks.
_BESIDE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ExpectedMail:
    """Announcement of a run in which this many connections deliver a message each to this server."""

    server: str
    messages: int


@dataclass(frozen=True, slots=True)
class QueuedMail:
    """Report of a finished run: the server replied `queued` to connections with these `indices` (unsigned 64-bit)."""

    server: str
    protocol: str
    indices: bytes


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Result of the verification: counts of the messages that the server has, and connections that failed after all.

    `failed` are their indices (unsigned, 64 bits). The server has messages of `kept` connections, `repeated` of them
    more than once; `compared` were compared, and `wrong` of these differ from what was sent. `sentences` say what was
    expected and seen, the same for the same trouble, as reports show each once for all runs.
    """

    failed: bytes
    kept: int
    repeated: int
    compared: int
    wrong: int
    sentences: tuple[str, ...]


def mail_patience_s(messages: int) -> float:
    """Return how long it may take, on a slow disk, to prepare for so many messages or to compare them."""
    return _CHECK_S + _FILE_S * messages


def reserve_space(recipe: Server, site: Site, handing: ExpectedMail) -> None:
    """Remove messages that the server still keeps; raise LabError if its disk has no room for those to come."""
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
    """Count, compare and remove the messages that the server keeps of a run."""
    protocol = application(handed.protocol)
    completed = array("Q", handed.indices)
    everything = list(recipe.kept(site))
    kept: dict[int, Kept] = {}
    times = Counter[int]()
    for each in everything:
        index = protocol.sent_by(each.sender)
        if index is not None:
            kept[index] = each
            times[index] += 1
    missing = [index for index in completed if index not in kept]
    repeated = [index for index in completed if times[index] > 1]
    once = [index for index in completed if times[index] == 1]
    most = max(1, COMPARED_BYTES // max(1, len(site.state.content)))
    drawn = once if len(once) <= most else _DRAW.sample(once, most)
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
    """Remove the files; in parallel if that is slow, as each removal may wait for the file system's journal.

    Where it is quick, threads would take longer than the removals.
    """
    left, began = iter(kept), time.monotonic()
    for each in left:
        _unlink(each.path)
        if time.monotonic() - began > _ALONE_S:
            break
    else:
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - logging with it, which no agent has a use for

    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(lambda each: _unlink(each.path), left):
            pass


def _unlink(path: str) -> None:
    try:  # noqa: SIM105 - hundreds are removed between two runs
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        pass


def _standing_for(wrong: Collection[int], drawn: Collection[int], once: Sequence[int]) -> list[int]:
    """Draw connections that count as wrong without comparison, in the same share as among the compared ones."""
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
