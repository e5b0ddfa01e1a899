"""Receiver of a stream of numbered datagrams, in a thread, until its end is requested and nothing arrives any more.

The header of each is two words. The first has its number below 31 bits, above it whether it counts or belongs to the
warm-up, and above that the stream's identifier; the second is when it was sent, in ns. All work is done for batches,
not for single datagrams.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from typing import Protocol

from pytest_ipperf.agent.flows.udp.counter import MOST, SequenceCounter
from pytest_ipperf.agent.flows.udp.sequence import SequenceHeaders
from pytest_ipperf.agent.sockets.batch_io import STAMP_WORDS, ReceiveBatch, Received, SingleReceiver, UnsupportedError
from pytest_ipperf.agent.sockets.buffers import dropped

_RUN = MOST
_MOST_BYTES = 65507
_BATCH = 256
_SEGMENTS = 128  # UDP_MAX_SEGMENTS; a kernel that joins datagrams received singly takes half as many
_MESSAGES = 8  # of segments
_NAP_S = 0.001
_SILENCE_S = 0.2
_LOOK = struct.pack("ll", 0, 20_000)  # interval between checks whether to end, in s and us
_LAST_LOOK = struct.pack("ll", 0, 1_000)
_LAST_S = 0.5  # most time for what still lies in the socket at the end


def first_word(ident: int, *, counts: bool) -> int:
    """Return the first word of a stream's datagram 0; those of the others follow it."""
    return (ident & 0xFFFFFFFF) << 32 | (_RUN if counts else 0)


class SampleSink:
    """Sink that keeps the number and both timestamps of each datagram."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._words, self._stamps = array("Q"), array("Q")
        self.counter = SequenceCounter(base)
        self._noted = 0

    def take(self, words: memoryview, stamps: memoryview) -> bool:
        """Keep a batch; return whether its last datagram belongs to the run."""
        self._stamps.frombytes(stamps.cast("B"))
        self._words.frombytes(words.cast("B"))
        return bool(0 <= words[-2] - self._base < MOST)

    def unique(self) -> int:
        """Return the number of different datagrams of the run so far."""
        there = len(self._words)
        self.counter.note(self._words[self._noted : there : 2].tolist())
        self._noted = there
        return self.counter.unique

    def rows(self) -> Iterable[tuple[int, int, int]]:
        """Yield number, time of sending and of arrival (CLOCK_REALTIME), in ns; the first of copies."""
        numbers, sent = self._words[::2], self._words[1::2]
        seconds, rests = self._stamps[2::STAMP_WORDS], self._stamps[3::STAMP_WORDS]
        self.unique()
        seen, copies = set[int](), self.counter.duplicates
        for word, sent_ns, second, rest in zip(numbers, sent, seconds, rests, strict=True):
            number = word - self._base
            if 0 <= number < MOST and number not in seen:
                if copies:
                    seen.add(number)
                yield number, sent_ns, second * 1_000_000_000 + rest


class CountingSink:
    """Sink that only counts."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._expected = SequenceHeaders(base)
        self.counter = SequenceCounter(base)

    def take(self, words: memoryview, _stamps: memoryview) -> bool:
        """Count a batch; return whether any of it belongs to the run."""
        before = self.counter.unique + self.counter.duplicates
        first, numbers = words[0], words[::2]
        mine = 0 <= first - self._base < MOST
        if mine and numbers.tobytes() == bytes(self._expected.words(first, len(numbers))):
            self.counter.note_all(first, first + len(numbers))
        else:
            self.counter.note(numbers.tolist())
        return self.counter.unique + self.counter.duplicates > before

    def unique(self) -> int:
        """Return the number of different datagrams of the run so far."""
        return self.counter.unique

    def rows(self) -> Iterable[tuple[int, int, int]]:
        """Return no rows."""
        return ()


class _Box(Protocol):
    messages: int

    def read(self) -> Iterable[Received]: ...


