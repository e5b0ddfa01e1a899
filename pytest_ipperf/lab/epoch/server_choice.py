"""Choose servers: which of those that a host can run serve a protocol, and which one resolves names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cache, partial

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.protocols import application, applications
from pytest_ipperf.servers import SERVERS

_RESOLVER = "nameserver"


@cache
def naming_protocol() -> str:
    """Return the protocol by which names are resolved."""
    return next(name for name in applications() if application(name).resolves)


def choose_server(protocol: str, wanted: str, unusable: Mapping[str, str], host: Host) -> str:
    """Return the name of the server to start; LabError with the reasons if none of the wanted ones can run there.

    `wanted` may name servers of other protocols: a protocol without one among them uses the word (`auto`, `real`,
    `embedded`) in the list, or else `auto`. The `servers` of a host come first; it uses no other real ones.
    """
    serving = sorted((n for n in SERVERS if SERVERS[n].protocol == protocol), key=partial(_rank, host))
    unusable = {**unusable, **{name: why for name in serving if (why := _excluded(host, name))}}
    # Answers from a cache are another measurement, which has to be asked for by name.
    usual = [n for n in serving if not SERVERS[n].cached_ttl_s]
    kinds = {"auto": usual, "real": [n for n in usual if not SERVERS[n].embedded],
             "embedded": [n for n in usual if SERVERS[n].embedded]}  # fmt: skip
    names = wanted.split(",")
    for name in names:
        if name not in kinds and name not in SERVERS:
            raise LabError(f"no server {name!r}; there are: {', '.join((*kinds, *SERVERS))}")
    word = next((name for name in names if name in kinds), "auto")
    candidates = [n for n in serving if n in names] or kinds[word]
    for name in candidates:
        if not unusable[name]:
            return name
    reasons = "; ".join(unusable[name] for name in candidates) or f"there is none of kind {word!r}"
    raise LabError(f"host {host.name}: no server for {protocol}: {reasons}")


def _rank(host: Host, name: str) -> tuple[int, bool, bool]:
    named = host.servers or ()
    return (named.index(name) if name in named else len(named)), SERVERS[name].embedded, SERVERS[name].reserve


def _excluded(host: Host, name: str) -> str:
    if host.servers is None or name in host.servers or SERVERS[name].embedded:
        return ""
    return f"{name} is not among the servers of this host in hosts.ini"


def choose_resolver(wanted: str, unusable: Mapping[str, str], host: Host) -> str:
    """Return the name server that answers the look-ups of other protocols: the embedded one, unless another is wanted.

    With `real`, the real one is used if it can run, as it is not what is measured; a named one must run.
    """
    if any(SERVERS[each].protocol == naming_protocol() for each in wanted.split(",") if each in SERVERS):
        return choose_server(naming_protocol(), wanted, unusable, host)
    if "real" in wanted.split(","):
        with contextlib.suppress(LabError):
            return choose_server(naming_protocol(), wanted, unusable, host)
    return _RESOLVER
