"""The command `clean`: remove the caches of hosts, and of this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import write_lines
from pytest_ipperf.cli.testbeds import HOSTS, inventory, inventory_testbeds, testbed_arguments, testbeds_named
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.deploy.caches import Purged, caching_hosts, purge, purge_here
from pytest_ipperf.lab.inventory.model import Testbed

_TROUBLE = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    testbed_arguments(parser, f"clean the hosts of these testbeds; default: all in {HOSTS}")
    parser.add_argument(
        "--here", action="store_true", help="clean this machine, and hosts only if --testbed names some"
    )


def _run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if something could not be cleaned."""
    hosts = [] if args.here and not args.testbed else caching_hosts(_testbeds(args))
    cleaned = [*([purge_here()] if args.here else []), *purge(hosts)]
    write_lines(_lines(cleaned))
    for each in cleaned:
        if each.trouble:
            print(f"pytest-ipperf: {each.trouble}", file=sys.stderr)  # noqa: T201 - apart from the output
    return _TROUBLE if any(each.trouble for each in cleaned) else 0


def _testbeds(args: argparse.Namespace) -> list[Testbed]:
    among = inventory(args.ipperf_hosts)
    if among is None:
        raise UsageError(f"there is no {HOSTS} here; name an inventory with --ipperf-hosts, or --here this machine")
    return testbeds_named(args.testbed, among) or inventory_testbeds(among)


def _lines(cleaned: list[Purged]) -> Iterator[str]:
    for each in cleaned:
        if not each.trouble:
            yield f"{each.name}: {f'removed {each.removed}' if each.removed else 'nothing to remove'}"
            if each.holder:
                yield f"  it is held by {each.holder}, which goes on measuring and sends again what it needs"
    if not cleaned:
        yield "these hosts have no caches of their own: they are all this machine, which --here cleans"


command = Command(
    help="remove the caches of hosts: code, packages, directories of agents that were killed",
    description=(
        "Removes the code and packages kept on hosts for the next session, and the directories of agents that were "
        "killed. With --here it does so on this machine, and removes the wheels that were fetched for hosts."
    ),
    arguments=_arguments,
    run=_run,
)
