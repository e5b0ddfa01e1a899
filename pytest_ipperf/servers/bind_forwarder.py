"""BIND 9 as a caching forwarder: texts come from its cache, or else from an authoritative view of the same process.

A name that is asked for the first time is not in the cache, so the answer has to be fetched from the other view, over
the host's loopback device; from then on the cache has it (RFC 2308 calls such a server a resolver). The servers' own
names are as those of `bind`.
"""

from __future__ import annotations

from pytest_ipperf.core.portable.dns.zone import DOMAIN
from pytest_ipperf.servers.base import Site
from pytest_ipperf.servers.bind import Bind, configuration, texts, view, zone_text

# Address of every host's loopback device, at which the other view answers those who ask from an address of no client.
_UPSTREAM, _ASKING = "127.0.0.1", "127.53.53.53"
_TTL_S = 3600
_SPARE = 1000
_AUTHORITATIVE = f"""\
$TTL {_TTL_S}
{DOMAIN}. IN SOA ns.{DOMAIN}. hostmaster.{DOMAIN}. 1 3600 600 86400 0
{DOMAIN}. IN NS ns.{DOMAIN}.
ns.{DOMAIN}. IN A {_UPSTREAM}
"""
_DELEGATION = f"{DOMAIN}. IN NS ns.{DOMAIN}.\nns.{DOMAIN}. IN A {_UPSTREAM}\n"
_RECURSION = "no;\n  recursive-clients {clients};\n  query-source address {asking}"


class BindForwarder(Bind):
    """BIND that forwards what is not in its cache."""

    name = "bind_forwarder"
    cached_ttl_s = _TTL_S
    probe = (Bind.probe[0], b"IP\x84\x80")  # recursion is available

    def zones(self, site: Site) -> dict[str, str]:
        """Return the zones of all addresses with a delegation, and that of the delegated domain."""
        delegating = {each: zone_text(site, each) + _DELEGATION for each in site.addresses}
        return {**delegating, "upstream": _AUTHORITATIVE + texts(site)}

    def configuration(self, site: Site, version: str) -> str:
        """Return the text of `named.conf`: the authoritative view, and a forwarding one for each address."""
        forward = (
            f' recursion yes; allow-recursion {{ any; }}; zone "{DOMAIN}" {{ type forward; forward only; '
            f"forwarders port {site.port} {{ {_UPSTREAM}; }}; }};"
        )
        upstream = (
            f'view "upstream" {{ match-clients {{ {_ASKING}; }}; '
            f'zone "{DOMAIN}" {{ type primary; file "{site.folder}/zones/upstream"; }}; }};'
        )
        views = "\n".join((upstream, *(view(site, each, forward) for each in site.addresses)))
        recursion = _RECURSION.format(clients=site.connections + _SPARE, asking=_ASKING)
        listen_on = dict.fromkeys((*site.addresses, _UPSTREAM))
        return configuration(site, version, tuple(listen_on), views, recursion)


server = BindForwarder()
