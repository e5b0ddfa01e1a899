"""Which server programs can run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import program


def unusable() -> dict[str, str]:
    """By server: why it cannot run here; empty where it can."""
    return {name: SERVERS[name].missing() for name in SERVERS}


def facts(request: Mapping[str, Any]) -> dict[str, Any]:
    """By server why it is `missing`, empty where it is not; whether there is `setpriv`; where `programs` are."""
    wanted = {name: program(name) or "" for name in request["programs"]}
    return {"missing": unusable(), "setpriv": bool(program("setpriv")), "programs": wanted}
