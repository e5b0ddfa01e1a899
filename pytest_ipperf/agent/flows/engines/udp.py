"""UDP: a stream of numbered datagrams from the near end to the far one, even in time or as fast as it goes.

Facts of the near end: `sent` (datagrams of the run, those that its host had no room for included), `refused` (those
alone), `missed` (never sent, nor in `sent`, as their instants had long passed; 0 of a flood), `seconds` (of the whole
schedule; of a flood the time that it took), `offered_bit_s` (asked for; 0: flood), `sent_bit_s` (all of `sent`, in
`seconds`), `pacing_error_s` and `pacing_error_p99_s` (median and 99th percentile of how far a gap was from what was
asked for, by its own stamps; not of a flood), `segments` (of each message that the kernel cuts up; else 1),
`sender_cpu_s`.

Facts of the far end: `unique`, `duplicates`, `reordered` (RFC 4737), `received_seconds` (from the first arrival to the
last), `receiver_drops` (how often its socket had no room, for one datagram or for those that came as one),
`receiver_cpu_s`, and `clock_error_s` (by how much the column `received_s` is off at most, for all of them alike; inf
where nothing is known).
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_ipperf.agent.flows.engines.base import Engine, Far, FlowOrder, Told
from pytest_ipperf.agent.flows.udp.counter import MOST
from pytest_ipperf.agent.flows.udp.paced_sender import Pacer
from pytest_ipperf.agent.flows.udp.receiver import Catcher, first_word
from pytest_ipperf.agent.flows.udp.sockets import HEADERS_BYTES, bound, connected, explained, preflight
from pytest_ipperf.agent.flows.udp.unpaced_sender import Flood
from pytest_ipperf.agent.kernel.reassembly import await_room
from pytest_ipperf.agent.kernel.timer_slack import undisturbed
from pytest_ipperf.agent.paths.clock_exchange import OffsetServer, clock_of_host
from pytest_ipperf.agent.paths.clock_sync import Ours, check_unset, clock_ahead_ns, compared
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.units import rate_text

_LEAST_MTU_BYTES = 1280  # of IPv6 (RFC 8200, section 5); what is no larger is in no fragments anywhere
_DRAINED_S = 0.25
_OFF = 0.01
"""Of what was asked for, which is told."""


def _gap_s(order: FlowOrder) -> float:
    """Between two datagrams; 0 for a flood."""
    rate_bit_s = order.factors["rate"]
    return 0.0 if rate_bit_s == "flood" else 8 * order.payload_bytes / float(rate_bit_s)


class _UdpFar(Far):
    """Receives; beside it a server by which the near end can compare clocks."""

    def __init__(self, order: FlowOrder) -> None:
        self._order = order
        self._notes: list[str] = []
        cut = order.payload_bytes + HEADERS_BYTES[order.ipver] > _LEAST_MTU_BYTES
        self._notes += await_room(order.ipver if cut else None)
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            sock, port, buffer = bound(order)
            stack.callback(sock.close)
            self._detail: dict[str, Any] = {"receive_buffer": buffer}
            clocks = stack.enter_context(contextlib.closing(OffsetServer(order.address, order.ports)))
            base = first_word(order.ident, counts=True)
            self._catcher = Catcher(sock, order.payload_bytes, base, flood=not _gap_s(order))
            stack.callback(self._catcher.close)
            self._stack = stack.pop_all()
        self._ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
        self.listening: Mapping[str, Any] = {
            "port": port, "clock": clock_of_host(), "clock_port": clocks.port, "byteorder": sys.byteorder
        }  # fmt: skip

    def finish(self, near: Told) -> Told:
        """Waits for what is on its way, and makes the rows."""
        order, catcher, sent = self._order, self._catcher, int(near.facts["sent"])
        catcher.drain(sent, _gap_s(order), order.deadline_s)
        catcher.end()
        tally, unique = catcher.kept.tally, catcher.kept.unique()
        ours = Ours([(at, offset_s, error_s) for at, offset_s, error_s in near.detail["clock_marks"]])
        samples = self._rows(near.detail["began_ns"], ours)
        told = Told(
            samples=samples.tobytes(),
            attempted=sent,
            failed={"lost": sent - unique},
            facts={
                "unique": unique,
                "duplicates": tally.duplicates,
                "reordered": tally.reordered,
                "received_seconds": max(samples[2::3]) - min(samples[2::3]) if samples else catcher.seconds,
                "receiver_drops": catcher.drops,
                "receiver_cpu_s": catcher.cpu_s,
                "clock_error_s": ours.error_s,
            },
            detail={**self._detail, "received_by": catcher.how},
            notes=self._notes,
            cpu_s=catcher.cpu_s,
            wall_s=catcher.seconds,
        )
        if sent and not unique:
            told.notes.append(f"none of {sent} datagrams arrived")
        if catcher.drops:
            often = f"{catcher.drops} times"
            told.notes.append(f"the receiving host had no room for datagrams {often}, so it bounds this figure")
        return told

    def _rows(self, began_ns: int, ours: Ours) -> array[float]:
        ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
        rows, of = array("d"), ours.of
        for number, sent_ns, came_ns in self._catcher.kept.rows():
            rows.extend((number, (sent_ns - began_ns) / 1e9, (of(came_ns - ahead_ns) - began_ns) / 1e9))
        if rows:
            check_unset(self._order.address, self._ahead_ns, ahead_ns)
        return rows

    def close(self) -> None:
        """Ends the receiving."""
        self._stack.close()


class _Near:
    """One run's sending."""

    def __init__(self, order: FlowOrder, sock: socket.socket, alive: Callable[[], None]) -> None:
        self._order, self._sock, self._alive = order, sock, alive
        self._gap_s = _gap_s(order)
        self._warm, self._run = (first_word(order.ident, counts=each) for each in (False, True))
        own = sock.getsockname()[0]
        self.told = Told(families=[sock.family.name], peers={sock.getpeername()[0]: 1}, sources=[own])

    def pace(self) -> None:
        """The run, evenly."""
        order, gap_s, size = self._order, self._gap_s, self._order.payload_bytes
        before, count = round(order.warmup_s / gap_s), max(1, round(order.run_s / gap_s))
        if max(before, count) > MOST:
            raise LabError(
                f"rate {rate_text(8 * size / gap_s)} is {max(before, count)} datagrams of {size} bytes in a run, and "
                f"{MOST} can be numbered; take a lower rate or a shorter run"
            )
        pacer = Pacer(self._sock, size, gap_s, self._alive)
        pacer.at_once(self._warm, -(-order.backlog_bytes // size))
        begin_ns = time.monotonic_ns() + gap_s * 1e9
        pacer.send(self._warm, before, begin_ns)
        cpu_s = time.process_time()
        sent = pacer.send(self._run, count, max(begin_ns + before * gap_s * 1e9, time.monotonic_ns()))
        self.told.cpu_s = time.process_time() - cpu_s
        self.told.facts["missed"] = sent.missed
        self._tell(len(sent.stamps_ns), count * gap_s, sent.stamps_ns[0], sent.refused, 1)
        median_s, p99_s = sent.errors_s(gap_s)
        self.told.facts |= {"pacing_error_s": median_s, "pacing_error_p99_s": p99_s}
        self.told.detail["sent_by"] = "send"

    def flood(self, *, cut: bool) -> None:
        """The run, as fast as it goes."""
        flood = Flood(self._sock, self._order.payload_bytes, cut=cut)
        flood.send(self._warm, self._order.warmup_s, self._alive)
        cpu_s = time.process_time()
        sent = flood.send(self._run, self._order.run_s, self._alive)
        self.told.cpu_s = time.process_time() - cpu_s
        self.told.facts["missed"] = 0
        self._tell(sent.sent, sent.seconds, sent.began_ns, sent.refused, flood.segments)
        self.told.detail["sent_by"] = flood.how

    def _tell(self, sent: int, seconds: float, began_ns: int, refused: int, segments: int) -> None:
        self.told.wall_s = seconds
        self.told.detail["began_ns"] = began_ns
        self.told.facts |= {
            "sent": sent,
            "seconds": seconds,
            "offered_bit_s": 8 * self._order.payload_bytes / self._gap_s if self._gap_s else 0.0,
            "sent_bit_s": 8 * self._order.payload_bytes * sent / seconds,
            "refused": refused,
            "segments": segments,
            "sender_cpu_s": self.told.cpu_s,
        }
        self.told.notes += _limits(self.told.facts)


def _limits(facts: Mapping[str, float]) -> Iterator[str]:
    """What the sender could not do."""
    asked, reached, missed = facts["offered_bit_s"], facts["sent_bit_s"], facts["missed"]
    wanted = facts["sent"] + missed
    if asked and abs(reached - asked) > _OFF * asked:
        # Without any rest it was too slow for the rate; one that was put off had no processor for as long as it missed.
        if facts["sender_cpu_s"] < (1 - missed / wanted / 2) * facts["seconds"]:
            told = f"{facts['sent']:.0f} of {wanted:.0f} datagrams"
            yield f"the sender was put off its processor and sent {told}, so its host bounds this figure"
        else:
            told = f"{rate_text(reached)} of {rate_text(asked)}"
            yield f"the sender reached {told}, so its own host or link bounds this figure"
    if asked and facts["refused"]:
        told = f"{facts['refused']:.0f} of {facts['sent']:.0f} datagrams"
        yield f"the sending host had no room for {told}, which count as lost"


class _Udp(Engine):
    """What is known of the path before goes into `detail`."""

    def far(self, order: FlowOrder) -> Far:
        """Listens."""
        return _UdpFar(order)

    def near(self, order: FlowOrder, alive: Callable[[], None]) -> Told:
        """Sends."""
        if order.far["byteorder"] != sys.byteorder:
            raise LabError(
                f"host {order.address} is {order.far['byteorder']}-endian and this one is {sys.byteorder}-endian; udp "
                "needs two of a kind"
            )
        port = int(order.far["port"])
        with connected(order, port) as sock:
            path = preflight(order, sock)
            marks = _marks(order)
            near = _Near(order, sock, alive)
            with explained(order, port), undisturbed():
                if _gap_s(order):
                    near.pace()
                else:
                    near.flood(cut=order.segments and path["datagram_packets"] == 1)
                if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(number, "")
        if marks:
            time.sleep(_DRAINED_S)  # behind a full queue the next look would tell nothing
            marks += _marks(order)
        near.told.detail |= {**path, "clock_marks": marks}
        return near.told


def _marks(order: FlowOrder) -> list[Any]:
    return list(compared(order.source, order.address, order.far["clock"], int(order.far["clock_port"])))


engine = _Udp()
