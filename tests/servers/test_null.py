"""The baseline cost of every protocol: both clients have whole transactions with a server of canned replies."""

from __future__ import annotations

import random
import socket

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.reply_script import CannedDatagram, CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.deploy.install import check_library
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from tests.support.payloads import payload_of

ADDRESSES = ("127.0.0.1", "::1")
PORTS = (20000, 29999)
STATE = ServerState(users=7, password="a secret")
PAYLOAD_BYTES = 1000


@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize("name", applications())
def test_both_clients_complete_their_transactions_with_it(name, client):
    protocol = application(name)
    if client == "library":
        try:
            check_library(protocol)
        except UsageError as error:
            pytest.skip(str(error))
    payload_bytes = payload_of(protocol, PAYLOAD_BYTES)
    state = protocol.filled(STATE, payload_bytes)
    with private_folder() as folder:
        port = free_port(ADDRESSES, *PORTS, random.Random())
        site = Site(
            str(folder / "null"), ADDRESSES, port, 20,
            state=state, canned_replies=protocol.canned_replies(state), zone={protocol.host: ADDRESSES}, ports=PORTS,
        )  # fmt: skip
        instance = ServerProcess(SERVERS[protocol.null], site)
        instance.start()
        try:
            for ipver, address in ((4, "127.0.0.1"), (6, "::1")):
                spec = LoadSpec(
                    protocol=name, client=client, payload_bytes=payload_bytes, connections=20, bursts=2, ipver=ipver,
                    resolver="", resolver_port=0, name=address, port=port, source="", deadline_s=10.0, ident=0,
                    state=STATE,
                )  # fmt: skip
                told = load(spec)
                assert (told.attempted, told.failed) == (40, {})
            assert instance.wait_quiet(20) == ""
        finally:
            instance.stop()


def test_over_udp_it_is_ready_when_it_answers_and_copies_what_it_is_told_to():
    replies = CannedReplies(b"", (), datagram=CannedDatagram(b"answer ?", ((4, 7, 1),)))
    with private_folder() as folder:
        port = free_port(ADDRESSES, *PORTS, random.Random())
        site = Site(str(folder / "null"), ADDRESSES, port, 20, canned_replies=replies)
        instance = ServerProcess(SERVERS["null"], site)
        instance.start()
        try:
            for address in ADDRESSES:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                with socket.socket(family, socket.SOCK_DGRAM) as sock:
                    sock.settimeout(10)
                    sock.connect((address, port))
                    for number in (b"1", b"2"):
                        sock.send(b"ask " + number)
                        assert sock.recv(100) == b"answer " + number
            assert (instance.busy(), instance.unresponsive()) == ("", "")
        finally:
            instance.stop()
