"""Sessions that stop after so many runs, so that a test strikes them there however late it looks."""

from __future__ import annotations

import os
from pathlib import Path

_RUNS = "IPPERF_TESTS_STOP_AFTER"
_PLUGIN = f"""
import os
import signal

from pytest_ipperf.store import EventLog

append, number = EventLog.append, int(os.environ[{_RUNS!r}])
has_stopped = []


def append_and_stop(self, event, facts):
    append(self, event, facts)
    log = self.folder / f"{{self._writer}}.jsonl"
    if event == "run" and not has_stopped and log.read_text().count('"event": "run"') >= number:
        has_stopped.append(True)
        os.kill(os.getpid(), signal.SIGSTOP)


EventLog.append = append_and_stop
"""


def stopping(folder: Path, runs: int) -> dict[str, str]:
    """Write a plugin into the folder of a session; return the environment in which the session stops by SIGSTOP.

    It does so once, when its event log has `runs` runs. In this way a worker of pytest-xdist stops, too.
    """
    (folder / "stopping.py").write_text(_PLUGIN)
    return {**os.environ, "PYTEST_PLUGINS": "stopping", _RUNS: str(runs)}
