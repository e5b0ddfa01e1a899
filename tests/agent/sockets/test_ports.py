"""Ports and their connections, as the kernel tells of them."""

from __future__ import annotations

import ast

CLOSED_AT_ONCE = """
import socket, subprocess
from pathlib import Path
from pytest_ipperf.agent.sockets.ports import open_connections

def states():
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [words[3] for words in lines if words[1].endswith(":4E20")]

with socket.create_server(("127.0.0.1", 20000)) as listener:
    client = socket.create_connection(("127.0.0.1", 20000))
    server, _ = listener.accept()
# A packet waits for a quarter of a second then, the first one too, as the datagram has emptied the bucket.
subprocess.run(["tc", *"qdisc add dev lo root tbf rate 2kbit burst 100 limit 10000".split()], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as emptying:
    emptying.sendto(bytes(50), ("127.0.0.1", 20001))
client.close()
server.close()
seen = set()
while open_connections(20000):
    seen.update(states())
print((sorted(seen), states()))
"""
CLOSING, TIME_WAIT = "0B", "06"


def test_what_both_ends_have_closed_at_once_is_open_until_the_other_has_acknowledged(isolated):
    seen, left = ast.literal_eval(isolated(CLOSED_AT_ONCE))
    assert CLOSING in seen
    assert left == [TIME_WAIT]
