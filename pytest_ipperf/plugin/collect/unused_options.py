"""Reject options of the command line that have no effect on anything selected.

Ini values and what `addopts` adds hold for a whole project, of which a session may select a part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.plugin.options.aliases import active_aliases
from pytest_ipperf.plugin.options.declarations import FACTORS, long_of
from pytest_ipperf.plugin.options.parsers import MEASURED
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS, flow
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports import TRANSPORTS

_OF_APPLICATIONS = ("--client", "--arrivals", "--ipperf-workers", "--ipperf-server")


def check_unused_options(session: Session) -> None:
    """Raise UsageError for an option that has no effect on anything selected, before anything is measured.

    A second session of a night, `--lf` and `--sw` repeat a command on a part of what it selected.
    """
    config, plans = session.config, session.plans
    repeated = session.settings.only is not None or any(
        config.getoption(name, default=False) for name in ("lf", "stepwise")
    )
    if not plans or repeated:
        return
    # What was asked for and is left out has its own sentence, and would have had a use for the option.
    workloads = {*plans, *(cell.workload for cell in session.left_out)}
    arms = {arm for plan in plans.values() for arm in plan.arms} | {cell.arm for cell in session.left_out}
    for option, why in _without_effect(session, workloads, arms):
        if _typed(session, option):
            raise UsageError(f"{option}: {why}")


def _without_effect(
    session: Session, workloads: Collection[Workload], arms: Collection[Arm]
) -> Iterator[tuple[str, str]]:
    protocols = {workload.protocol for workload in workloads}
    flows = {name for name in PROTOCOLS if flow(name)}
    for name, (owner, _) in FACTORS.items():
        if owner not in protocols:
            yield f"--{name}", _nobody("protocol", protocols, {owner})
    if not flows & protocols:
        yield "--duration", _nobody("protocol", protocols, flows)
    if protocols <= flows:
        for option in _OF_APPLICATIONS:
            yield option, _nobody("protocol", protocols, set(PROTOCOLS) - flows)
    served = {SERVERS[name].protocol for name in session.settings.server.split(",") if name in MEASURED}
    if served and not served & protocols:
        yield "--ipperf-server", _nobody("protocol", protocols, served)
    if all(arm.transport == "native" for arm in arms):
        tunnelled = {str(Arm(6, name)) for name in TRANSPORTS if name != "native"}
        yield "--ipperf-backend", _nobody("arm", set(map(str, arms)), tunnelled)


def _nobody(kind: str, selected: Collection[str], having: Collection[str]) -> str:
    return (
        f"no selected {kind} has a use for it; selected: {', '.join(sorted(selected))}; "
        f"of use for: {', '.join(sorted(having))}"
    )


def _typed(session: Session, option: str) -> bool:
    """Whether an option of ours stands in the command itself, by either name."""
    asked = {long_of(option)} | ({option} & active_aliases(session.config))
    return any(argument.partition("=")[0] in asked for argument in session.command)
