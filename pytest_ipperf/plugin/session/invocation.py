"""Facts shared by all processes of a pytest session, before it is known whether any of them measures."""

from __future__ import annotations

import secrets
import time
from typing import Any, NamedTuple

import pytest

_INVOCATION: pytest.StashKey[Invocation] = pytest.StashKey()


class Invocation(NamedTuple):
    """Facts of an invocation of pytest, the same in the controller of xdist and in its workers.

    `seed` is used unless `--ipperf-seed` is given. `at_s` (since the epoch) and `token` name the folder of the records,
    `resume` names the session to resume, empty if there is none.
    """

    seed: int
    at_s: float
    token: str
    command: list[str]
    resume: str = ""


def from_controller(config: pytest.Config) -> Invocation | None:
    """Return the invocation that the controller of xdist passed to this worker; None in every other process."""
    fields: list[Any] | None = getattr(config, "workerinput", {}).get("ipperf")
    return Invocation(*fields) if fields else None


def invocation(config: pytest.Config) -> Invocation:
    """Return the invocation of this process; in a worker of xdist that of its controller."""
    if _INVOCATION not in config.stash:
        command = ["pytest", *map(str, config.invocation_params.args)]
        local = Invocation(secrets.randbelow(2**31), time.time(), secrets.token_hex(3), command)
        config.stash[_INVOCATION] = from_controller(config) or local
    return config.stash[_INVOCATION]
