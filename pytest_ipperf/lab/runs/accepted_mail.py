"""Compare the messages of a run with what the server's host has of them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail, QueuedMail
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import CONTENT, PHASES
from pytest_ipperf.servers import SERVERS

# Patience with a slow disk: at least, and for each message's file.
_CHECK_S = 60.0
_FILE_S = 0.02


def hands_over(protocol: str, service: ServerEndpoint) -> bool:
    """Whether the messages of a run are counted and compared; not where a null server answers with canned replies."""
    return PROTOCOLS[protocol].hands_over and SERVERS[service.name].protocol == protocol


def check_keeps(protocol: str, service: ServerEndpoint) -> None:
    """LabError where a server does not keep what would have to be looked at."""
    if hands_over(protocol, service) and not SERVERS[service.name].keeps:
        raise LabError(
            f"server {service.name} does not show the messages that it accepts, so nobody can tell whether it has "
            "them; its recipe needs `keeps = True` and `kept`"
        )


def reserve_space(server: AgentClient, service: ServerEndpoint, messages: int) -> None:
    """Prepare the server for a run of so many messages; LabError where its host has no room for them."""
    patience_s = _CHECK_S + _FILE_S * messages
    server.within(patience_s).reserve_space(ExpectedMail(service.name, messages))


def accepted(
    server: AgentClient, service: ServerEndpoint, protocol: str, report: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return what the clients of a run tell, corrected by what the server has, and sentences about a difference.

    A connection whose message is not there, is there twice or is another one has failed by its `content`, and has no
    row. What was counted is `accepted` then.
    """
    handed = QueuedMail(service.name, protocol, report["indices"])
    patience_s = _CHECK_S + _FILE_S * report["attempted"]
    found = server.within(patience_s).check_accepted(handed)
    failed = set(array("Q", found.failed))
    counts = {"kept": found.kept, "repeated": found.repeated, "compared": found.compared, "wrong": found.wrong}
    if not failed:
        return {**report, "accepted": counts}, []
    rows, indices = array("d", report["rows"]), array("Q", report["indices"])
    wide = len(PHASES)
    left = array("d")
    for at, index in enumerate(indices):
        if index not in failed:
            left += rows[at * wide : (at + 1) * wide]
    kinds = dict(report["failed"])
    kinds[CONTENT] = kinds.get(CONTENT, 0) + len(failed)
    sentences = [f"host {server.host.name}: {service}: {sentence}" for sentence in found.sentences]
    moved_bytes = report["content_bytes"] * len(left) // len(rows)  # of equal messages
    corrected = {"rows": left.tobytes(), "failed": kinds, "content_bytes": moved_bytes, "accepted": counts}
    return {**report, **corrected}, sentences
