"""Server programs that can run here."""

from __future__ import annotations

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import program


def unusable() -> dict[str, str]:
    """Return by server why it cannot run here; empty if it can."""
    return {name: SERVERS[name].missing() for name in SERVERS}


def facts(request: FactsRequest) -> dict[str, object]:
    """Return why each server is `missing` (empty if usable), whether `setpriv` exists, and the paths of `programs`."""
    wanted = {name: program(name) or "" for name in request.programs}
    return {"missing": unusable(), "setpriv": bool(program("setpriv")), "programs": wanted}
