"""The fixtures of a measurement: `measured`, `margin`, `server_state` and `factors`; the other factors are parameters.

They are registered in every session, and import what they need when they are set up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ipperf.plugin.session.stash import session_of

if TYPE_CHECKING:
    from pytest_ipperf.core.design.margin import Margin
    from pytest_ipperf.core.portable.factor import Level
    from pytest_ipperf.core.portable.server_state import ServerState
    from pytest_ipperf.plugin.measure.measured import Measured


@pytest.fixture(scope="session")
def factors() -> tuple[Level, ...]:
    """Levels of a protocol's own factors, such as a window, beside connections and payload; empty by default."""
    return ()


@pytest.fixture(scope="session")
def compared_with() -> str:
    """Reference level of the factor that marker `compare` names, such as `offload_on`; empty without that marker."""
    return ""


@pytest.fixture
def compared_level() -> str:
    """Level of the factor that marker `compare` names, such as `offload_off`; empty without that marker."""
    return ""


@pytest.fixture
def margin(request: pytest.FixtureRequest, protocol: str) -> Margin:
    """Acceptable change from the reference: `--margin`, else the marker's, else the metric's default."""
    from pytest_ipperf.plugin.collect.questions import question_of  # noqa: PLC0415 - see above

    return question_of(request.node, protocol).margin


@pytest.fixture
def server_state(request: pytest.FixtureRequest, protocol: str) -> ServerState:
    """Content of the server under test; override it for accounts, messages, pages or content of your own.

    The default is a page, file or message of the payload's size and, for a protocol with accounts, 500 accounts or as
    many as the largest number of connections, each with a mailbox that holds one message.
    """
    from pytest_ipperf.core.portable.server_state import ServerState  # noqa: PLC0415 - see above

    session = session_of(request.config)
    users = session.users_of(protocol)
    return ServerState(users=users, password=session.password if users else "")


@pytest.fixture
def measured(  # noqa: PLR0917 - pytest passes fixtures by name
    request: pytest.FixtureRequest,
    margin: Margin | str,
    server_state: ServerState,
    testbed: str,
    protocol: str,
    connections: int,
    payload: int,
    factors: tuple[Level, ...],
    ipver: int,
    transport: str,
    twin: bool,  # noqa: FBT001 - a parameter of the item, as the others are
    compared_with: str,
    compared_level: str,
) -> Measured:
    """Measurement of this cell against the reference; the first item of a workload measures all of its arms.

    A problem of the testbed is an error in set-up, not a failure of the test.
    """
    from pytest_ipperf.plugin.collect.collection import cell_from  # noqa: PLC0415 - see above
    from pytest_ipperf.plugin.measure.measured import measured_cell  # noqa: PLC0415 - with execnet and scipy

    session = session_of(request.config)
    cell = cell_from(
        session,
        testbed=testbed,
        protocol=protocol,
        connections=connections,
        payload=payload,
        ipver=ipver,
        transport=transport,
        twin=twin,
        factors=factors,
        compared_with=compared_with,
        compared_level=compared_level,
    )
    return measured_cell(request.node, session, cell, margin, server_state)
