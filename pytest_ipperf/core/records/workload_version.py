"""Version of a workload: what two sessions must share to have measured the same thing.

A change of the version begins a new history; a change of the fingerprint is only reported beside the history.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.traffic.model import TrafficModel

_DIGITS = 6
# Facts that change from session to session, such as names of the lab's devices.
_PASSING = ("device",)


def workload_version(
    *,
    protocol: int,
    server: str,
    reference: Arm,
    size: str,
    deadline_s: float,
    state: str,
    models: str = "",
    judged: int = 1,
    links: int = 1,
) -> str:
    """Return the version of a workload as text, such as `1-apache-ipv4-300x-10s-1f0c5d-judged2`.

    `protocol` is the version of its definition, `server` the program's name (empty for flows), `size` the length of a
    run, `state` the digest of the server state, `models` that of its traffic models (empty if its traffic is not
    modelled), `judged` the version of the values by which its metric judges runs, and `links` that of a lab's links
    with a rate, both left out if they are 1. It repeats nothing of the cell's text.
    """
    shaped = f"model{models[:_DIGITS]}" if models else ""
    values = f"judged{judged}" if judged > 1 else ""
    paced = f"links{links}" if links > 1 else ""
    parts = (str(protocol), server, str(reference), size, f"{deadline_s:g}s", state[:_DIGITS], shaped, values, paced)
    return "-".join(filter(None, parts))


def models_digest(models: Iterable[TrafficModel]) -> str:
    """Return the digest of the content of traffic models; empty without any.

    It covers whatever changes packets, their instants or the rating of calls, and not a model's name, title and source.
    """
    contents = [_content(dataclasses.replace(model, name="", title="", source="")) for model in models]
    if not contents:
        return ""
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[: 2 * _DIGITS]


def _content(value: Any) -> Any:
    """Return a part of a traffic model as data for JSON.

    Fields with their defaults are left out: a later release that adds one begins no new histories.
    """
    if dataclasses.is_dataclass(value):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: _content(each) for field, each in fields if each != field.default}
    if isinstance(value, Mapping):
        return {name: _content(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_content(each) for each in value]
    return float(value) if isinstance(value, int) else value  # 20 and 20.0 are one number


def fingerprint_digest(hosts: Mapping[str, Mapping[str, Any]], server: str) -> str:
    """Return the digest of the hosts' fingerprints, by role, and of the server with its version."""
    kept = {role: {fact: facts[fact] for fact in facts if fact not in _PASSING} for role, facts in hosts.items()}
    content = json.dumps([kept, server], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[: 2 * _DIGITS]
