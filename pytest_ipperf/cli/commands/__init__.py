"""Registry of commands: one subcommand of the program, one file. Each offers `command`."""

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.core.portable.registry import Registry

COMMANDS: Registry[Command] = Registry(__name__, list(__path__), "command")
