"""Real time servers, and both clients with servers that lie, stay silent or do not exist."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port, in_use
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.sntp import response
from tests.support.needs import PATH, require
from tests.support.servers.udp import DatagramServer

ADDRESSES = ("127.0.0.1", "::1")
both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


@contextlib.contextmanager
def served(port=0):
    with private_folder() as folder:
        port = port or free_port(ADDRESSES, 20000, 29999, random.Random())
        instance = ServerProcess(SERVERS["sntp"], Site(str(folder / "sntp"), ADDRESSES, port, 1000))
        instance.start()
        try:
            yield port
        finally:
            instance.stop()


def served_at_ntps_own_port(stack):
    """Serve at the port where decoders and other clients look for NTP."""
    if os.geteuid() or any(in_use(address, 123, socket.SOCK_DGRAM) for address in ADDRESSES):
        pytest.skip("port 123 takes root, and a machine without a time server")
    return stack.enter_context(served(123))


def run(address, port, n, **changed):
    settings = {
        "protocol": "ntp", "client": "lean", "payload_bytes": 48, "connections": n, "bursts": 1,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": address, "deadline_s": 10.0, "ident": 0, "state": ServerState(),
    }  # fmt: skip
    return load(LoadSpec(**{**settings, **changed}))


def rows_of(reply):
    return [dict(zip(PHASES, row, strict=True)) for row in struct.iter_unpack(f"{len(PHASES)}d", reply.rows)]


@pytest.mark.parametrize("rate", [0.0, 2000.0], ids=["closed", "open"])
@both_clients
@both_families
def test_bursts_of_requests_lose_nothing(address, client, rate):
    with served() as port:
        told = run(address, port, 500, bursts=4, client=client, rate_per_s=rate)
    assert (told.attempted, told.failed, told.content_bytes) == (2000, {}, 2000 * 48)
    rows = rows_of(told)
    assert len(rows) == 2000
    for row in rows:
        assert row["dns"] == row["connect"] == 0
        assert 0 < row["first_byte"] <= row["total"]


@both_clients
@both_families
def test_nobody_at_the_port_is_told_by_icmp(address, client):
    port = free_port(ADDRESSES, 20000, 29999, random.Random())
    assert run(address, port, 5, client=client).failed == {"talk refused": 5}


def kiss(request, _):
    answer = bytearray(response(request))
    answer[1], answer[12:16] = 0, b"RATE"
    return [bytes(answer)]


def forged(request, _):
    answer = response(request)
    return [answer[:24] + origin + answer[32:] for origin in (bytes(8), b"elsewise")]


def truncated(request, _):
    return [response(request)[:40]]


def mirrored(request, _):
    return [request[:24] + request[40:] + request[32:]]


def echoed(request, _):
    return [request]


def silent(*_):
    return []


@both_clients
@both_families
@pytest.mark.parametrize(
    ("answers", "failure"),
    [
        (kiss, "protocol: kiss-o'-death RATE"),
        (truncated, "protocol: a packet of 40 bytes instead of 48"),
        (mirrored, "protocol: version 4, mode 3 instead of version 4, mode 4 (server)"),
        (forged, "talk deadline"),
        (echoed, "talk deadline"),
        (silent, "talk deadline"),
    ],
)
def test_what_is_no_response_never_counts(address, client, answers, failure):
    deadline_s = 0.5 if failure.endswith("deadline") else 10.0
    with DatagramServer(address, answers) as server:
        told = run(address, server.port, 5, client=client, deadline_s=deadline_s)
    assert (told.failed, told.rows) == ({failure: 5}, b"")


@both_clients
def test_forged_answers_before_the_right_one_and_copies_after_it_change_nothing(client):
    def answers(request, number):
        return [*forged(request, number), b"", b"noise", *[response(request)] * 3]

    with DatagramServer("::1", answers) as server:
        told = run("::1", server.port, 20, client=client)
    assert (told.failed, told.content_bytes) == ({}, 20 * 48)


@both_clients
def test_a_lost_request_is_repeated_and_a_late_answer_to_the_first_counts(client):
    """Both have the same time stamp, so the answer to either is right."""
    heard = []

    def answers(request, number):
        heard.append(request)
        return [response(heard[0])] if number == 1 else []

    with DatagramServer("::1", answers) as server:
        told = run("::1", server.port, 1, client=client)
    assert (told.failed, told.dns_retries, heard[0]) == ({}, 1, heard[1])
    (row,) = rows_of(told)
    assert row["total"] >= 1


def test_tcpdump_reads_requests_and_responses_as_ntp():
    """With a decoder that is independent of this project."""
    require("tcpdump")
    with contextlib.ExitStack() as stack:
        port = served_at_ntps_own_port(stack)
        dump = subprocess.Popen(
            ["tcpdump", "-i", "lo", "-c", "4", "-n", "-vv", "-l", "udp port 123"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.callback(dump.kill)
        assert dump.stderr is not None
        assert "listening on" in dump.stderr.readline()
        for address in ADDRESSES:
            assert run(address, port, 1).failed == {}
        text, _ = dump.communicate(timeout=60)
    assert text.count("NTPv4, Client, length 48") == text.count("NTPv4, Server, length 48") == 2
    assert text.count("Stratum 1 (primary reference), poll 0 (1s), precision -20") == 2
    assert text.count("Reference-ID: LOCL") == 2


@both_families
def test_a_client_of_others_takes_the_time_from_it(address):
    require("ntpdate")
    with contextlib.ExitStack() as stack:
        served_at_ntps_own_port(stack)
        argv = [shutil.which("ntpdate", path=PATH), "-q", address]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert f" {address} s1 no-leap" in done.stdout  # of stratum 1
