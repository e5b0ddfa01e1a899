"""A testbed: the hosts of one experiment, their links, and the paths of its arms. Passive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, NetworkPath

AUTO = "auto"
"""Default backend: the best one that works."""

DEFAULT_PORTS = (20000, 29999)
"""Servers' port range, below the ephemeral ports of Linux (32768-60999), which closed client connections may occupy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host and its access method.

    `ports` is the range its servers draw from, `cpus` the processors that its work is bound to. `tunnels` are its own
    devices for tunnelled arms, by transport: the device and the address on it. With `sudo` its agent runs as root.
    `servers` are the server programs that may be used there (None: all that are found). `most_connections` and
    `most_rate_bit_s` limit the load (0: no limit). `reboot` is the command that reboots it, `snmp` the source of its
    counters (`snmp_source.Source`); empty if there is none.
    """

    name: str
    way: str
    ipv4: str = ""
    ipv6: str = ""
    ports: tuple[int, int] = DEFAULT_PORTS
    cpus: tuple[int, ...] = ()
    tunnels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sudo: bool = False
    servers: tuple[str, ...] | None = None
    most_connections: int = 0
    most_rate_bit_s: float = 0.0
    reboot: str = ""
    snmp: str = field(default="", repr=False)  # a community is as good as a password
    settings: Mapping[str, str]

    def address(self, ipver: int) -> str:
        """Return its literal address of that version on the measured link; empty if it has none."""
        return self.ipv6 if ipver == 6 else self.ipv4

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses on measured links: those of native arms and of its own tunnel devices."""
        return tuple(filter(None, (self.ipv4, self.ipv6, *(address for _, address in self.tunnels.values()))))

    @property
    def machine(self) -> str:
        """Name of its machine, on which two measurements must not run at once."""
        return ACCESS_METHODS[self.way].machine(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Rate, loss and delay of a lab's links, in each direction.

    `rate_bit_s` limits every link, counted as on Ethernet; 0 means no limit. `loss` is the share of the packets sent by
    client and server that is dropped. The server's link delays every packet by `delay_s`. With `at_router` only the
    router's ports have the rate: hosts fill its queues, as those of an access router.
    """

    rate_bit_s: float = 0.0
    loss: float = 0.0
    delay_s: float = 0.0
    at_router: bool = False

    def __str__(self) -> str:
        parts = [rate_text(self.rate_bit_s) + " at the router" * self.at_router] if self.rate_bit_s else []
        parts += [f"loss {100 * self.loss:g} %"] if self.loss else []
        parts += [f"delay {1000 * self.delay_s:g} ms"] if self.delay_s else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """The hosts of one experiment, perhaps with a router between client and server.

    `more_clients` load the server together with `client`, each with its share of every run's connections. `exclusive`
    means that its network namespaces, which the lab builds with `links`, hold nothing but the measurement. `paths` are
    those of its tunnelled arms, by transport; `backend` names the backend that carries them, or is `auto`.
    """

    __test__ = False

    name: str
    client: Host
    server: Host
    router: Host | None = None
    more_clients: tuple[Host, ...] = ()
    domain: str = ""
    exclusive: bool = False
    links: Links = Links()
    paths: Mapping[str, NetworkPath] = field(default_factory=dict)
    backend: str = AUTO

    @property
    def roles(self) -> dict[str, Host]:
        """Hosts by role; further clients are `client2`, `client3` and so on."""
        router = {ROUTER: self.router} if self.router else {}
        more = {f"{CLIENT}{number}": host for number, host in enumerate(self.more_clients, start=2)}
        return {CLIENT: self.client, SERVER: self.server, **router, **more}

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Client and server, the router if there is one, and further clients."""
        return tuple(self.roles.values())

    @property
    def clients(self) -> tuple[str, ...]:
        """Roles of its clients, the first client first."""
        return tuple(role for role in self.roles if role.startswith(CLIENT))

    @property
    def client_hosts(self) -> tuple[str, ...]:
        """Names of its clients if there are several, else empty."""
        return tuple(self.roles[role].name for role in self.clients) if self.more_clients else ()

    def seen_by(self, role: str) -> Testbed:
        """Return the testbed with the client of that role as its only one."""
        client = self.roles[role]
        if client is self.client:
            return replace(self, more_clients=())
        # Several clients only use existing tunnels, each with a device of its own.
        ends = {name: client.tunnels[name] for name in self.paths}
        paths = {
            name: replace(path, client=ends[name][1], devices={**path.devices, CLIENT: ends[name][0]})
            for name, path in self.paths.items()
        }
        return replace(self, client=client, more_clients=(), paths=paths)

    @property
    def is_lab(self) -> bool:
        """Return whether it consists of namespaces of this machine."""
        return all(host.way == "namespace" for host in self.hosts)

    @property
    def guarded(self) -> frozenset[str]:
        """Machines and shared links that two measurements must not use at once."""
        return frozenset({host.machine for host in self.hosts} | ({f"domain {self.domain}"} if self.domain else set()))

    def path(self, arm: Arm) -> NetworkPath:
        """Return the path of an arm that the testbed has."""
        if arm.transport == "native":
            return NetworkPath(self.client.address(arm.ipver), self.server.address(arm.ipver))
        return self.paths[arm.transport]

    def addresses(self, transports: frozenset[str]) -> list[str]:
        """Return the addresses on which the server listens: its own, and one for each of these transports."""
        inner = [path.server for name, path in self.paths.items() if name in transports]
        return list(dict.fromkeys(filter(None, (self.server.ipv4, self.server.ipv6, *inner))))

    def lacks(self, arm: Arm, shown_as: str = "") -> str:
        """Return why this testbed cannot have that arm; empty if it can. `shown_as` names the transport."""
        if arm.transport in self.paths:
            return ""
        if arm.transport != "native":
            return f"testbed {self.name} has no {shown_as or arm.transport}: {self._without(arm.transport)}"
        for host in (self.client, *self.more_clients, self.server):
            if not host.address(arm.ipver):
                return f"testbed {self.name} has no IPv{arm.ipver}: host {host.name} has no ipv{arm.ipver} in hosts.ini"
        return ""

    def _without(self, transport: str) -> str:
        if self.is_lab:
            return "a lab with several clients makes no tunnels"
        if self.client.machine == self.server.machine:
            return "its client and server are one host"
        return f"give it a key {transport} in hosts.ini, or its hosts a device"
