"""DNS load: queries to a name server for the time of a run, by UDP or TCP (RFC 7766; paper 004, section 4.6).

A client is a UDP socket or a TCP connection, and the payload the text of the TXT record in each answer, so that all
arms ask and are answered the same. The loop is closed, with a number of queries outstanding, or open, with a rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.dns.zone import WILDCARD, text_of
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import FigureRow, Figures, figure_row, trouble
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.scaling import number, time_pair
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.traffic.carrier import CARRIER, TCP, UDP
from pytest_ipperf.core.portable.workload_kind import QUERIES, WorkloadKind
from pytest_ipperf.protocols.base import Flow

_MOST_CLIENTS = 1000
_USUAL_OUTSTANDING, _MOST_OUTSTANDING = 100, 10_000
_MOST_PAYLOAD_BYTES = 60_000
_LEAST_UDP_BYTES, _USUAL_UDP_BYTES, _MOST_UDP_BYTES = 512, 1232, 4096
_PIPELINED, _PER_QUERY = "pipelined", "per_query"
_CLOSED = "closed"
_POISSON, _CONSTANT = "poisson", "constant"
_LONGEST_RUN_S = 300.0
_LEAST_RUN_S = 0.1


def _share(figures: Figures) -> str:
    return f"{100 * figures['client_share']:.0f} %"


def _truncated(figures: Figures) -> str:
    if not figures["truncated"] or not figures["served"]:
        return ""
    return f"{100 * figures['truncated'] / figures['served']:.3g} %"


def _cpu(figures: Figures) -> str:
    if not figures["served"]:
        return ""
    parts = (figures["receiver_cpu_s"], figures["sender_cpu_s"])
    return " / ".join(number(1e6 * cpu_s / figures["served"]) for cpu_s in parts)


_ROWS: tuple[str | FigureRow, ...] = (
    figure_row(
        "sent, of offered",
        "sent_qps offered_qps",
        lambda figures: f"{number(figures['sent_qps'], 4)} of {number(figures['offered_qps'], 4)} query/s",
    ),
    "queries_per_second",
    "query_time",
    "worst_query_time",
    "query_loss",
    "throughput",
    figure_row("asked again by TCP", "truncated served", _truncated),
    figure_row(
        "sent after its instant, median / p99",
        "late_s late_p99_s",
        lambda figures: time_pair(figures["late_s"], figures["late_p99_s"]),
    ),
    trouble("unexpected answers", "unexpected"),
    trouble("refused by a host", "refused"),
    figure_row("client's share of a processor", "client_share", _share),
    figure_row("CPU us a query, client / server", "served receiver_cpu_s sender_cpu_s", _cpu),
)


@dataclass(frozen=True, kw_only=True)
class DnsLoad(Flow):
    """DNS load; a query without an answer within a second is lost (RFC 8219, section 9.2)."""

    kind: ClassVar[WorkloadKind] = QUERIES
    name: str = "dns_load"
    title: str = "DNS load"
    summary: str = "ask a name server for TXT records as fast as it answers, or at a rate, over UDP or TCP"
    source: str = "RFC 1035, RFC 6891, RFC 7766; paper 004, Figs 9 and 10"
    engine: str = "dns_load"
    metrics: tuple[str, ...] = (
        "queries_per_second", "query_time", "worst_query_time", "query_loss", "throughput",
    )  # fmt: skip
    columns: tuple[str, ...] = ("at_s", "response_s")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("64",)
    payload_title: str = "text of an answer"
    samples_title: str = "response times of queries"
    least_packets: tuple[int, int] = (1, 1)
    deadline_s: float = 1.0
    server_protocol: str = "dns"
    server_connections: int = _MOST_OUTSTANDING
    rows: tuple[str | FigureRow, ...] = _ROWS
    about_rows: str = (
        "Asked again by TCP: answers that did not fit a datagram, as a share of all; their response times contain both "
        "attempts. CPU: client's agent and server, for each right answer, warm-up included. In a closed loop 100 "
        "queries wait for answers at once, if no other number is named, and each client asks the next one when one of "
        "its own is over. At a rate they come at random instants (Poisson), if not at even gaps."
    )
    longest_run_s: float = _LONGEST_RUN_S
    factors: tuple[Factor, ...] = (
        CARRIER,
        Factor(
            name="qps",
            title="rate of queries",
            unit="query/s",
            levels=(_CLOSED,),
            help=f"queries a second that dns_load asks, such as 5k, or {_CLOSED}: a closed loop",
            mark="qps",
            words=(_CLOSED,),
            implicit=_CLOSED,
        ),
        Factor(
            name="outstanding",
            title="outstanding queries",
            unit="query",
            levels=(_USUAL_OUTSTANDING,),
            help="queries of all clients that wait for an answer at once, in the closed loop of dns_load",
            mark="q",
            implicit=_USUAL_OUTSTANDING,
            silent=True,
        ),
        Factor(
            name="qnames",
            title="names",
            unit="word",
            levels=("one",),
            help="names that dns_load asks for: one, or unique (another one in each query)",
            words=("one", "unique"),
            implicit="one",
        ),
        Factor(
            name="edns",
            title="EDNS buffer size",
            unit="bytes",
            levels=(_USUAL_UDP_BYTES,),
            help="the largest datagram that dns_load says it receives (RFC 6891), 512 to 4096 bytes, or none: no EDNS",
            mark="edns",
            words=("none",),
            implicit=_USUAL_UDP_BYTES,
        ),
        Factor(
            name="reuse",
            title="use of connections",
            unit="word",
            levels=(_PIPELINED,),
            help=f"how dns_load uses TCP: {_PIPELINED} (on a kept connection), or {_PER_QUERY} (one for each)",
            words=(_PIPELINED, _PER_QUERY),
            implicit=_PIPELINED,
            silent=True,
        ),
        Factor(
            name="spacing",
            title="spacing of queries",
            unit="word",
            levels=(_POISSON,),
            help=f"how dns_load spaces queries at a rate: {_POISSON} (random gaps), or {_CONSTANT} (even ones)",
            words=(_POISSON, _CONSTANT),
            implicit=_POISSON,
            silent=True,
        ),
        OFFLOAD,
    )

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        if connections > _MOST_CLIENTS:
            raise UsageError(f"{connections} clients are more than dns_load supports; take {_MOST_CLIENTS} at most")
        if payload_bytes > _MOST_PAYLOAD_BYTES:
            raise UsageError(
                f"payload {payload_bytes} does not fit a DNS message; dns_load takes {_MOST_PAYLOAD_BYTES} at most"
            )
        _check_loop(connections, factors)
        _check_carrier(factors)

    def served_state(self, state: ServerState, payload_bytes: int) -> ServerState:
        return replace(state, texts={**state.texts, WILDCARD: text_of(payload_bytes)})

    def caution(self, run_s: float) -> str:
        if run_s >= _LEAST_RUN_S:
            return ""
        return f"Runs below {_LEAST_RUN_S:g} s hold few queries, of which those at the ends are a large part."


def _outstanding(factors: Mapping[str, Value]) -> int:
    return int(factors.get("outstanding", _USUAL_OUTSTANDING))


def _check_loop(connections: int, factors: Mapping[str, Value]) -> None:
    """Raise UsageError if these levels describe no loop."""
    outstanding, closed = _outstanding(factors), factors["qps"] == _CLOSED
    if not closed and outstanding != _USUAL_OUTSTANDING:
        raise UsageError(
            f"outstanding {outstanding} has no effect at a rate of queries, which does not wait for answers; leave it "
            "out with qps"
        )
    if closed and factors.get("spacing", _POISSON) != _POISSON:
        raise UsageError(f"spacing {factors['spacing']!r} has no effect in a closed loop; give a rate with qps")
    if closed and not connections <= outstanding <= _MOST_OUTSTANDING:
        raise UsageError(
            f"outstanding {outstanding} is not possible with {connections} client{'s' * (connections != 1)} of "
            f"dns_load, each of which waits for one at least; take {connections} to {_MOST_OUTSTANDING}"
        )


def _check_carrier(factors: Mapping[str, Value]) -> None:
    """Raise UsageError for a level that has no effect with this carrier."""
    udp_bytes = factors["edns"]
    if isinstance(udp_bytes, int) and not _LEAST_UDP_BYTES <= udp_bytes <= _MOST_UDP_BYTES:
        raise UsageError(
            f"edns {udp_bytes} is not a buffer size of dns_load; take {_LEAST_UDP_BYTES} to {_MOST_UDP_BYTES}, or none"
        )
    if factors.get("carrier", UDP) == TCP and udp_bytes not in ("none", _USUAL_UDP_BYTES):
        raise UsageError(f"edns {udp_bytes} limits datagrams and has no effect with carrier tcp; leave it out")
    if factors.get("carrier", UDP) == UDP and factors.get("reuse", _PIPELINED) != _PIPELINED:
        raise UsageError(f"reuse {factors['reuse']!r} is about connections and has no effect with carrier udp")


protocol = DnsLoad()
