"""Import pip with its command `download`, once in the process from which it is forked: a call takes less time."""

import gc

from pip._internal.cli.main import main as _  # noqa: F401
from pip._internal.commands import create_command

create_command("download")
gc.collect()
gc.freeze()
