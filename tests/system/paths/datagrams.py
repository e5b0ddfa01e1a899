"""Sends, or takes in, datagrams that are different from each other, and says how many were as they had to be.

Arguments: `send` or `take`, the address to send to or to listen on, how many, and of how many bytes.
"""

import random
import socket
import sys

PORT = 20000
PATIENCE_S = 30.0


def contents(count: int, size: int) -> list[bytes]:
    """The same wherever it is asked for."""
    return [random.Random(number).randbytes(size) for number in range(count)]


def main(what: str, address: str, count: str, size: str) -> None:
    """Does it."""
    expected = contents(int(count), int(size))
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if what == "send":
            for each in expected:
                sock.sendto(each, (address, PORT))
            return
        sock.bind((address, PORT))
        sock.settimeout(PATIENCE_S)
        print("ready", flush=True)  # noqa: T201 - the sender waits for it
        right = 0
        while right < len(expected) and sock.recv(65536) in expected:
            right += 1
        print(right)  # noqa: T201 - the answer


main(*sys.argv[1:])
