# mypy: disable-error-code="empty-body"
"""RPC methods of an agent as its client declares them; each is carried out by the handler of the same name.

`tests/lab/agents/test_methods.py` compares names, parameters, types and defaults with the handlers of
`pytest_ipperf/agent/rpc/handlers/`, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.flows.spec import Background, FlowSpec, NearReports
from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.paths.clock_sync import ClockState
from pytest_ipperf.agent.paths.routes import Route, RouteRequest
from pytest_ipperf.agent.rpc.messages import (
    CacheState,
    Cleaned,
    CollectedFacts,
    Fingerprint,
    Hello,
    HostReport,
    InstalledPackages,
    PacketTrain,
    RunEnd,
    RunReady,
    RunStart,
    Served,
    ServeRequest,
)
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.agents.rpc_method import PATIENCE_S, Connection, RpcMethod, Terms, raw_texts
from pytest_ipperf.transports.base import HostRoutes, TunnelEndpoint


class AgentMethods:
    """RPC methods of an agent, called on its terms."""

    terms: Terms

    def within(self, patience_s: float = PATIENCE_S, beside: Sequence[Connection] = ()) -> AgentMethods:
        """Return the same methods for calls with this time-out, which end if an agent of `beside` is gone.

        `patience_s` is the time until the result or the next keep-alive, which long calls send.
        """
        return _OnTerms(Terms(self.terms.connection, patience_s, beside))

    # --- host

    @RpcMethod
    def hello(self) -> Hello:
        """Return the agent's identity."""

    @RpcMethod
    def pin(self, cpus: list[int]) -> list[int]:
        """Bind the agent to processors; return those that it may use then."""

    @RpcMethod
    def lease(self, owner: str, wait_s: float) -> str:
        """Lease the host; return who holds it instead, or an empty text."""

    @RpcMethod
    def fingerprint(self, towards: str) -> Fingerprint:
        """Return the facts of the host that results may depend on."""

    @RpcMethod
    def shut_down(self) -> list[str]:
        """Undo and remove everything; return a sentence for each thing that stays."""

    @raw_texts
    def logs(self) -> dict[str, str]:
        """Return the end of each server's log unchanged; the journal writes it as JSON."""

    # --- clocks

    @RpcMethod
    def clock(self) -> ClockState:
        """Sample the host's clocks."""

    @RpcMethod
    def stamp(self) -> tuple[int, int]:
        """Return when the call arrived and when it was answered, in ns of CLOCK_MONOTONIC."""

    # --- examination

    @RpcMethod
    def collect_facts(self, names: list[str], request: FactsRequest) -> CollectedFacts:
        """Collect the facts of these names, and why some could not be collected."""

    @RpcMethod
    def repair(self, everything: bool) -> list[str]:  # noqa: FBT001 - as its handler has it
        """Clean up after earlier measurements; return sentences about what was done."""

    @RpcMethod
    def reachability_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer reachability probes from now on; return the port."""

    @RpcMethod
    def reachability_probe(self, source: str, address: str, port: int) -> dict[str, str]:
        """Return by `tcp` and `udp` why there is no answer there; empty if there is one."""

    @RpcMethod
    def reachability_close(self) -> None:
        """Stop answering reachability probes."""

    # --- packages

    @RpcMethod
    def packages(self, names: list[str]) -> InstalledPackages:
        """Return the versions of these distributions and the Python that they belong to."""

    @RpcMethod
    def unpack_kept(self, digest: str, stripped: list[str]) -> bool:
        """Unpack a cached package archive; return False if the host does not have it."""

    @RpcMethod
    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Make the packages of an archive importable, for the agent and servers that start from now on."""

    @RpcMethod
    def unpack_and_keep(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Unpack a package archive and cache it for later agents, if the host can."""

    @RpcMethod
    def cache(self) -> CacheState:
        """Return the state of the host's package cache."""

    @RpcMethod
    def clean(self) -> Cleaned:
        """Remove what agents have left on the host, as far as it is safe; return what was removed."""

    # --- reboot

    @RpcMethod
    def boot_id(self) -> str:
        """Return the kernel's id of the current boot."""

    @RpcMethod
    def reboot(self, argv: list[str]) -> None:
        """Run the command that reboots the host."""

    @RpcMethod
    def stay(self) -> None:
        """End a reboot command that has not rebooted the host."""

    @RpcMethod
    def lacking(self, addresses: list[str]) -> list[str]:
        """Return those of these addresses that the host does not have."""

    # --- network

    @RpcMethod
    def dirty_reason(self) -> str:
        """Return why nothing may be measured on the host; empty if something may."""

    @RpcMethod
    def without_rollback(self) -> None:
        """Tell the agent that its host is discarded, so that no change has to be undone."""

    @RpcMethod
    def watch(self, device: str) -> None:
        """Count the bare IPv6 packets of a device in each run from now on."""

    @RpcMethod
    def cannot_carry(self, backend: str) -> str:
        """Return why a backend cannot carry a tunnel on the host; empty if it can."""

    @RpcMethod
    def create_tunnel(self, backend: str, endpoint: TunnelEndpoint) -> None:
        """Create a tunnel endpoint with its addresses and routes."""

    @RpcMethod
    def add_routes(self, routes: HostRoutes) -> None:
        """Add addresses and routes beside a tunnel."""

    @RpcMethod
    def unmerged(self, ports: list[str], carriers: list[str]) -> None:
        """Keep the kernel from merging packets on these devices from now on."""

    @RpcMethod
    def set_offloads(self, device: str, settings: dict[str, bool]) -> dict[str, bool]:
        """Switch offloads of a device, empty `settings` to what they were; return those in force."""

    @RpcMethod
    def rates(self, devices: list[str]) -> dict[str, float]:
        """Return the rate in bit/s that each device is shaped to; 0 if it is not shaped."""

    @RpcMethod
    def restore(self) -> list[str]:
        """Undo all changes of the network; return a sentence for each thing that could not be restored."""

    # --- paths

    @RpcMethod
    def route(self, destination: str, source: str = "", arrives: str = "") -> Route:
        """Return the route to an address, from a source, for packets that arrive by a device."""

    @RpcMethod
    def routes(self, requests: list[RouteRequest]) -> list[Route]:
        """Return the routes that are asked for."""

    @RpcMethod
    def fits(self, resolver: str, port: int, name: str, sizes: tuple[int, int]) -> dict[int, str]:
        """Return which packets of these sizes reach the name server unfragmented."""

    @RpcMethod
    def reverse_pmtu_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer probes of the reverse path from now on; return the port."""

    @RpcMethod
    def reverse_pmtu_send(self, packets_bytes: list[int]) -> list[int]:
        """Send packets of these sizes to the host that requested them; return the sizes that this host refuses."""

    @RpcMethod
    def reverse_pmtu_probe(self, source: str, address: str, port: int, packet_bytes: int) -> list[int]:
        """Request packets of several sizes from that address; return those that have arrived, up to `packet_bytes`."""

    @RpcMethod
    def train_listen(self, address: str, datagrams: int) -> int:
        """Receive packet trains from now on; return the port."""

    @RpcMethod
    def train_send(self, train: PacketTrain) -> None:
        """Send a packet train."""

    @RpcMethod
    def train_rate(self, ident: int, datagrams: int, wire_bytes: int) -> float | None:
        """Return the rate in bit/s of a train that was sent; None if too little of it arrived."""

    # --- servers

    @RpcMethod
    def unusable(self, names: list[str] | None = None) -> dict[str, str]:
        """Return why each of these servers, or of all, cannot run on the host; empty if it can."""

    @RpcMethod
    def provision(self, name: str, protocol: str, payload_bytes: int, state: ServerState) -> str:
        """Write a server's state to a folder that lasts as long as the agent; return the folder."""

    @RpcMethod
    def serve(self, requests: dict[str, ServeRequest]) -> dict[str, Served]:
        """Start servers side by side, by name."""

    # --- runs

    @RpcMethod
    def start_run(self, request: RunStart) -> RunReady:
        """Prepare a run, and wait until nothing of the previous run is under way."""

    @RpcMethod
    def finish_run(self, request: RunEnd) -> HostReport:
        """Finish a run; return what was counted on the host since its start."""

    @RpcMethod
    def load(self, spec: LoadSpec) -> LoadResult:
        """Run a load."""

    @RpcMethod
    def load_open(self, spec: LoadSpec) -> None:
        """Open this host's share of a load run by several clients."""

    @RpcMethod
    def load_ready(self, number: int) -> None:
        """Prepare a burst."""

    @RpcMethod
    def load_start(self, number: int, instants_ns: list[int]) -> list[tuple[bool, float]]:
        """Run bursts at these instants; return for each whether any connection completed, and its seconds."""

    @RpcMethod
    def load_close(self) -> LoadResult:
        """End the run; return its result."""

    @RpcMethod
    def load_abort(self) -> None:
        """Abandon a run, if one is open."""

    @RpcMethod
    def flow_run(self, spec: FlowSpec, background: Background | None) -> NearReports:
        """Run the near end of a flow, and of its background traffic."""


class _OnTerms(AgentMethods):
    """RPC methods on other terms than those of the agent's client."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
