"""Define what the file of a command offers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand: `arguments` declares its arguments, `run` executes it and returns the exit status.

    With `forwards_unknown` the arguments that it does not know are in `rest`, for pytest.
    """

    help: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    epilog: str = ""
    forwards_unknown: bool = False
