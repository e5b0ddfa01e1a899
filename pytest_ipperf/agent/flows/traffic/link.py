"""Link between the two ends of modelled traffic, which sends packets and notes those that arrive."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from pytest_ipperf.agent.flows.traffic.arrivals import Arrivals
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.schedule import Packet

_SILENCE_S = 0.2
_TICK_S = 0.005


class Link(ABC):
    """Link of a run; a thread notes arrivals from `start` until `close`. `peer` names the other end in messages."""

    least_bytes: int
    """Size of the smallest packet."""
    over: bool
    """Whether all packets of this end have been sent, so that the other end may have gone."""

    def __init__(self, ident: int, peer: str) -> None:
        self.arrivals = Arrivals(ident)
        self._ident, self._peer = ident, peer
        self._open, self.over = True, False
        self._trouble: Exception | None = None
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    @abstractmethod
    def send(self, packet: Packet, counts: bool, at_ns: int) -> bool:  # noqa: FBT001 - it is called for each packet
        """Send a packet, stamped with `at_ns`; return False if the host has no room for it."""

    @abstractmethod
    def control(self, kind: int, value: int = 0) -> None:
        """Send a control packet."""

    def flush(self) -> bool:
        """Send what had to wait; return whether nothing waits any more."""
        return True

    def check(self) -> None:
        """Raise the error that ended the reception, if any."""
        if self._trouble is not None:
            raise self._trouble

    def drain(self, wanted: int | None, limit_s: float, alive: Callable[[], None] = lambda: None) -> None:
        """Wait until `wanted` packets have come, or none comes any more; at most `limit_s`, calling `alive` meanwhile.

        None stands for the number that the other end announces, which is waited for.
        """
        arrivals, end = self.arrivals, time.monotonic() + limit_s
        last, still = -1, time.monotonic()
        while (now := time.monotonic()) < end:
            self.check()
            alive()
            expected = arrivals.announced if wanted is None else wanted
            if expected is not None and arrivals.unique >= expected:
                return
            if expected is None or arrivals.unique != last:
                last, still = arrivals.unique, now
            elif now - still > _SILENCE_S:
                return
            time.sleep(_TICK_S)

    def check_clock(self) -> None:  # noqa: B027 - only some links use a clock that can be set
        """Raise LabError if the clock of arrivals was set since the link was made."""

    def drops(self) -> int:
        """Return how many packets this host received and had no room for."""
        return 0

    def close(self) -> None:
        """End the reception; may be called twice."""
        self._open = False
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._open:
                self._turn()
        except Exception as error:  # noqa: BLE001 - `check` raises it
            self._trouble = error
        self.cpu_s = time.thread_time()

    @abstractmethod
    def _turn(self) -> None:
        """Receive once, or wait for some time."""

    def _died(self) -> LabError:
        """Return the error of another end that is not there any more."""
        return LabError(
            f"nobody receives packets at {self._peer} any more: the other end of this run has died, or a firewall "
            "rejects them"
        )
