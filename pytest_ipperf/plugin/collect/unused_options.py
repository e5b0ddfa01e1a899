"""Reject options of the command line that have no effect on anything selected.

Ini values and `addopts` are not checked: they hold for a whole project, of which a session may select a part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, QUERIES, TRANSFERS
from pytest_ipperf.plugin.collect.questions import figures_of
from pytest_ipperf.plugin.options.aliases import active_aliases
from pytest_ipperf.plugin.options.declarations import FACTORS, long_of, owners
from pytest_ipperf.plugin.options.parsers import MEASURED
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS, of_kind, server_protocol
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports import TRANSPORTS

_OF_KINDS = {
    (FLOWS, TRANSFERS, QUERIES): ("--duration",),
    (CONNECTIONS,): ("--client", "--arrivals", "--ipperf-workers"),
    (CONNECTIONS, TRANSFERS, QUERIES): ("--ipperf-server",),
}


def check_unused_options(session: Session) -> None:
    """Raise UsageError for an option that has no effect on anything selected, before anything is measured.

    Nothing is checked in the second session of a night or under `--lf` and `--sw`, which repeat a command on a part of
    its items.
    """
    config, plans = session.config, session.plans
    repeated = session.settings.only is not None or any(
        config.getoption(name, default=False) for name in ("lf", "stepwise")
    )
    if not plans or repeated:
        return
    # Cells left out count too: they have a message of their own, and the option would have applied to them.
    workloads = {*plans, *(cell.workload for cell in session.left_out)}
    arms = {arm for plan in plans.values() for arm in plan.arms} | {cell.arm for cell in session.left_out}
    for option, why in _without_effect(session, workloads, arms):
        if _typed(session, option):
            raise UsageError(f"{option}: {why}")


def _without_effect(
    session: Session, workloads: Collection[Workload], arms: Collection[Arm]
) -> Iterator[tuple[str, str]]:
    protocols = {workload.protocol for workload in workloads}
    for name, factor in FACTORS.items():
        if not (having := {*owners(factor)}) & protocols:
            yield f"--{name}", _reason("protocol", protocols, having)
    for kinds, options in _OF_KINDS.items():
        having = {name for kind in kinds for name in of_kind(kind)}
        if not having & protocols:
            for option in options:
                yield option, _reason("protocol", protocols, having)
    for limit in session.settings.limits:
        having = {name for name in PROTOCOLS if limit.figure in figures_of(name)}
        if not having & protocols:
            yield "--ipperf-limit", f"{limit.figure}: {_reason('protocol', protocols, having)}"
    served = {SERVERS[name].protocol for name in session.settings.server.split(",") if name in MEASURED}
    served |= {name for name in PROTOCOLS if served & {server_protocol(name)}}
    if served and not served & protocols:
        yield "--ipperf-server", _reason("protocol", protocols, served)
    if all(arm.transport == "native" for arm in arms):
        tunnelled = {str(Arm(6, name)) for name in TRANSPORTS if name != "native"}
        yield "--ipperf-backend", _reason("arm", set(map(str, arms)), tunnelled)


def _reason(kind: str, selected: Collection[str], having: Collection[str]) -> str:
    return (
        f"it has no effect on any selected {kind}; selected: {', '.join(sorted(selected))}; "
        f"it applies to: {', '.join(sorted(having))}"
    )


def _typed(session: Session, option: str) -> bool:
    """Return whether an option is given in the command itself, by either name."""
    asked = {long_of(option)} | ({option} & active_aliases(session.config))
    return any(argument.partition("=")[0] in asked for argument in session.command)
