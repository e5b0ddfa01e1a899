"""Local: a process of this machine, in its own network."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pytest_ipperf.lab.access.base import AccessMethod, quoted

# -P keeps the current directory off the path, where a user's http.py would shadow the standard library's.
PYTHON = (sys.executable, "-P")


class Local(AccessMethod):
    """The interpreter that runs pytest, whose packages the embedded servers need."""

    def spec(self, settings: Mapping[str, str], entry: Sequence[str]) -> Mapping[str, str | bool]:
        del settings
        return {"popen": True, "python": quoted([*entry, *PYTHON])}

    def command(self, settings: Mapping[str, str], entry: Sequence[str]) -> list[str]:
        del settings
        return [*entry, *PYTHON, "-c", "pass"]


access_method = Local()
