"""Open connections, as the kernel tells of them."""

from __future__ import annotations

import ast

import pytest

CLOSED_AT_ONCE = """
import socket, subprocess, time
from pathlib import Path
from pytest_ipperf.agent.sockets.open_connections import open_connections

def states():
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [words[3] for words in lines if words[1].endswith(":4E20")]

with socket.create_server(("127.0.0.1", 20000)) as listener:
    client = socket.create_connection(("127.0.0.1", 20000))
    server, _ = listener.accept()
# A packet waits for half a second then, the first one too, as the datagram has emptied the bucket.
subprocess.run(["tc", *"qdisc add dev lo root tbf rate 1kbit burst 100 limit 10000".split()], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as emptying:
    emptying.sendto(bytes(50), ("127.0.0.1", 20001))
client.close()
server.close()
seen = set()
while open_connections(20000):
    seen.update(states())
    time.sleep(0.01)
print((sorted(seen), states()))
"""
CLOSING, TIME_WAIT = "0B", "06"


def test_what_both_ends_have_closed_at_once_is_open_until_the_other_has_acknowledged(isolated):
    seen, left = ast.literal_eval(isolated(CLOSED_AT_ONCE))
    assert CLOSING in seen
    assert left == [TIME_WAIT]


INTERFACES = {
    "sock_diag": 'module._listed = lambda _: exit("sock_diag does not work here")',
    "text files": "module.ask = refuse",
}
"""Names of the kernel's interfaces, with the line that leaves no other."""

FROM = """
import socket, time
from pytest_ipperf.agent.sockets import open_connections as module
from pytest_ipperf.agent.sockets.open_connections import open_connections

def refuse(*_, **__):
    raise FileNotFoundError(2, "No such file or directory")

{source}
"""
HALF_CLOSED = """
with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
    port = listener.getsockname()[1]
    counts = [open_connections(port)]
    client = socket.create_connection((address, port))
    server, _ = listener.accept()
    counts.append(open_connections(port))
    # The FIN is acknowledged at once, and not in the middle of what follows.
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    server.close()
    counts.append(open_connections(port))  # FIN_WAIT2
    client.close()
    end = time.monotonic() + 10
    while open_connections(port) and time.monotonic() < end:  # a busy kernel takes time
        time.sleep(0.01)
    counts.append(open_connections(port))  # TIME_WAIT
print(counts)
"""
OF_BOTH_VERSIONS = """
with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("::1", port)):
        print(open_connections(port))
"""

# In a namespace of their own, as the kernel makes a text file of many connections in parts.
both_interfaces = pytest.mark.parametrize("source", INTERFACES)


@both_interfaces
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_connection_is_open_until_both_ends_have_closed_it(source, address, isolated):
    code = FROM.format(source=INTERFACES[source]) + f"address = {address!r}" + HALF_CLOSED
    assert ast.literal_eval(isolated(code)) == [0, 1, 1, 0]


@both_interfaces
def test_connections_of_ipv4_at_a_socket_of_both_versions_count_once(source, isolated):
    assert isolated(FROM.format(source=INTERFACES[source]) + OF_BOTH_VERSIONS).strip() == "2"


ORPHAN = """
import socket
from pathlib import Path
from pytest_ipperf.agent.sockets import open_connections as module
print(module._none())
with socket.create_server(("127.0.0.1", 0)) as listener:
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
Path("/proc/sys/net/ipv4/tcp_fin_timeout").write_text("30")
server.close()  # as a client that closes first; the other end has not yet
print(module._none(), module.open_connections())
client.close()
"""


def test_a_namespace_without_connections_is_known_by_its_counters_alone_and_half_closed_ones_count(isolated):
    assert isolated(ORPHAN).split("\n")[:2] == ["True", "False 2"]


MANY = """
import socket
from pytest_ipperf.agent.sockets.open_connections import open_connections
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
clients = [socket.create_connection(listener.getsockname()) for _ in range(700)]
port = listener.getsockname()[1]
print((open_connections(port), open_connections(), open_connections(9)))  # the port after it may be a client's
"""


def test_more_connections_than_one_message_of_the_kernel_holds_are_counted(isolated):
    assert ast.literal_eval(isolated(MANY)) == (700, 1400, 0)
