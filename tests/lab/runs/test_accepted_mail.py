"""Messages are counted at the server for protocols that hand them over, and for no other workload."""

from __future__ import annotations

import pytest

from pytest_ipperf.lab.runs.accepted_mail import check_keeps, hands_over
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_mail_is_counted_at_its_server(protocol):
    # A flow has no server but the agents, which are in no registry.
    name = next((name for name, server in SERVERS.items() if server.protocol == protocol), "agent")
    service = ServerEndpoint(name, "1", embedded=True, port=0, resolver_port=0)
    assert hands_over(protocol, service) == (protocol == "smtp")
    check_keeps(protocol, service)
