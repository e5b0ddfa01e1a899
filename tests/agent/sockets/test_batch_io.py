"""Batches of datagrams in one system call, of a process that is stopped meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
READS = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from pytest_ipperf.agent.sockets.batch_io import ReceiveBatch
with socket.socket(fileno=int(sys.argv[2])) as sock:
    batch = ReceiveBatch(sock, 32, 8)
    print("reads", flush=True)
    print([[*words] for words, _ in batch.read()])
"""


def _wait_for(pid: int, state: str) -> None:
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != state:
        assert time.monotonic() < end, f"never in state {state}"
        time.sleep(0.01)


def test_who_was_stopped_while_it_waited_goes_on_waiting():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        # Calls with a limit of time are those that the kernel does not begin again by itself.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))
        argv = [sys.executable, "-c", READS, str(ROOT), str(sock.fileno())]
        with subprocess.Popen(argv, pass_fds=[sock.fileno()], stdout=subprocess.PIPE, text=True) as reader:
            try:
                assert reader.stdout
                assert reader.stdout.readline() == "reads\n"
                _wait_for(reader.pid, "S")
                os.kill(reader.pid, signal.SIGSTOP)
                _wait_for(reader.pid, "T")
                os.kill(reader.pid, signal.SIGCONT)
                _wait_for(reader.pid, "S")
                sock.sendto(struct.pack("QQ16x", 7, 8), sock.getsockname())
                assert reader.stdout.read() == "[[7, 8]]\n"
            finally:
                reader.kill()
