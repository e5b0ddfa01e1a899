"""Load worker: the connections of a run that one process opens, burst by burst, with either client."""

from __future__ import annotations

import dataclasses
import select
import socket
import time
from array import array
from collections import Counter
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING

from pytest_ipperf.agent.load.arrivals import starts
from pytest_ipperf.agent.load.lean.datagram_client import DatagramBurst
from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.results import BurstResult
from pytest_ipperf.agent.load.samples import moved_bytes, packed
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.errors import bounded
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.protocols import application

if TYPE_CHECKING:
    from pytest_ipperf.agent.load.library_client import LibraryBurst

_LONGEST_KIND = 300


class LoadWorker:
    """Worker for those connections of this host that belong to one of `workers` processes; alone, for all of them."""

    def __init__(self, spec: LoadSpec, worker: int = 0, workers: int = 1) -> None:
        self._spec = spec
        self._places = range(spec.offset + spec.stride * worker, spec.connections, spec.stride * workers)
        self._protocol = application(spec.protocol)
        # A name server that is asked at one address leads to the server at that address alone.
        addresses = (spec.resolver or spec.name,)
        state = dataclasses.replace(spec.state, addresses=addresses)
        self._state = self._protocol.filled(state, spec.payload_bytes)
        self._target = Target(
            family=socket.AF_INET6 if spec.ipver == 6 else socket.AF_INET,
            resolver=(spec.resolver, spec.resolver_port) if spec.resolver else None,
            name=spec.name,
            port=spec.port,
            source=spec.source,
            addresses=addresses,
        )
        self._staying: list[Burst | LibraryBurst] = []
        self._epoll = None if self._protocol.stays or spec.client != LEAN else select.epoll()

    def prepare(self, number: int) -> None:
        """Prepare a burst."""
        self._prepared = self.burst(number)

    def run(self, at: float = 0.0) -> BurstResult:
        """Run the prepared burst when the clock says `at`."""
        burst, cpu_s = self._prepared, time.process_time()
        burst.run(at)
        cpu_s = time.process_time() - cpu_s
        # Failed connections may have waited for the deadline while the client was idle.
        last = max(each.done for each in burst.connections) or time.perf_counter()
        if self._protocol.stays:
            self._staying.append(burst)
        failed = _counted(tuple([each.failure for each in burst.connections]))
        indices = compress(self._indices, [not each.failure for each in burst.connections]) if failed else self._indices
        return BurstResult(
            rows=packed(burst.connections, burst.began),
            failed=failed,
            peers=_counted(tuple([each.peer for each in burst.connections])),
            sources=frozenset(burst.sources),
            families=frozenset(map(int, burst.families)),
            dns_retries=burst.dns_retries,
            lag_s=burst.lag_s,
            peak=burst.peak,
            cpu_s=cpu_s,
            wall_s=last - burst.began,
            indices=array("Q", indices).tobytes(),
            woke_s=burst.woke - burst.began,
            content_bytes=moved_bytes(burst.connections),
        )

    def close(self) -> None:
        """Close the sessions that stay open until the end of the run, and the epoll set of its bursts."""
        for burst in self._staying:
            burst.close()
        if self._epoll:
            self._epoll.close()

    def burst(self, number: int) -> Burst | LibraryBurst:
        """Return a burst of the run, ready to begin."""
        spec, stay = self._spec, self._protocol.stays
        before, count, stride = number * spec.connections + self._places.start, len(self._places), self._places.step
        ident, first = spec.ident + before, spec.first_index + before
        self._indices = range(first, first + count * stride, stride)
        instants = starts(spec, number)[self._places.start :: stride]
        hold = stay or (spec.hold and not instants)
        if spec.client == LEAN:
            create, state = self._protocol.conversation, self._state
            conversations = [create(state, index, spec.ipver) for index in self._indices]
            kind = DatagramBurst if self._protocol.datagram else Burst
            return kind(
                self._target, conversations, spec.deadline_s, ident,
                stride=stride, starts=instants, hold=hold, stay=stay, epoll=self._epoll,
            )  # fmt: skip
        from pytest_ipperf.agent.load.library_client import LibraryBurst  # noqa: PLC0415 - asyncio with it, which lean has no use for

        return LibraryBurst(
            self._target, self._protocol, self._state, count, deadline_s=spec.deadline_s, first_ident=ident,
            first_index=first, stride=stride, starts=instants, hold=hold, stay=stay,
        )  # fmt: skip


@lru_cache(maxsize=2)  # nearly all bursts of a run have the same peers, and no failures
def _counted(texts: tuple[str, ...]) -> Counter[str]:
    """Count failures by kind; a server's reply in one is shortened to what a line of a table can show.

    The result is shared, and must not be changed.
    """
    return Counter(bounded(text, _LONGEST_KIND) for text in texts if text)
