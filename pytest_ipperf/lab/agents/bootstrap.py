"""Bootstrap an agent: send its code to a bare Python at the end of an execnet channel.

It is imported from memory, so nothing is that could have been changed on the way or be left behind. A host on another
machine keeps it in its cache: what is offered there is its digest, and it asks for the code that it lacks. A Python
that compiles it otherwise than ours keeps what came of that too, or each of its agents would begin with compiling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from pytest_ipperf.agent.packages import bytecode
from pytest_ipperf.agent.packages import cache as agents_cache
from pytest_ipperf.agent.rpc.codec import Decoder
from pytest_ipperf.agent.rpc.messages import Hello
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.agents.code_archive import code_archive, digests

_DECODER = Decoder(printable)
BYTES_PER_S = 50_000
"""Of the slowest line that all is meant for."""
BOOT = """
import os, sys
if sys.version_info < (3, 10):
    raise RuntimeError("Python " + sys.version.split()[0] + " is too old; 3.10 is needed")
from importlib.util import MAGIC_NUMBER
offered, keeper = channel.receive()
code = None
if keeper:
    room = {"__name__": "keeper"}
    for text in keeper:
        exec(text, room)
    kept = room["Cache"]()
    kept.tidy()
    made = "" if MAGIC_NUMBER in offered else MAGIC_NUMBER.hex()
    digest = offered[b"" if made else MAGIC_NUMBER]
    code = kept.get(digest, made)
if code is None:
    channel.send(MAGIC_NUMBER)
    code = channel.receive()
    if keeper:
        code = room["compiled"](code, room["in_zip_path"]) if made else code
        kept.put(code, digest, made)
fd = os.memfd_create("pytest-ipperf")
with open(fd, "wb", closefd=False) as file:
    file.write(code)
sys.path.insert(0, f"/proc/self/fd/{fd}")
from pytest_ipperf.agent.rpc.server import serve
serve(channel, fd)
"""
"""Runs on the host, with its end of an execnet channel as `channel`; the other end is in `start_agent`."""


def start_agent(
    channel: Any, patience_s: float, sending: Callable[[float], None] = lambda _: None, *, keeps: bool = False
) -> Hello:
    """Sends the code, unless the host keeps what it was sent and has it; what its agent says first: who it is.

    `sending` is called with the seconds that it may take on a slow line beside the patience.
    """
    channel.send((digests(), _keeper()) if keeps else ({}, []))
    said = channel.receive(patience_s)
    if isinstance(said, bytes):
        code = code_archive(said)
        sending_s = len(code) / BYTES_PER_S
        sending(sending_s)
        channel.send(code)
        said = channel.receive(patience_s + sending_s)
    return _DECODER.decode(Hello, said[1], "greeting of an agent")


@cache
def _keeper() -> list[str]:
    """What looks into the cache there, before there is anything else."""
    return [inspect.getsource(each) for each in (agents_cache, bytecode)]
