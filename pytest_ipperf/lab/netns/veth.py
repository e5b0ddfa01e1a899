"""Create the veth pairs between a lab's nodes, with addresses, routes, rate limits and loss.

The topology is client - router - server, or client - server; further clients have links of their own to the router. A
rate is exact to less than 1 % only because of three things, without each of which figures were wrong: the shaper counts
Ethernet's overhead of a frame (`stab`), devices merge no packets, and TCP builds none larger than the MTU. The last two
are the RPC method `unmerged`; they also make a loss one of packets, and a delay one of all packets alike. The loss
filter sits before the shaper, where packets that a program at the port has encapsulated pass, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_interface

from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
from pytest_ipperf.lab.inventory.builtin import FAR, FAR6, NEAR, NEAR6
from pytest_ipperf.lab.inventory.model import Links, Testbed
from pytest_ipperf.lab.netns import delay_line
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

Run = Callable[[str, Sequence[str], str], None]
"""Function that runs a command in the node of a role, with a text as its input."""

# No waiting at the start (duplicate address detection, router solicitation), and room for bursts of thousands.
_SYSCTLS = {
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/dad_transmits": "0",
    "net/ipv6/conf/default/router_solicitations": "0",
    "net/ipv4/ip_local_port_range": "30000 65535",
    "net/ipv4/tcp_tw_reuse": "1",
    "net/ipv4/tcp_max_syn_backlog": "65535",
    "net/core/somaxconn": "65535",
    # Fragments of incomplete datagrams must be gone when the next run begins.
    "net/ipv4/ipfrag_time": "1",
    "net/ipv4/ipfrag_high_thresh": "134217728",
    "net/ipv6/ip6frag_time": "1",
    "net/ipv6/ip6frag_high_thresh": "134217728",
}
_FORWARDING = {"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"}
# Preamble 8, frame check sequence 4, gap 12: overhead of a frame on Ethernet that the kernel does not count.
_UNCOUNTED_BYTES = 24
# Default queue length of a Linux interface, in full packets. If it overflows at the sending host, TCP learns of it at
# once on a native path and never through a tunnel, as with a real one; the tables show the retransmissions.
QUEUE_BYTES = 1000 * 1514
# Classic BPF (linux/filter.h) that drops random packets: code, jumps if true and if false, operand.
# Neighbour discovery is spared (ARP; ICMPv6 133 to 137, RFC 4861), as each such loss causes a second of silence.
# TC_ACT_SHOT would be reported to the sender, whose TCP would then send the packet later instead of losing it.
_LOSE = (
    (32, 0, 0, 0xFFFFF000),  # ld proto
    (21, 9, 0, 0x0806),  # jeq ARP, keep
    (21, 0, 5, 0x86DD),  # jeq IPv6, else chance
    (48, 0, 0, 0xFFF00006),  # ldb [next header]
    (21, 0, 3, 58),  # jeq ICMPv6, else chance
    (48, 0, 0, 0xFFF00028),  # ldb [type]
    (53, 0, 1, 133),  # jge, else chance
    (37, 0, 3, 137),  # jgt, else keep
    (32, 0, 0, 0xFFFFF038),  # chance: ld rand
    (53, 1, 0, None),  # jge, keep
    (6, 0, 0, 4),  # ret TC_ACT_STOLEN
    (6, 0, 0, 0xFFFFFFFF),  # keep: ret TC_ACT_UNSPEC
)
_DELAYING = ("unshare", "--net", sys.executable, "-I", "-S", delay_line.__file__)


@dataclass(frozen=True, slots=True)
class Interface:
    """A device of a node, its addresses with their prefix length, and the routes through it."""

    role: str
    device: str
    addresses: tuple[str, ...]
    routes: tuple[tuple[str, str], ...] = ()


def veth_pairs(testbed: Testbed) -> list[tuple[Interface, Interface]]:
    """Return the veth pairs, each as two interfaces."""
    client = (f"{testbed.client.ipv4}/24", f"{testbed.client.ipv6}/64")
    server = (f"{testbed.server.ipv4}/24", f"{testbed.server.ipv6}/64")
    if testbed.router is None:
        return [(Interface(CLIENT, "eth0", client), Interface(SERVER, "eth0", server))]
    near, far = (f"{NEAR}.2", f"{NEAR6}::2"), (f"{FAR}.2", f"{FAR6}::2")
    there = ((f"{FAR}.0/24", near[0]), (f"{FAR6}::/64", near[1]))
    more = [_further_client_pair(testbed, role, device) for device, role in enumerate(testbed.clients[1:], start=2)]
    clients = [client, *(one.addresses for one, _ in more)]
    back = tuple(
        (str(ip_interface(each).network), hop) for mine in clients for each, hop in zip(mine, far, strict=True)
    )
    return [
        (Interface(CLIENT, "eth0", client, there), Interface(ROUTER, "eth0", (f"{near[0]}/24", f"{near[1]}/64"))),
        (Interface(SERVER, "eth0", server, back), Interface(ROUTER, "eth1", (f"{far[0]}/24", f"{far[1]}/64"))),
        *more,
    ]


def _further_client_pair(testbed: Testbed, role: str, device: int) -> tuple[Interface, Interface]:
    """Return the veth pair of a further client, in the networks of its addresses."""
    host = testbed.roles[role]
    addresses = ip_interface(f"{host.ipv4}/24"), ip_interface(f"{host.ipv6}/64")
    hops = [each.network[2] for each in addresses]
    routes = (f"{FAR}.0/24", str(hops[0])), (f"{FAR6}::/64", str(hops[1]))
    theirs = tuple(f"{hop}/{each.network.prefixlen}" for hop, each in zip(hops, addresses, strict=True))
    return Interface(role, "eth0", tuple(map(str, addresses)), routes), Interface(ROUTER, f"eth{device}", theirs)


def has_rate(port: Interface, links: Links) -> bool:
    """Return whether a port has the rate of links that have one."""
    return port.role == ROUTER or not links.at_router


def devices(testbed: Testbed) -> dict[str, list[str]]:
    """Return the devices of each role."""
    interfaces = [port for pair in veth_pairs(testbed) for port in pair]
    return {role: [port.device for port in interfaces if port.role == role] for role in testbed.roles}


def settings(role: str) -> str:
    """Return shell commands that a node of this role executes before it has devices."""
    sysctls = {**_SYSCTLS, **(_FORWARDING if role == ROUTER else {})}
    return "".join(f"echo {value} > /proc/sys/{name}\n" for name, value in sysctls.items())


def create_veths(testbed: Testbed, inside: Mapping[str, int], run: Run) -> None:
    """Create the links between the nodes; `inside` holds their process ids by role, as seen from inside.

    All pairs are made by one command, then all nodes are set up side by side.
    """
    pairs = veth_pairs(testbed)
    lines = []
    for one, other in pairs:
        if testbed.links.delay_s and SERVER in {one.role, other.role}:
            ends = [text for port in (one, other) for text in (str(inside[port.role]), port.device)]
            run(one.role, [*_DELAYING, str(testbed.links.delay_s), *ends], "")
        else:
            # Older kernels want the first name to be free where the command runs, at the client: the router's are.
            first, second = (f"name {port.device} netns {inside[port.role]}" for port in (other, one))
            lines.append(f"link add {first} type veth peer {second}\n")
    if lines:
        run(CLIENT, ["ip", "-batch", "-"], "".join(lines))
    with ThreadPoolExecutor(len(testbed.roles)) as pool:
        ports = {role: [port for pair in pairs for port in pair if port.role == role] for role in testbed.roles}
        scripts = {role: _script(each, testbed.links) for role, each in ports.items()}
        for each in [pool.submit(run, role, ["sh", "-e"], text) for role, text in scripts.items()]:
            each.result()


def _script(ports: Sequence[Interface], links: Links) -> str:
    """Return the shell script that sets up the ports of a node."""
    addressing = ["link set lo up", *(line for port in ports for line in _lines(port))]
    shaping = [line for port in ports for line in _shaping(port, links)]
    return "".join(
        "\n".join((f"{program} -batch - <<END", *lines, "END", ""))
        for program, lines in (("ip", addressing), ("tc", shaping))
        if lines
    )


def _lines(port: Interface) -> Iterator[str]:
    yield f"link set {port.device} up"
    for address in port.addresses:
        yield f"addr add {address} dev {port.device}{' nodad' if ':' in address else ''}"
    for prefix, hop in port.routes:
        yield f"route add {prefix} via {hop} dev {port.device}"


def _shaping(port: Interface, links: Links) -> Iterator[str]:
    if links.rate_bit_s and has_rate(port, links):
        yield (
            f"qdisc add dev {port.device} root handle 1: stab overhead {_UNCOUNTED_BYTES} linklayer ethernet "
            f"tbf rate {links.rate_bit_s:.0f}bit burst {bucket_bytes(links.rate_bit_s)} limit {QUEUE_BYTES}"
        )
    if links.loss and port.role != ROUTER:
        share = int(links.loss * 2**32)
        steps = ",".join(f"{code} {yes} {no} {share if given is None else given}" for code, yes, no, given in _LOSE)
        yield f"qdisc add dev {port.device} clsact"
        yield f'filter add dev {port.device} egress bpf da bytecode "{len(_LOSE)},{steps}"'
