"""Time server: responses of NTP's server mode over UDP (RFC 5905, section 9.2; RFC 4330, section 6).

It serves its host's clock and keeps no state of its clients, so it is never what is measured.
"""

from __future__ import annotations

import json
import platform
import signal
import struct
import sys
import time
from collections.abc import Sequence

from pytest_ipperf.servers.base import Entry, Server, Site, answer_datagrams

_PACKET = struct.Struct("!BBBb3I4Q")
"""Packet of RFC 5905, figure 8: flags, stratum, poll, precision; root delay and dispersion, reference; timestamps."""
_CLIENT, _SERVER = 3, 4
_VERSIONS = range(1, 5)
_STRATUM = 1
_PRECISION = -20  # 2 ** -20 s, about a microsecond
_DISPERSION = 1 << 6  # 2 ** -10 s, in units of 2 ** -16 s
_LOCAL_CLOCK = int.from_bytes(b"LOCL", "big")  # RFC 4330, figure 2: an uncalibrated local clock
_UNIX_EPOCH_S = 2_208_988_800
"""Seconds from NTP's epoch (1900) to that of Unix."""


class Sntp(Server):
    """Embedded time server of one process and one thread; it needs no configuration but its addresses."""

    name = "sntp"
    protocol = "ntp"
    embedded = True
    apt = ""
    probe = (b"\x23" + bytes(47), b"\x24\x01")

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"Python {platform.python_version()}"

    def entries(self, site: Site) -> Sequence[Entry]:
        del site
        return ()

    def argv(self, site: Site) -> Sequence[str]:
        return ("python", "-m", __name__, json.dumps({"addresses": site.addresses, "port": site.port}))


def timestamp() -> int:
    """Return the time as an NTP timestamp: seconds since 1900 modulo 2 ** 32, and a fraction of 32 bits."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return (seconds + _UNIX_EPOCH_S & 0xFFFFFFFF) << 32 | (nanoseconds << 32) // 1_000_000_000


def response(request: bytes) -> bytes:
    """Return the response to a request; empty for anything but a client's request, which must not be answered."""
    received = timestamp()
    if len(request) < _PACKET.size or request[0] & 7 != _CLIENT or request[0] >> 3 & 7 not in _VERSIONS:
        return b""
    return _PACKET.pack(
        request[0] & 0x38 | _SERVER,  # the client's version
        _STRATUM,
        request[2],
        _PRECISION,
        0,
        _DISPERSION,
        _LOCAL_CLOCK,
        received,
        int.from_bytes(request[40:48], "big"),
        received,
        timestamp(),
    )


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Sntp.argv`, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = json.loads(argv[0])
    answer_datagrams(config["port"], dict.fromkeys(config["addresses"], response), _PACKET.size)


server = Sntp()

if __name__ == "__main__":
    main(sys.argv[1:])
