"""Open mode: what a stall of the server costs is in the figures of all who came in it, and none came later for it.

The server is a single thread that serves one after the other, and before the middle one sleeps. So whoever was opened
after that one has to wait until the sleep is over, which is a bound that no other work of the machine can break.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from array import array

import pytest

from pytest_ipperf.agent.load.arrivals import arrivals
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from tests.support.attempts import lasting
from tests.support.servers import stalling

CONNECTIONS, RATE_PER_S, PAYLOAD_BYTES = 300, 500.0, 1024
STALLED, STALL_S = 150, 0.2
# So near to each other connections may be accepted in another order than they were opened in.
NEAR = 5


@contextlib.contextmanager
def stalling_server(bench, ipver):
    """The port of the server."""
    page = "HTTP/1.1 200 OK\r\n\r\n" + application("http").content(PAYLOAD_BYTES).decode()
    # The stall comes before connection STALLED, which counts from 0 here and from 1 there.
    argv = [sys.executable, stalling.__file__, bench.hosts[1].address(ipver), str(STALLED + 1), str(STALL_S), page]
    with subprocess.Popen(
        [*bench.entries["server"], "taskset", "--cpu-list", "0", *argv],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.kill()


def stalled_rows(bench, ipver, workers):
    """The times of a load whose server stalls in its middle, in the order in which the connections were due."""
    client, server = (host.address(ipver) for host in bench.hosts)
    with stalling_server(bench, ipver) as port:
        spec = LoadSpec(
            protocol="http", client="lean", payload_bytes=PAYLOAD_BYTES, connections=CONNECTIONS, bursts=1, ipver=ipver,
            resolver="", resolver_port=0, name=server, port=port, source=client, deadline_s=60.0, ident=0,
            rate_per_s=RATE_PER_S, pattern="stalled", workers=workers,
        )  # fmt: skip
        reply = bench.live._client.within(90.0).load(spec)
    assert not reply.failed
    values = array("d", reply.rows)
    return [dict(zip(PHASES, values[at : at + len(PHASES)], strict=True)) for at in range(0, len(values), len(PHASES))]


@pytest.mark.parametrize(("ipver", "workers"), [(4, 1), (6, 2)])
def test_who_arrives_while_a_server_stalls_has_the_wait_in_its_total(plain, ipver, workers):
    due = arrivals(CONNECTIONS, RATE_PER_S, "stalled/0")

    def attempts():
        for _ in range(8):
            rows = stalled_rows(plain, ipver, workers)
            # What was intended is kept, and is not what the stall made of it.
            assert [row["start"] for row in rows] == pytest.approx(due, abs=1e-9)
            assert rows[-1]["start"] == pytest.approx(CONNECTIONS / RATE_PER_S, rel=0.15)
            assert all(0 <= row["behind"] < row["total"] for row in rows)
            rows.sort(key=lambda row: row["start"] + row["behind"])
            opened = [row["start"] + row["behind"] for row in rows]
            ends = opened[STALLED - NEAR] + STALL_S
            waiting = [row for row in rows[STALLED + NEAR :] if row["start"] < ends]
            assert len(waiting) > RATE_PER_S * STALL_S / 2
            for row in waiting:
                assert row["start"] + row["total"] >= ends
            # A busy machine can hold the client back once; a client that waits for answers is late in every attempt.
            behind = statistics.median(row["behind"] for row in waiting)
            yield {"behind": behind} if behind >= STALL_S / 4 else {}

    assert lasting(attempts()) == {}
