"""Server programs that can run here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import program


def unusable(names: Collection[str] = SERVERS) -> dict[str, str]:
    """Return by server why it cannot run here; empty if it can."""
    return {name: SERVERS[name].missing() for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts(Facts):
    """Server facts: the reason why each server is `missing`, whether `setpriv` exists, and the paths of `programs`.

    The reason is empty if the server is usable, the path if there is no such program.
    """

    missing: dict[str, str]
    setpriv: bool
    programs: dict[str, str]

    @classmethod
    def collect(cls, request: FactsRequest) -> ServerFacts:
        """Look up the servers and the requested programs."""
        wanted = {name: program(name) or "" for name in request.programs}
        return cls(missing=unusable(), setpriv=bool(program("setpriv")), programs=wanted)


facts = ServerFacts
