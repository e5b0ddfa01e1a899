# mypy: disable-error-code="empty-body"
"""RPC methods of an agent as its client declares them; each is carried out by the handler of the same name.

`tests/lab/agents/test_methods.py` compares names, parameters, types and defaults with the handlers of
`pytest_ipperf/agent/rpc/handlers/`, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec
from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.paths.clock_sync import ClockState
from pytest_ipperf.agent.rpc.messages import (
    CacheState,
    Cleaned,
    Fingerprint,
    Hello,
    HostReport,
    InstalledPackages,
    PacketTrain,
    Route,
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
        """Return the same methods for calls that wait so long, and end when an agent of `beside` is gone.

        `patience_s` holds until the result or the next keep-alive, which a long call sends on its way.
        """
        return _OnTerms(Terms(self.terms.connection, patience_s, beside))

    # --- host

    @RpcMethod
    def hello(self) -> Hello:
        """Return the agent's identity."""

    @RpcMethod
    def arm_watchdog(self, timeout_s: float) -> None:
        """Tell the agent that its controller is on another machine; it ends after so long without a heartbeat."""

    @RpcMethod
    def pin(self, cpus: list[int]) -> list[int]:
        """Bind the agent to processors; return those that it may use then."""

    @RpcMethod
    def lease(self, owner: str, wait_s: float) -> str:
        """Lease the host; return who holds it instead, or an empty text."""

    @RpcMethod
    def fingerprint(self, device: str) -> Fingerprint:
        """Return what results of the host may depend on."""

    @RpcMethod
    def shut_down(self) -> list[str]:
        """Undo and remove everything; return a sentence for whatever stays."""

    @raw_texts
    def logs(self) -> dict[str, str]:
        """Return the end of each server's log, as it is; the journal writes it as JSON."""

    # --- clocks

    @RpcMethod
    def clock(self) -> ClockState:
        """Sample the host's clocks."""

    @RpcMethod
    def stamp(self) -> tuple[int, int]:
        """Return when the call came and when it was answered, in ns of CLOCK_MONOTONIC."""

    # --- examination

    @RpcMethod
    def collect_facts(self, names: list[str], request: FactsRequest) -> dict[str, dict[str, object]]:
        """Return the facts of these names; of those that could not be collected `trouble`, a sentence."""

    @RpcMethod
    def repair(self, everything: bool) -> list[str]:  # noqa: FBT001 - as its handler has it
        """Put in order what earlier measurements have left; return what was done, in sentences."""

    @RpcMethod
    def reachability_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer reachability probes from now on; return the port."""

    @RpcMethod
    def reachability_probe(self, source: str, address: str, port: int) -> dict[str, str]:
        """Return by `tcp` and `udp` why nobody answers there; empty where somebody does."""

    @RpcMethod
    def reachability_close(self) -> None:
        """Stop answering reachability probes."""

    # --- packages

    @RpcMethod
    def packages(self, names: list[str]) -> InstalledPackages:
        """Return the versions of these distributions and the Python that they are for."""

    @RpcMethod
    def unpack_kept(self, digest: str, stripped: list[str]) -> bool:
        """Unpack a parcel that the host has kept; return False where it has not."""

    @RpcMethod
    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Make the packages of a parcel importable, for the agent and servers that start from now on."""

    @RpcMethod
    def unpack_and_keep(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Unpack a parcel and keep it for later agents, if the host can."""

    @RpcMethod
    def cache(self) -> CacheState:
        """Return the state of the host's package cache."""

    @RpcMethod
    def clean(self) -> Cleaned:
        """Remove what agents have left on the host and may be removed; return what it was."""

    # --- reboot

    @RpcMethod
    def boot_id(self) -> str:
        """Return what the kernel calls the time since the host was started."""

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
        """Return why nothing may be measured on the host; empty where all is well."""

    @RpcMethod
    def without_rollback(self) -> None:
        """Tell the agent that its host is thrown away, so that no change has to be undone."""

    @RpcMethod
    def watch(self, device: str) -> None:
        """Count the bare IPv6 packets of a device in each run from now on."""

    @RpcMethod
    def cannot_carry(self, backend: str) -> str:
        """Return why a backend cannot carry a tunnel on the host; empty where it can."""

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
    def rates(self, devices: list[str]) -> dict[str, float]:
        """Return the rate in bit/s that each device is shaped to; 0 where it is not."""

    @RpcMethod
    def restore(self) -> list[str]:
        """Undo all changes of the network; return a sentence for whatever is not as it was."""

    # --- paths

    @RpcMethod
    def route(self, destination: str, source: str = "", arrives: str = "") -> Route:
        """Return the route to an address, from a source, for packets that arrive by a device."""

    @RpcMethod
    def fits(self, resolver: str, port: int, name: str, sizes: tuple[int, int]) -> dict[int, str]:
        """Return which packets of these sizes reach the name server unfragmented."""

    @RpcMethod
    def reverse_pmtu_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer probes of the way back from now on; return the port."""

    @RpcMethod
    def reverse_pmtu_open(self, source: str, address: str, port: int) -> None:
        """Get ready to request packets of several sizes there."""

    @RpcMethod
    def reverse_pmtu_request(self) -> None:
        """Request them."""

    @RpcMethod
    def reverse_pmtu_send(self, packets_bytes: list[int]) -> list[int]:
        """Send packets of these sizes to who has requested them; return the sizes that the host refuses."""

    @RpcMethod
    def reverse_pmtu_received(self, packet_bytes: int) -> list[int]:
        """Return the sizes that have arrived, up to that one."""

    @RpcMethod
    def train_listen(self, address: str, datagrams: int) -> int:
        """Receive packet trains from now on; return the port."""

    @RpcMethod
    def train_send(self, train: PacketTrain) -> None:
        """Send a packet train."""

    @RpcMethod
    def train_rate(self, ident: int, datagrams: int, wire_bytes: int) -> float | None:
        """Return the rate in bit/s of a train that was sent; None where too little of it arrived."""

    # --- servers

    @RpcMethod
    def unusable(self) -> dict[str, str]:
        """Return by server why it cannot run on the host; empty where it can."""

    @RpcMethod
    def provision(self, name: str, protocol: str, payload_bytes: int, state: ServerState) -> str:
        """Write what a server holds to a folder that lasts as long as the agent; return the folder."""

    @RpcMethod
    def serve(self, name: str, request: ServeRequest) -> Served:
        """Start a server."""

    # --- runs

    @RpcMethod
    def start_run(self, request: RunStart) -> RunReady:
        """Get ready for a run, and wait until nothing of the run before is on its way."""

    @RpcMethod
    def finish_run(self, request: RunEnd) -> HostReport:
        """Finish a run; return what was counted on the host since it began."""

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
        """Run bursts at these instants; return of each whether any of it completed, and the seconds that it took."""

    @RpcMethod
    def load_close(self) -> LoadResult:
        """End the run; return its result."""

    @RpcMethod
    def load_abort(self) -> None:
        """Abandon a run, if one is open."""

    @RpcMethod
    def flow_run(self, spec: FlowSpec) -> FlowReport:
        """Run the near end of a flow."""


class _OnTerms(AgentMethods):
    """RPC methods on other terms than those of the agent's client."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
