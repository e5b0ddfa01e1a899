"""Find the testbeds named on the command line, in the inventory or built in."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory import read_inventory
from pytest_ipperf.lab.inventory.builtin import BUILTIN, testbed_of
from pytest_ipperf.lab.inventory.model import Testbed

HOSTS = "hosts.ini"


def testbed_arguments(parser: argparse.ArgumentParser, testbeds_help: str) -> None:
    """Add `--testbed`, with its help, and `--ipperf-hosts`, which pytest has too."""
    parser.add_argument(
        "--testbed", action="append", default=[], metavar="NAME",
        help=f"{testbeds_help}; comma list, repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--ipperf-hosts", default="", metavar="FILE", help=f"inventory of testbeds and hosts; default {HOSTS}"
    )


def inventory(hosts: str) -> Mapping[str, Testbed] | None:
    """Return the inventory that is named, or the one here; None if there is none.

    Raise UsageError if it cannot be read.
    """
    path = Path(hosts or HOSTS)
    return read_inventory(path) if hosts or path.exists() else None


def testbeds_named(names: Sequence[str], among: Mapping[str, Testbed]) -> list[Testbed]:
    """Return the testbeds of these names, each once; raise UsageError for one that does not exist."""
    unique = dict.fromkeys(part.strip() for name in names for part in name.split(","))
    try:
        return [testbed_of(name, among) for name in unique]
    except UsageError as error:
        raise UsageError(f"--testbed: {error}") from None


def inventory_testbeds(among: Mapping[str, Testbed]) -> list[Testbed]:
    """Return the testbeds that the inventory adds to the built-in ones."""
    return [testbed for name, testbed in among.items() if name not in BUILTIN]


def session_testbeds(hosts: str) -> tuple[list[Testbed], Mapping[str, Testbed]]:
    """Return the testbeds on which pytest would measure here without `--testbed`, and all of its inventory.

    They depend on pytest's ini file and environment, so a pytest process is asked. Raise UsageError with its message
    if it cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="ipperf-testbeds-") as scratch:
        answer = Path(scratch) / "testbeds.json"
        arguments = [f"--ipperf-testbeds={answer}", *([f"--ipperf-hosts={hosts}"] if hosts else [])]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments], capture_output=True, text=True, errors="replace", check=False
        )
        if not answer.exists():
            output = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"it ended with {done.returncode}"]
            sentence = next((line for line in output if line.startswith("ERROR: ")), output[-1]).removeprefix("ERROR: ")
            raise UsageError(sentence)
        found = json.loads(answer.read_bytes())
    among = read_inventory(Path(found["inventory"])) if found["inventory"] else BUILTIN
    return testbeds_named(found["testbeds"], among), among
