"""Compare the messages of a run with those stored on the server's host."""

from __future__ import annotations

import dataclasses
from array import array

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.servers.accepted_mail import Acceptance
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import CONTENT, PHASES
from pytest_ipperf.servers import SERVERS


def hands_over(protocol: str, service: ServerEndpoint) -> bool:
    """Return whether the messages of a run are counted and compared; a null server only sends canned replies."""
    return PROTOCOLS[protocol].hands_over and SERVERS[service.name].protocol == protocol


def check_keeps(protocol: str, service: ServerEndpoint) -> None:
    """Raise LabError if a server does not keep the messages that would have to be compared."""
    if hands_over(protocol, service) and not SERVERS[service.name].keeps:
        raise LabError(
            f"server {service.name} does not show the messages that it accepts, so nobody can tell whether it has "
            "them; its recipe needs `keeps = True` and `kept`"
        )


def corrected(result: LoadResult, acceptance: Acceptance) -> LoadResult:
    """Return the result of a run without the connections whose messages the server does not have as they were sent.

    A connection whose message is missing, repeated or different counts as a failure `content` and has no row.
    """
    failed = set(array("Q", acceptance.failed))
    if not failed:
        return result
    rows, indices = array("d", result.rows), array("Q", result.indices)
    wide = len(PHASES)
    left = array("d")
    for at, index in enumerate(indices):
        if index not in failed:
            left += rows[at * wide : (at + 1) * wide]
    kinds = dict(result.failed)
    kinds[CONTENT] = kinds.get(CONTENT, 0) + len(failed)
    moved_bytes = result.content_bytes * len(left) // len(rows)  # all messages have the same size
    return dataclasses.replace(result, rows=left.tobytes(), failed=kinds, content_bytes=moved_bytes)


def acceptance_counts(acceptance: Acceptance) -> dict[str, int]:
    """Return the counts of the comparison for the records."""
    return {
        "kept": acceptance.kept,
        "repeated": acceptance.repeated,
        "compared": acceptance.compared,
        "wrong": acceptance.wrong,
    }
