"""The control connection as the kernel counts it: real connections, and what sshd may have told of them."""

from __future__ import annotations

import contextlib
import socket

import pytest

from pytest_ipperf.agent.sockets.control_connection import ControlConnection, parse_ends


@contextlib.contextmanager
def connected(address, *, mapped=False):
    """Return a connection to that address: its far end, its near end, and sshd's variable at the far one."""
    bound = "::" if mapped else address
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server((bound, 0), family=family, dualstack_ipv6=mapped))
        port = server.getsockname()[1]
        near = stack.enter_context(socket.create_connection((address, port)))
        far = stack.enter_context(server.accept()[0])
        yield far, near, f"{address} {near.getsockname()[1]} {address} {port}"


@pytest.mark.parametrize(("address", "mapped"), [("127.0.0.1", False), ("::1", False), ("127.0.0.1", True)])
def test_every_segment_of_it_is_counted_and_none_of_another(address, mapped):
    with connected(address, mapped=mapped) as (far, near, ends), connected(address) as (other, beside, _):
        connection = ControlConnection.from_environment({"SSH_CONNECTION": ends})
        before = connection.packets()
        assert before is not None
        beside.send(b"another's")
        assert other.recv(100)
        assert connection.packets() == before
        near.send(b"order")
        assert far.recv(100)
        assert (connection.packets() or 0) > before


@pytest.mark.parametrize(
    "text",
    [
        "", "192.0.2.1", "a b c d", "192.0.2.1 x 192.0.2.2 22", "192.0.2.1 50000 192.0.2.2 22 more",
        "UNKNOWN 65535 UNKNOWN 65535",
    ],
)  # fmt: skip
def test_of_what_sshd_does_not_tell_nothing_is_known(text):
    assert parse_ends(text) is None
    connection = ControlConnection.from_environment({"SSH_CONNECTION": text} if text else {})
    assert connection.packets() is None
    connection.settle(lambda _: None)


def test_the_two_ends_are_read_with_a_link_local_scope_too():
    assert parse_ends("fe80::1%eth0 50000 fe80::2%eth0 22") == ("fe80::1", 50000, "fe80::2", 22)


def test_a_connection_that_is_not_there_is_not_counted():
    assert ControlConnection(("127.0.0.1", 1, "127.0.0.1", 2)).packets() is None


def test_it_is_settled_when_nothing_has_passed_for_a_while_and_at_last_anyway():
    with connected("127.0.0.1") as (far, near, ends):
        connection = ControlConnection.from_environment({"SSH_CONNECTION": ends})
        waits: list[float] = []
        connection.settle(waits.append)
        assert sum(waits) == pytest.approx(0.05)

        def disturbed(seconds):
            waits.append(seconds)
            near.send(b"x")
            far.recv(1)

        waits.clear()
        connection.settle(disturbed)
        assert sum(waits) == pytest.approx(1.0)


def test_what_is_not_acknowledged_yet_is_waited_for_however_long_the_round_trip(monkeypatch):
    connection, readings = ControlConnection(None), iter([(1, 10)] * 30 + [(0, 11)] * 100)
    monkeypatch.setattr(connection, "_counters", lambda: next(readings))
    waits: list[float] = []
    connection.settle(waits.append)
    assert len(waits) == 30 + 10
