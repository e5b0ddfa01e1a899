"""The command `lab`: keep a lab up to explore it.

It takes no lease, since an idle lab disturbs nothing: a measurement need not wait for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_ipperf.agent.host_state.lease import Lease
from pytest_ipperf.agent.tunnels.backends import BACKENDS, preferred
from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.testbeds import HOSTS, inventory
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.lab.agents.file_descriptors import enough_descriptors
from pytest_ipperf.lab.epoch.build import BuiltTestbed, build_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, testbed_of, with_rate
from pytest_ipperf.lab.inventory.model import AUTO, Testbed
from pytest_ipperf.lab.netns import namespaces
from pytest_ipperf.lab.netns.veth import veth_pairs

_INTERRUPTED = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.5
_TIMEOUT_S = 10.0
_COLUMNS = 80
_SHORT = {"--target": "-t", "--user": "-U", "--mount": "-m", "--pid": "-p", "--net": "-n", "--uts": "-u"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "testbed", nargs="?", default="lab", metavar="TESTBED",
        help="lab (client, router, server), pair (no router), or one of these with a rate, such as lab.100mbit",
    )  # fmt: skip
    parser.add_argument(
        "--ipperf-backend", "--backend", dest="backend", default="", metavar="NAME",
        help=f"backend of the tunnels: {', '.join(preferred())}, or {AUTO} (the first of them that works here); "
        "default: the inventory's for that lab",
    )  # fmt: skip
    parser.add_argument(
        "--ipperf-hosts", default="", metavar="FILE", help=f"inventory with further labs; default {HOSTS}"
    )


def _run(args: argparse.Namespace) -> int:
    """Return 0, or 2 after Ctrl-C before the lab was up; raise LabError for a lab that cannot be built."""
    try:
        _keep_up(_testbed(args.testbed, args.ipperf_hosts), _backend(args.backend))
    except KeyboardInterrupt:
        print("pytest-ipperf: interrupted before the lab was up; nothing is left of it", file=sys.stderr)  # noqa: T201
        return _INTERRUPTED
    return 0


def _testbed(name: str, hosts: str) -> Testbed:
    """Return the lab of that name; the inventory, which may be invalid, is read only if the name is not built in."""
    with contextlib.suppress(UsageError):  # `lab.x` may be a lab of the inventory
        if (found := BUILTIN.get(name) or with_rate(name, BUILTIN)) and found.is_lab:
            return found
    known = inventory(hosts) or BUILTIN
    labs = {each: testbed for each, testbed in known.items() if testbed.is_lab}
    if name in known and name not in labs:
        raise UsageError(f"testbed {name!r} is not a lab, as its hosts exist without it; there are {', '.join(labs)}")
    return testbed_of(name, labs)


def _backend(name: str) -> str:
    choices = [AUTO, *preferred()]
    if name and name not in choices:
        raise UsageError(f"--ipperf-backend: {name!r} does not exist; there are {', '.join(choices)}")
    return name


def _keep_up(testbed: Testbed, backend: str) -> None:
    """Keep a lab up until the end of input or a signal; raise LabError when one of its hosts is gone."""
    enough_descriptors(testbed)
    if why := namespaces.unusable():
        raise LabError(f"testbed {testbed.name} cannot be built here: {why}")
    began = time.monotonic()
    with _signals_interrupt(), build_testbed(testbed, transports=tuple(testbed.paths), backend=backend) as lab:
        lines = list(_guide(testbed, lab, time.monotonic() - began))
        with contextlib.suppress(KeyboardInterrupt, OSError):  # a closed terminal counts as the end of input
            _print(*lines)
            _wait(lab)
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # the lab is being taken down
    _print("", f"{testbed.name} is taken down.")


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make the signals that end a program raise KeyboardInterrupt, except those its parent made it ignore."""
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        for each in _SIGNALS:
            if before[each] is not signal.SIG_IGN:
                signal.signal(each, signal.default_int_handler)
        yield
    finally:
        for each in _SIGNALS:
            signal.signal(each, before[each])


def _print(*lines: str) -> None:
    try:
        print(*lines, sep="\n", flush=True)  # noqa: T201 - the output of the command
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wait(lab: BuiltTestbed) -> None:
    """Wait for the end of standard input; raise LabError when an agent has ended, and with it its host."""
    while not select.select([0], [], [], _POLL_S)[0] or os.read(0, 4096):
        for agent in lab.agents.values():
            if agent.ended:
                raise LabError(f"host {agent.host.name} is gone, and the lab with it: its agent has been ended")


