"""`clean` removes what is kept on hosts, and here, for the next time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_ipperf.cli.orders.base import Order, write_lines
from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.lab.cleaning import Cleaned, clean, clean_here, keeping
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.testbed import Testbed

_HOSTS = "hosts.ini"
_TROUBLE = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--testbed", nargs="+", default=[], metavar="NAME", help="on the hosts of these; default: of all in hosts.ini"
    )
    parser.add_argument(
        "--ipperf-hosts", default="", metavar="FILE", help=f"the inventory of testbeds and hosts; default {_HOSTS}"
    )
    parser.add_argument(
        "--here", action="store_true", help="on this machine, and on hosts only where --testbed names some"
    )


def _run(asked: argparse.Namespace) -> int:
    """0, or 1 where something could not be cleaned."""
    hosts = [] if asked.here and not asked.testbed else keeping(_testbeds(asked))
    cleaned = [*([clean_here()] if asked.here else []), *clean(hosts)]
    write_lines(_lines(cleaned))
    for each in cleaned:
        if each.trouble:
            print(f"pytest-ipperf: {each.trouble}", file=sys.stderr)  # noqa: T201 - beside the answer
    return _TROUBLE if any(each.trouble for each in cleaned) else 0


def _testbeds(asked: argparse.Namespace) -> Iterator[Testbed]:
    path = Path(asked.ipperf_hosts or _HOSTS)
    if not asked.ipperf_hosts and not path.exists():
        raise UsageError(f"there is no {_HOSTS} here; name an inventory with --ipperf-hosts, or --here this machine")
    inventory = read_inventory(path)
    for name in asked.testbed or inventory:
        for each in name.split(","):
            if each not in inventory:
                raise UsageError(f"testbed {each!r} does not exist; there are {', '.join(inventory)}")
            yield inventory[each]


def _lines(cleaned: list[Cleaned]) -> Iterator[str]:
    for each in cleaned:
        if not each.trouble:
            yield f"{each.name}: {f'removed {each.removed}' if each.removed else 'nothing to remove'}"
    if not cleaned:
        yield "no host of these keeps anything: they are all this machine, which --here cleans"


order = Order(
    help="remove what hosts keep of us: code, packages, folders of agents that were killed",
    description=(
        "Removes what is kept for the next time on hosts, which is code and packages, and what agents left there that "
        "were killed. With --here the same on this machine, and the wheels that were fetched for hosts."
    ),
    arguments=_arguments,
    run=_run,
)
