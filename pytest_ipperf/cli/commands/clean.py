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
    testbed_arguments(parser, f"on the hosts of these; default: of all in {HOSTS}")
    parser.add_argument(
        "--here", action="store_true", help="on this machine, and on hosts only where --testbed names some"
    )


def _run(args: argparse.Namespace) -> int:
    """0, or 1 where something could not be cleaned."""
    hosts = [] if args.here and not args.testbed else caching_hosts(_testbeds(args))
    cleaned = [*([purge_here()] if args.here else []), *purge(hosts)]
    write_lines(_lines(cleaned))
    for each in cleaned:
        if each.trouble:
            print(f"pytest-ipperf: {each.trouble}", file=sys.stderr)  # noqa: T201 - beside the answer
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
                yield f"  it is held by {each.holder}, which measures on; what it needs anew it sends anew"
    if not cleaned:
        yield "no host of these keeps anything: they are all this machine, which --here cleans"


command = Command(
    help="remove the caches of hosts: code, packages, directories of agents that were killed",
    description=(
        "Removes what is kept for the next time on hosts, which is code and packages, and what agents left there that "
        "were killed. With --here the same on this machine, and the wheels that were fetched for hosts."
    ),
    arguments=_arguments,
    run=_run,
)