class DatagramReceiver:
    """Receiver on a bound socket, from construction on; `how` names its system calls, and those not available.

    Of a flood the kernel may deliver many datagrams as one (udp(7), UDP_GRO); otherwise it stamps each, and is asked at
    most a thousand times a second, which costs the sender less on a machine that both share.
    """

    def __init__(self, sock: socket.socket, size: int, base: int, *, flood: bool) -> None:
        self.sink: SampleSink | CountingSink = CountingSink(base) if flood else SampleSink(base)
        self._sock = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LOOK)
        self._box, self.how = _box(sock, size, flood=flood)
        self._naps = not flood
        self._began_s = self._last_s = self._longest_s = self._last_arrival_s = 0.0
        self._dropped, self._idle_s = 0, 0.0
        self.drops, self.cpu_s = 0, 0.0
        self._trouble: BaseException | None = None
        self._open = True
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Return the seconds from the first datagram of the run to the last."""
        return self._last_s - self._began_s

    def drain(self, wanted: int, gap_s: float, most_s: float) -> None:
        """Wait up to `most_s` until `wanted` datagrams have come, or no more come, the warm-up's included."""
        now = began = time.monotonic()
        while self.sink.unique() < wanted and self._thread.is_alive() and now < began + most_s:
            if now - max(began, self._last_arrival_s) > max(_SILENCE_S, 3 * gap_s, 2 * self._longest_s):
                return
            time.sleep(0.01)
            now = time.monotonic()

    def end(self) -> None:
        """End the reception; raise the error that ended it before, if any.

        Then `drops` counts the datagrams that the socket had no room for since the run began, and `cpu_s` is the
        processor time since then.
        """
        self.close()
        if self._trouble:
            raise self._trouble
        self.drops = dropped(self._sock) - self._dropped

    def close(self) -> None:
        """End the reception without raising; may be called twice."""
        self._open = False
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._open:
                self._turn()
            self._read_rest()
        except BaseException as error:  # noqa: BLE001 - `end` raises it
            self._trouble = error
        self.cpu_s = time.thread_time() - self._idle_s if self._began_s else 0.0

    def _read_rest(self) -> None:
        """Read what has arrived while the thread slept, or waited for a processor."""
        self._naps = False
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _LAST_LOOK)
        end = time.monotonic() + _LAST_S
        while self._turn() and time.monotonic() < end:
            pass

    def _turn(self) -> int:
        """Read a batch; return the number of its datagrams."""
        count = 0
        try:
            for words, stamps in self._box.read():
                count += len(words) // 2
                if self.sink.take(words, stamps):
                    self._note()
        except BlockingIOError:
            return 0
        if count:
            self._last_arrival_s = time.monotonic()
        if self._naps and count < self._box.messages:
            time.sleep(_NAP_S)
        return count

    def _note(self) -> None:
        now = time.monotonic()
        if not self._began_s:
            self._began_s, self._idle_s, self._dropped = now, time.thread_time(), dropped(self._sock)
        else:
            self._longest_s = max(self._longest_s, now - self._last_s)
        self._last_s = now


def _box(sock: socket.socket, size: int, *, flood: bool) -> tuple[_Box, str]:
    segments = min(_SEGMENTS, _MOST_BYTES // size)
    ways: list[tuple[str, Callable[[], _Box]]] = [
        ("recvmmsg", lambda: ReceiveBatch(sock, size, _BATCH)),
        ("recvmsg", lambda: SingleReceiver(sock, size)),
    ]
    if flood and segments > 1:
        ways.insert(0, ("recvmmsg, UDP_GRO", lambda: ReceiveBatch(sock, size, _MESSAGES, segments)))
    why: list[str] = []
    for how, make in ways:
        try:
            return make(), "; ".join([how, *why])
        except UnsupportedError as error:
            why.append(str(error))
    raise AssertionError
