"""Bootstrap an agent: send its code to a bare Python at the end of an execnet channel.

The code is imported from memory, so it leaves no files behind and none can be altered. A host on another machine caches
it: the controller offers its digest, and the host requests the code if it lacks it. A Python whose bytecode differs
from ours caches the code as it compiled it, so that not each of its agents has to compile it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib.util import MAGIC_NUMBER
from typing import Any

from pytest_ipperf.agent.packages import bytecode
from pytest_ipperf.agent.packages import cache as agents_cache
from pytest_ipperf.agent.rpc.codec import Decoder
from pytest_ipperf.agent.rpc.messages import Hello
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.agents.code_archive import code_archive, code_file, digests, stored_archive

_DECODER = Decoder(printable)
BYTES_PER_S = 50_000
"""Data rate of the slowest supported connection."""
BOOT = """
import os, sys
if sys.version_info < (3, 10):
    raise RuntimeError("Python " + sys.version.split()[0] + " is too old; 3.10 is needed")
from importlib.util import MAGIC_NUMBER
offered, keeper, watchdog_s = channel.receive()
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
serve(channel, fd, watchdog_s)
"""
"""Program that runs on the host, with its end of an execnet channel as `channel`; `start_agent` is the other end."""

FORK_SERVER = """
import gc
gc.disable()  # what is imported stays
import os, socket, sys, types
from importlib.util import find_spec
code_fd, control_fd = map(int, sys.argv[1:])
sys.path.insert(0, f"/proc/self/fd/{code_fd}")
# The package itself imports the controller's end, which takes as long as a third of the agent.
package = types.ModuleType("execnet")
package.__path__ = find_spec("execnet").submodule_search_locations
sys.modules["execnet"] = package
from execnet.gateway_base import get_execmodel, init_popen_io, serve
from pytest_ipperf.agent.rpc.fork_server import serve_forks

def run_agent():
    os.write(1, b"1")
    serve(init_popen_io(get_execmodel("thread")), id="forked")

serve_forks(socket.socket(fileno=control_fd), run_agent)
"""
"""Program of a fork server, with the descriptors of the code and of its socket as arguments."""
FORKED_BOOT = """
from pytest_ipperf.agent.rpc.server import serve
serve(channel, channel.receive())
"""
"""Program that runs in a forked agent; `start_forked_agent` is the other end."""


def start_forked_agent(channel: Any, patience_s: float) -> Hello:
    """Start a forked agent, which has the code, and return its identity."""
    channel.send(code_file())
    return _greeting(channel.receive(patience_s))


def start_agent(
    channel: Any,
    patience_s: float,
    sending: Callable[[float], None] = lambda _: None,
    *,
    near: bool = False,
    keeps: bool = False,
    watchdog_s: float = 0.0,
) -> Hello:
    """Send the code, unless the host has it in its cache, and return the agent's identity.

    `sending` is called with the seconds that sending may take on a slow connection, in addition to the time-out. A
    host that is `near`, on this machine, is sent more bytes that take less time. With `watchdog_s` the agent arms
    its watchdog, see `Channel.arm_watchdog`.
    """
    channel.send((*((digests(), _keeper()) if keeps else ({}, [])), watchdog_s))
    reply = channel.receive(patience_s)
    if isinstance(reply, bytes):
        code = stored_archive() if near and reply == MAGIC_NUMBER else code_archive(reply)
        sending_s = len(code) / BYTES_PER_S
        sending(sending_s)
        channel.send(code)
        reply = channel.receive(patience_s + sending_s)
    return _greeting(reply)


def _greeting(reply: Any) -> Hello:
    return _DECODER.decode(Hello, reply[1], "greeting of an agent")


@cache
def _keeper() -> list[str]:
    """Return the source of the modules that look into the cache there, before the code itself is loaded."""
    return [inspect.getsource(each) for each in (agents_cache, bytecode)]
