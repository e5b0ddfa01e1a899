"""UDP stream of numbered datagrams from the near end to the far one, evenly paced or as fast as it goes.

Facts of the near end: `sent` (datagrams of the run, those that its host had no room for included), `refused` (those
alone), `missed` (never sent, nor in `sent`, as their instants had long passed; 0 of a flood), `seconds` (of the whole
schedule; of a flood the time that it took), `offered_bit_s` (requested; 0: flood), `sent_bit_s` (all of `sent`, in
`seconds`), `pacing_error_s` and `pacing_error_p99_s` (median and 99th percentile of the deviation of gaps from the
requested one, by the sender's own timestamps; not of a flood), `segments` (datagrams of each message that the kernel
splits; else 1), `sender_cpu_s`, `warmup_sent` (datagrams of the warm-up that left).

Facts of the far end: `unique`, `duplicates`, `reordered` (RFC 4737), `received_seconds` (from the first arrival to the
last), `receiver_drops` (how often its socket had no room, for one datagram or for several that came as one),
`lost_in_reassembly` (datagrams lost although all of their fragments arrived, for want of room to put them together),
`lost_on_path` (all others that are lost, `refused` ones and `receiver_drops` left out),
`receiver_cpu_s`, and `clock_error_s` (largest error of the column `received_s`, the same for all rows; inf if unknown).
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, Engine, FarEnd
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec, SenderClock
from pytest_ipperf.agent.flows.udp.counter import MOST
from pytest_ipperf.agent.flows.udp.paced_sender import PacedSender
from pytest_ipperf.agent.flows.udp.receiver import DatagramReceiver, first_word
from pytest_ipperf.agent.flows.udp.sockets import HEADERS_BYTES, bound, connected, explained, path_properties
from pytest_ipperf.agent.flows.udp.unpaced_sender import UnpacedSender
from pytest_ipperf.agent.kernel.reassembly import ReassemblyCounts, reassembly_counts, wait_for_drain
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.paths.clock_exchange import OffsetServer, clock_of_host
from pytest_ipperf.agent.paths.clock_sync import ClockMap, ClockSample, check_not_set, clock_ahead_ns, compare_clocks
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.units import rate_text

_LEAST_MTU_BYTES = 1280  # of IPv6 (RFC 8200, section 5); smaller packets are never fragmented
_DRAINED_S = 0.25
_OFF = 0.01
"""Share of the requested rate by which the reached one may differ before a note says so."""


def _gap_s(spec: FlowSpec) -> float:
    """Return the seconds between two datagrams; 0 for a flood."""
    rate_bit_s = spec.factors["rate"]
    return 0.0 if rate_bit_s == "flood" else 8 * spec.payload_bytes / float(rate_bit_s)


class _UdpFarEnd(FarEnd):
    """Receiver of the stream, and a server by which the near end can compare clocks."""

    def __init__(self, spec: FlowSpec) -> None:
        self._spec = spec
        self._notes: list[str] = []
        cut = spec.payload_bytes + HEADERS_BYTES[spec.ipver] > _LEAST_MTU_BYTES
        self._notes += wait_for_drain(spec.ipver if cut else None)
        self._counts = reassembly_counts(spec.ipver)
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            sock, port, buffer = bound(spec)
            stack.callback(sock.close)
            self._detail: dict[str, object] = {"receive_buffer": buffer}
            clocks = stack.enter_context(contextlib.closing(OffsetServer(spec.address, spec.ports)))
            base = first_word(spec.ident, counts=True)
            self._receiver = DatagramReceiver(sock, spec.payload_bytes, base, flood=not _gap_s(spec))
            stack.callback(self._receiver.close)
            self._stack = stack.pop_all()
        self._ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
        self.listening = FarListening(port=port, clock=clock_of_host(), clock_port=clocks.port, byteorder=sys.byteorder)

    def finish(self, near: FlowReport) -> FlowReport:
        """Wait for datagrams still on their way, and make the rows."""
        spec, receiver, sent = self._spec, self._receiver, int(near.facts["sent"])
        receiver.drain(sent, _gap_s(spec), spec.deadline_s)
        receiver.end()
        counter, unique = receiver.sink.counter, receiver.sink.unique()
        reassembly = reassembly_counts(spec.ipver).since(self._counts)
        lost = sent - unique
        dropped = min(lost, receiver.drops)
        refused = int(near.facts.get("refused", 0)) if _gap_s(spec) else 0  # a flood counts only what left
        unassembled = min(lost - dropped, _lost_in_reassembly(reassembly, near, refused))
        if not near.sender_clock:
            raise LabError("the report of the udp sender has no clock, so that arrivals have no time")
        clock_map = ClockMap(near.sender_clock.clock_marks)
        samples = self._rows(near.sender_clock.began_ns, clock_map)
        report = FlowReport(
            samples=samples.tobytes(),
            attempted=sent,
            failed={"lost": lost},
            facts={
                "unique": unique,
                "duplicates": counter.duplicates,
                "reordered": counter.reordered,
                "received_seconds": max(samples[2::3]) - min(samples[2::3]) if samples else receiver.seconds,
                "receiver_drops": receiver.drops,
                "lost_in_reassembly": unassembled,
                "lost_on_path": max(0, lost - dropped - unassembled - refused),
                "receiver_cpu_s": receiver.cpu_s,
                "clock_error_s": clock_map.error_s,
            },
            detail={**self._detail, "received_by": receiver.how},
            notes=self._notes,
            cpu_s=receiver.cpu_s,
            wall_s=receiver.seconds,
        )
        if sent and not unique:
            report.notes.append(f"none of {sent} datagrams arrived")
        if receiver.drops:
            often = f"{receiver.drops} times"
            report.notes.append(f"the receiving host had no room for datagrams {often}, so it bounds this figure")
        if unassembled:
            report.notes.append(
                f"the receiving host had no room to put together {unassembled} datagrams whose fragments arrived, so "
                "it bounds this figure (net.ipv4.ipfrag_high_thresh, net.ipv6.ip6frag_high_thresh)"
            )
        return report

    def _rows(self, began_ns: int, clock_map: ClockMap) -> array[float]:
        ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
        rows, to_local_ns = array("d"), clock_map.to_local_ns
        for number, sent_ns, came_ns in self._receiver.sink.rows():
            rows.extend((number, (sent_ns - began_ns) / 1e9, (to_local_ns(came_ns - ahead_ns) - began_ns) / 1e9))
        if rows:
            check_not_set(self._spec.address, self._ahead_ns, ahead_ns)
        return rows

    def close(self) -> None:
        """Stop receiving."""
        self._stack.close()


def _lost_in_reassembly(counted: ReassemblyCounts, near: FlowReport, refused: int) -> int:
    """Return the datagrams, the warm-up's included, that were not put together although the path lost none of them.

    Each fragment that the path lost is taken to have been one of another datagram, so that they may be more.
    """
    packets = near.detail.get("datagram_packets", 1)
    if not counted.refused or not isinstance(packets, int):
        return 0
    sent = int(near.facts["sent"] + near.facts["warmup_sent"]) - refused
    lost_fragments = max(0, sent * packets - counted.fragments)
    return max(0, sent - counted.datagrams - lost_fragments)


class _Near:
    """Sender of one run."""

    def __init__(self, spec: FlowSpec, sock: socket.socket, alive: Callable[[], None]) -> None:
        self._spec, self._sock, self._alive = spec, sock, alive
        self._gap_s = _gap_s(spec)
        self._warm, self._run = (first_word(spec.ident, counts=each) for each in (False, True))
        source = sock.getsockname()[0]
        self.began_ns = 0
        self.report = FlowReport(families=[sock.family.name], peers={sock.getpeername()[0]: 1}, sources=[source])

    def pace(self) -> None:
        """Send the run evenly paced."""
        spec, gap_s, size = self._spec, self._gap_s, self._spec.payload_bytes
        before, count = round(spec.warmup_s / gap_s), max(1, round(spec.run_s / gap_s))
        if max(before, count) > MOST:
            raise LabError(
                f"rate {rate_text(8 * size / gap_s)} is {max(before, count)} datagrams of {size} bytes in a run, and "
                f"{MOST} can be numbered; take a lower rate or a shorter run"
            )
        sender = PacedSender(self._sock, size, gap_s, self._alive)
        backlog = -(-spec.backlog_bytes // size)
        sender.send_burst(self._warm, backlog)
        begin_ns = time.monotonic_ns() + gap_s * 1e9
        warmed = sender.send(self._warm, before, begin_ns)
        cpu_s = time.process_time()
        sent = sender.send(self._run, count, max(begin_ns + before * gap_s * 1e9, time.monotonic_ns()))
        self.report.cpu_s = time.process_time() - cpu_s
        self.report.facts["missed"] = sent.missed
        self.report.facts["warmup_sent"] = backlog + len(warmed.stamps_ns) - warmed.refused
        self._fill_report(len(sent.stamps_ns), count * gap_s, sent.stamps_ns[0], sent.refused, 1)
        median_s, p99_s = sent.errors_s(gap_s)
        self.report.facts |= {"pacing_error_s": median_s, "pacing_error_p99_s": p99_s}
        self.report.detail["sent_by"] = "send"

    def flood(self, *, cut: bool) -> None:
        """Send the run as fast as possible."""
        sender = UnpacedSender(self._sock, self._spec.payload_bytes, cut=cut)
        warmed = sender.send(self._warm, self._spec.warmup_s, self._alive)
        cpu_s = time.process_time()
        sent = sender.send(self._run, self._spec.run_s, self._alive)
        self.report.cpu_s = time.process_time() - cpu_s
        self.report.facts["missed"] = 0
        self.report.facts["warmup_sent"] = warmed.sent
        self._fill_report(sent.sent, sent.seconds, sent.began_ns, sent.refused, sender.segments)
        self.report.detail["sent_by"] = sender.how

    def _fill_report(self, sent: int, seconds: float, began_ns: int, refused: int, segments: int) -> None:
        self.report.wall_s = seconds
        self.began_ns = began_ns
        self.report.facts |= {
            "sent": sent,
            "seconds": seconds,
            "offered_bit_s": 8 * self._spec.payload_bytes / self._gap_s if self._gap_s else 0.0,
            "sent_bit_s": 8 * self._spec.payload_bytes * sent / seconds,
            "refused": refused,
            "segments": segments,
            "sender_cpu_s": self.report.cpu_s,
        }
        self.report.notes += _limits(self.report.facts)


def _limits(facts: Mapping[str, float]) -> Iterator[str]:
    """Yield sentences on what the sender could not do."""
    asked, reached, missed = facts["offered_bit_s"], facts["sent_bit_s"], facts["missed"]
    wanted = facts["sent"] + missed
    if asked and abs(reached - asked) > _OFF * asked:
        # A sender without rest was too slow for the rate; one that was preempted lost processor time for what it
        # missed.
        if facts["sender_cpu_s"] < (1 - missed / wanted / 2) * facts["seconds"]:
            ratio = f"{facts['sent']:.0f} of {wanted:.0f} datagrams"
            yield f"the sender was preempted and sent {ratio}, so its host bounds this figure"
        else:
            ratio = f"{rate_text(reached)} of {rate_text(asked)}"
            yield f"the sender reached {ratio}, so its own host or link bounds this figure"
    if asked and facts["refused"]:
        ratio = f"{facts['refused']:.0f} of {facts['sent']:.0f} datagrams"
        yield f"the sending host had no room for {ratio}, which count as lost"


class _Udp(Engine):
    """UDP engine; properties of the path, known beforehand, go into `detail`."""

    def far(self, spec: FlowSpec) -> FarEnd:
        """Return the far end, listening."""
        return _UdpFarEnd(spec)

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Send the stream."""
        if spec.far.byteorder != sys.byteorder:
            raise LabError(
                f"host {spec.address} is {spec.far.byteorder}-endian and this one is {sys.byteorder}-endian; udp "
                "needs the same byte order at both ends"
            )
        port = spec.far.port
        with connected(spec, port) as sock:
            path = path_properties(spec, sock)
            samples = _clock_samples(spec)
            near = _Near(spec, sock, alive)
            with background, explained(spec, port), low_jitter():
                if _gap_s(spec):
                    near.pace()
                else:
                    near.flood(cut=spec.segments and path["datagram_packets"] == 1)
                if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(number, "")
        if samples:
            time.sleep(_DRAINED_S)  # behind a full queue the next exchange would be useless
            samples += _clock_samples(spec)
        near.report.detail |= path
        near.report.sender_clock = SenderClock(began_ns=near.began_ns, clock_marks=samples)
        return near.report


def _clock_samples(spec: FlowSpec) -> list[ClockSample]:
    return list(compare_clocks(spec.source, spec.address, spec.far.clock, spec.far.clock_port))


engine = _Udp()
