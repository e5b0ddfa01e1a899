"""Interface of a command's file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand: `arguments` declares its arguments, `run` executes it and returns the exit status.

    With `forwards_unknown`, unknown arguments are passed in `rest`, for pytest.
    """

    help: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    epilog: str = ""
    forwards_unknown: bool = False
