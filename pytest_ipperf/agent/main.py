"""The agent's life: it takes orders off its line one by one, answers each, and cleans up when the line ends.

An answer is `("ok", plain data)` or `("error", kind, sentence)`; kind tells the controller whether the testbed is in
trouble or the instrument itself broke. On its way to an answer a long order gives signs of life.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from pytest_ipperf.agent import flows, path
from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.agent.capture import Capture
from pytest_ipperf.agent.changes import Changes
from pytest_ipperf.agent.counters import risen, tcp_trouble
from pytest_ipperf.agent.daemon import Daemon, free_port
from pytest_ipperf.agent.fingerprint import fingerprint
from pytest_ipperf.agent.folder import lay_out, private_folder, sweep
from pytest_ipperf.agent.journal import mark_path, marked
from pytest_ipperf.agent.lease import Lease
from pytest_ipperf.agent.load import LoadOrder, load
from pytest_ipperf.agent.offloads import offloads, set_offloads
from pytest_ipperf.agent.packages import Packages
from pytest_ipperf.agent.passing import Passing
from pytest_ipperf.agent.returning import Answerer, Asker
from pytest_ipperf.agent.shaping import rates
from pytest_ipperf.agent.stamps import stamping
from pytest_ipperf.agent.train import Listener, rate_bit_s, send_train
from pytest_ipperf.agent.tunnel import lay_leg, raise_tunnel
from pytest_ipperf.core.errors import IpperfError
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from pytest_ipperf.transports.base import End, Leg

ALIVE = ("alive",)
"""Sent in the midst of a long order, so that an agent that hangs is not waited for as long as the order may take."""
_SIGN_S = 1.0


class Agent:
    """The orders; each public method is one and takes and gives plain data only. `say` sends without an order."""

    def __init__(self, stack: contextlib.ExitStack, code_fd: int, say: Callable[[object], None]) -> None:
        self._stack = stack
        self._code_fd = code_fd
        self._say = say
        sweep()  # what earlier agents left that were killed
        self._folder = stack.enter_context(private_folder())
        self._packages = Packages(self._folder)
        self._daemons: dict[str, Daemon] = {}
        self._protocol41 = path.Protocol41()
        stack.callback(self._protocol41.close)
        self._bare: path.BareIpv6 | None = None
        stack.enter_context(contextlib.closing(stamping()))
        self._flows = stack.enter_context(contextlib.closing(flows.Flows()))
        self._trains = stack.enter_context(contextlib.ExitStack())
        self._probes = stack.enter_context(contextlib.ExitStack())
        self._captures = stack.enter_context(contextlib.ExitStack())
        self._tcp = tcp_trouble()
        self._cpu_s = 0.0
        self._lease: Lease | None = None
        self._changes = Changes(code_fd)
        stack.callback(self._changes.undo)
        # What carries tunnels is closed before its device goes.
        self._tunnels = stack.enter_context(contextlib.ExitStack())

    def hello(self) -> dict[str, Any]:
        """Who answers here."""
        return {"python": platform.python_version(), "pid": os.getpid(), "host": socket.gethostname()}

    def pin(self, cpus: list[int]) -> list[int]:
        """Binds the agent and all that it starts to these processors, as far as they are allowed; none: left free."""
        allowed = os.sched_getaffinity(0) & set(cpus)
        if allowed:
            os.sched_setaffinity(0, allowed)
        return sorted(os.sched_getaffinity(0))

    def lease(self, owner: str, wait_s: float) -> str:
        """Empty when this host is ours now, else who holds it."""
        if self._lease is None:
            self._lease = Lease(owner)
            self._stack.callback(self._lease.release)
        return self._lease.acquire(wait_s)

    def unusable(self) -> dict[str, str]:
        """By server: why it cannot run here; empty where it can."""
        return {name: SERVERS[name].missing() for name in SERVERS}

    def marked(self) -> str:
        """Why nothing may be measured here until someone has looked after this host; empty where all is well."""
        return marked()

    def passes(self) -> None:
        """Takes note that the host goes as a whole, so that nothing which is changed here has to be put back."""
        self._changes = Passing()

    def watch(self, device: str) -> None:
        """Counts the bare IPv6 packets of this device too, from now on, in `load` and `quiet`."""
        self._bare = path.BareIpv6(device)
        self._stack.callback(self._bare.close)

    def cannot_carry(self, backend: str) -> str:
        """Why that backend cannot carry a tunnel here; empty where it can."""
        return BACKENDS[backend].missing()

    def tunnel(self, backend: str, end: dict[str, Any]) -> None:
        """Makes the end of a tunnel, with its addresses and routes."""
        raise_tunnel(backend, End(**end), self._changes, self._tunnels)

    def leg(self, leg: dict[str, Any]) -> None:
        """Gives this host what it needs beside a tunnel."""
        lay_leg(Leg(**leg), self._changes)

    def unmerged(self, ports: list[str], carriers: list[str]) -> None:
        """From now on every packet on these devices is one of the wire's, as a shaper counts packets.

        TCP builds larger ones even for a port that has no such offload, unless its segments are limited too.
        """
        for device in ports:
            set_offloads(device, dict.fromkeys(offloads(device), False))
        for device in (*ports, *carriers):
            self._changes.run(["ip", "link", "set", device, "gso_max_segs", "1"], None)

    def restore(self) -> dict[str, Any]:
        """Puts back all that was changed here; `left`, a sentence for what is not as it was, and the file of `mark`."""
        self._tunnels.close()
        return {"left": self._changes.undo(), "mark": mark_path()}

    def packages(self, names: list[str]) -> dict[str, Any]:
        """Which versions of these distributions are here, and the Python that they are for."""
        return self._packages.told(names)

    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Makes the packages of a parcel importable, here and in servers that start from now on."""
        self._packages.unpack(digest, data, stripped)

    def serve(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        """Starts a server on `addresses`, on a free port of `ports`, that holds `state` in sizes of `payload_bytes`."""
        recipe = SERVERS[name]
        protocol = application(order["protocol"])
        state = protocol.filled(ServerState(**order["state"]), order["payload_bytes"])
        low, high = order["ports"]
        site = Site(
            folder=str(self._folder / name),
            addresses=tuple(order["addresses"]),
            port=free_port(order["addresses"], low, high, random.Random()),  # noqa: S311 - not a secret
            connections=order["connections"],
            state=state,
            zone={host: tuple(found) for host, found in order["zone"].items()},
            script=protocol.script(state),
            data=order["data"],
            ports=(low, high),
        )
        self._daemons[name] = daemon = Daemon(recipe, site, code_fd=self._code_fd, env=self._packages.env)
        self._stack.callback(daemon.stop)
        daemon.start()
        return {"port": site.port, "version": recipe.version() + self._packages.remark(recipe.packages)}

    def provision(self, name: str, protocol: str, payload_bytes: int, state: dict[str, Any]) -> str:
        """Lays out what a server is to hold, in a folder that lasts as long as this agent; gives the folder."""
        filled = application(protocol).filled(ServerState(**state), payload_bytes)
        folder = str(self._folder / f"{name}-{filled.digest}")
        lay_out(folder, SERVERS[name].provisions(folder, filled))
        return folder

    def quiet(self, limit_s: float) -> dict[str, Any]:
        """Waits until the servers have nothing left to do; says what still goes on, and which of them has died.

        Counted since the last such order: packets of protocol 41 and bare ones of IPv6, TCP's trouble, the servers'
        processor time.
        """
        busy = [said for daemon in self._daemons.values() if (said := daemon.wait_quiet(limit_s))]
        dead = [daemon.exit_sentence() for daemon in self._daemons.values() if not daemon.alive()]
        tcp, cpu_s = tcp_trouble(), sum(daemon.cpu_seconds() for daemon in self._daemons.values())
        since = {"tcp": risen(self._tcp, tcp), "cpu_s": cpu_s - self._cpu_s}
        self._tcp, self._cpu_s = tcp, cpu_s
        return {"busy": busy, "dead": dead, **self._counted(), **since}

    def logs(self) -> dict[str, str]:
        """By server: the end of its log."""
        return {name: said for name, daemon in self._daemons.items() if (said := daemon.log())}

    def mute(self) -> list[str]:
        """Of each server that runs and does not answer, what is wrong with it."""
        return [said for daemon in self._daemons.values() if (said := daemon.mute())]

    def load(self, order: dict[str, Any]) -> dict[str, Any]:
        """One run, with the packets counted around it."""
        return self._around(lambda: load(LoadOrder(**order), signs_of_life(self._say)))

    def _around(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a run tells, and the packets of this host in it."""
        self._counted()
        before = path.ip_packets()
        told = run()
        after = path.ip_packets()
        packets = {version: after[version] - before[version] for version in after}
        return {**told, "packets": packets, **self._counted()}

    def flow_listen(self, order: dict[str, Any]) -> dict[str, Any]:
        """The far end of a flow listens from now on; what its near end has to know."""
        return self._flows.listen(order)

    def flow_run(self, order: dict[str, Any]) -> dict[str, Any]:
        """The near end's part of a run, with the packets counted around it."""
        return self._around(lambda: flows.run(order, signs_of_life(self._say)))

    def flow_finish(self, near: dict[str, Any]) -> dict[str, Any]:
        """The far end's part of a run, whose near end has told so much."""
        return self._flows.finish(near)

    def _counted(self) -> dict[str, Any]:
        """The packets since the last time."""
        bare = self._bare.count() if self._bare else None
        return {"protocol41": self._protocol41.count(), "bare_ipv6": bare}

    def route(self, destination: str, source: str = "", arrives: str = "") -> dict[str, Any]:
        """The route to an address, of packets from a `source`, and at a router of such as arrive by a device."""
        return path.route(destination, source, arrives)

    def fits(self, order: dict[str, Any]) -> dict[int, str]:
        """What of the MTU, and of one byte more, gets to the name server unfragmented."""
        sizes = path.fit_sizes(order["mtu"], order["ipver"])
        return {size: path.fits(order["resolver"], order["port"], order["name"], size) for size in sizes}

    def back_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answers probes of the way back from now on, on a free port; gives the port."""
        self._probes.close()
        port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self._answerer = Answerer(address, port)
        self._probes.callback(self._answerer.close)
        return port

    def back_open(self, source: str, address: str, port: int) -> None:
        """Gets ready to ask there for packets of several sizes."""
        self._probes.close()
        self._asker = Asker(source, address, port)
        self._probes.callback(self._asker.close)

    def back_ask(self) -> None:
        """Asks for them, once more where they have not come."""
        self._asker.ask()

    def back_answer(self, packets_bytes: list[int]) -> list[int]:
        """Sends packets of these sizes to who has asked; gives those that this host refuses."""
        return self._answerer.answer(packets_bytes)

    def back_taken(self, packet_bytes: int) -> list[int]:
        """The sizes that have come, up to that one."""
        return self._asker.taken(packet_bytes)

    def rates(self, devices: list[str]) -> dict[str, float]:
        """By device: the rate in bit/s that it is shaped to; 0 where it is not."""
        return rates(devices)

    def capture_begin(self, device: str, packets: int) -> bool:
        """Keeps the first packets that pass a device from now on; false where this user may not see them."""
        self._captures.close()
        with contextlib.suppress(PermissionError):
            self._capture = Capture(device, packets)
            self._captures.callback(self._capture.close)
            return True
        return False

    def capture_end(self) -> bytes:
        """What has been kept, as a pcap file."""
        kept = self._capture.pcap()
        self._captures.close()
        return kept

    def train_listen(self, address: str, datagrams: int) -> int:
        """Takes trains from now on, none longer; gives the port."""
        self._trains.close()
        self._train = Listener(address, datagrams)
        self._trains.callback(self._train.close)
        return self._train.port

    def train_send(self, order: dict[str, Any]) -> None:
        """Sends one, from `source` to `address` and `port`; `ident`, `packet_bytes`, `datagrams`, `backlog`."""
        destination = (order.pop("address"), order.pop("port"))
        send_train(order.pop("source"), destination, **order)

    def train_taken(self, ident: int, datagrams: int, wire_bytes: int) -> float | None:
        """The rate in bit/s of a train that has been sent; None where too little of it came."""
        return rate_bit_s(self._train.stamps_ns(ident, datagrams), wire_bytes)

    def fingerprint(self, device: str) -> dict[str, Any]:
        """What the results of this host may depend on."""
        return fingerprint(device)


def serve(channel: Any, code_fd: int) -> None:
    """Runs until the controller goes. `channel` is execnet's; orders are `(name, arguments)`."""
    orders: queue.SimpleQueue[tuple[str, tuple[Any, ...]] | None] = queue.SimpleQueue()

    def heard(message: Any) -> None:  # in execnet's receiver thread, where nothing may be raised
        orders.put(message)
        if message is None:
            os.kill(os.getpid(), signal.SIGTERM)  # an order may be under way: nobody waits for it any more

    def leave(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the clean-up short
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    with contextlib.suppress(SystemExit), contextlib.ExitStack() as stack:
        agent = Agent(stack, code_fd, channel.send)
        channel.setcallback(heard, endmarker=None)
        channel.send(("ok", agent.hello()))
        try:
            while (order := orders.get()) is not None:
                channel.send(_answer(agent, *order))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # that of `heard` may be late, in the midst of the clean-up


def signs_of_life(say: Callable[[object], None]) -> Callable[[], None]:
    """Says when called that the agent lives, if that is a second ago; the first second is silent."""
    due = time.monotonic() + _SIGN_S

    def alive() -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _SIGN_S
            say(ALIVE)

    return alive


def _answer(agent: Agent, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        if name.startswith("_"):
            raise AttributeError(f"no order {name!r}")  # noqa: TRY301 - told as that of any other name is
        return "ok", getattr(agent, name)(*arguments)
    except IpperfError as error:
        return "error", type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - whatever broke here has to be told there, with its place
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "error", "AgentError", f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