def _guide(testbed: Testbed, lab: BuiltTestbed, took_s: float) -> Iterator[str]:
    """Yield a description of the lab, with the commands that enter its hosts, in lines of 80 columns."""
    links = str(testbed.links) or "as fast as this machine"
    yield f"{testbed.name} is up, built in {seconds_text(took_s)}; its links: {links}"
    yield from ("", *(f"  {line}" for line in _diagram(testbed)), "")
    yield "To enter a host from another terminal, run its command:"
    for host in filter(None, (testbed.client, *testbed.more_clients, testbed.router, testbed.server)):
        yield f"\n{host.name}"
        yield f"  {_entry_text(lab.entries[host.name])}"
        yield from _devices(lab.entries[host.name])
    yield "\nfrom the client"
    yield from _arms(testbed, lab)
    yield "\na first example"
    yield from _example(testbed, lab)
    yield "\nNothing is measured here, and no lease is held."
    if holder := Lease("").holder():
        yield textwrap.fill(f"Load would disturb a measurement that is running now, by {holder}.", _COLUMNS)
    yield "Ctrl-C or the end of input takes the lab down, with everything that runs in it."


def _diagram(testbed: Testbed) -> Iterator[str]:
    """Yield a line that draws the links, and a line for each further client."""
    pairs = veth_pairs(testbed)
    diagram = testbed.client.name
    for one, other in [pairs[0], *(pair[::-1] for pair in pairs[1:2])]:
        diagram += f" {one.device} --- {other.device} {testbed.roles[other.role].name}"
    yield diagram
    for one, other in pairs[2:]:
        yield f"{testbed.roles[one.role].name} {one.device} --- {other.device} {testbed.roles[other.role].name}"


def _entry_text(entry: Sequence[str]) -> str:
    """Return the command line that enters a host, shortened to 80 columns: without its directory and PATH."""
    return shlex.join(_SHORT.get(word, word) for word in entry[: entry.index("env")])


def _devices(entry: Sequence[str]) -> Iterator[str]:
    for device in _run_json(entry, ["ip", "-json", "address"]):
        entries = [each for each in device["addr_info"] if each["scope"] == "global"]
        addresses = [f"{each['local']}/{each['prefixlen']}" for each in entries]
        if addresses:
            listed = "  ".join(sorted(addresses, key=lambda each: (":" in each, each)))
            yield f"  {device['ifname']:<14} mtu {device['mtu']}  {listed}"


def _run_json(entry: Sequence[str], argv: Sequence[str]) -> Any:
    try:
        done = subprocess.run([*entry, *argv], capture_output=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"the lab's hosts cannot be asked for their addresses: {error}") from error
    return json.loads(done.stdout)


def _arms(testbed: Testbed, lab: BuiltTestbed) -> Iterator[str]:
    for arm in (Arm(4, "native"), Arm(6, "native"), *(Arm(6, each) for each in testbed.paths)):
        name = f"  {arm!s:<14} "
        if trouble := lab.tunnels.trouble.get(arm.transport):
            yield textwrap.fill(f"{name}not available: {trouble}", _COLUMNS, subsequent_indent=" " * len(name))
        else:
            by = lab.tunnels.backends.get(arm.transport)
            yield f"{name}ping {testbed.path(arm).server:<20} {f'by {BACKENDS[by].title}' if by else ''}".rstrip()


def _example(testbed: Testbed, lab: BuiltTestbed) -> Iterator[str]:
    """Yield the commands that show a packet of the first tunnel, for root or another user."""
    arm = Arm(6, next(iter(lab.tunnels.backends), "native"))
    watcher = testbed.router or testbed.server
    entry = lab.entries[watcher.name]
    capture = f"tcpdump -ni eth0 {'ip proto 41' if arm.transport != 'native' else 'ip6'}"
    yield f"  on the client  ping {testbed.path(arm).server}"
    if "--user" in entry:
        yield f"  as real root   nsenter -t {entry[entry.index('--target') + 1]} -n {capture}"
    else:
        yield f"  on the {watcher.name:<7} {capture}"


command = Command(
    help="keep a lab up, with all of its tunnels, to explore it",
    description="Keeps a lab up, with all of its tunnels, to explore it. Ctrl-C takes it down.",
    arguments=_arguments,
    run=_run,
)
