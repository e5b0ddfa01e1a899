"""Wait until the kernel stamps what it receives: it patches its code for that, on a busy machine some time later."""

from __future__ import annotations

import time

import pytest

from pytest_ipperf.agent.sockets.receive_timestamps import TIMESTAMP_SPACE, rx_timestamping, segment_timestamp_ns

_WAITED_S, _LIMIT_S = 0.005, 10.0


def wait_until_stamped() -> None:
    """Wait until a datagram has the instant of its arrival; without one the kernel gives that of its reading."""
    end = time.monotonic() + _LIMIT_S
    with rx_timestamping() as sock:
        sock.settimeout(5)
        sock.bind(("127.0.0.1", 0))
        while time.monotonic() < end:
            sock.sendto(b"", sock.getsockname())
            time.sleep(_WAITED_S)
            stamps = sock.recvmsg(1, TIMESTAMP_SPACE)[1]
            if stamps and time.time_ns() - segment_timestamp_ns(stamps) >= _WAITED_S / 2 * 1e9:
                return
    pytest.fail("the kernel stamps nothing that it receives")
