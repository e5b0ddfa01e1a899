"""Find the arms that cannot be measured in an epoch, before anything is served or verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.epoch.live_testbed import LiveTestbed


def obstacles(
    live: LiveTestbed, arms: Callable[[], Iterable[Arm]], workload_of: Callable[[Arm], Workload]
) -> Iterator[tuple[Arm, LabError]]:
    """Yield the arms without a tunnel, without an address of a client, or whose offloads a device cannot have.

    `arms` is called anew for each of the three, as the caller may exclude an arm in between. Raise AgentError if an
    agent is gone.
    """
    for arm in arms():
        error = live.tunnels.trouble.get(arm.transport)
        if error is not None:
            yield arm, error
    for arm in arms():
        if missing := live.lacking(arm):
            yield arm, LabError(missing)
    for arm in arms():
        try:
            live.offloads.switch(workload_of(arm))
        except AgentError:
            raise
        except LabError as error:
            yield arm, error
