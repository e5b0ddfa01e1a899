"""Which server programs can run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import program


def facts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """By server why it is `missing`, empty where it is not; whether there is `setpriv`; where `programs` are."""
    missing = {name: SERVERS[name].missing() for name in SERVERS}
    wanted = {name: program(name) or "" for name in asked["programs"]}
    return {"missing": missing, "setpriv": bool(program("setpriv")), "programs": wanted}
