"""Offloads switched for runs, and switched back with the other changes of a host.

The rollback helper makes the first change of a device, and knows from then on what was wanted before, bit by bit; later
changes, one before each run, are made here at once.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.restorer import FEATURES, run
from pytest_ipperf.agent.kernel.ethtool import Features, features, has_link, unlike
from pytest_ipperf.core.portable.errors import LabError

# A real port may lose its link for seconds while its driver restarts.
_LINK_S, _POLL_S = 20.0, 0.05


class SwitchedOffloads:
    """Offloads of this host's devices that were switched, with their features before."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._before: dict[str, Features] = {}

    @property
    def devices(self) -> list[str]:
        """Names of the devices whose offloads were switched."""
        return list(self._before)

    def switch(self, device: str, settings: Mapping[str, bool]) -> dict[str, bool]:
        """Switch offloads and return those in force; empty `settings` restore what was wanted before.

        What is not in `settings` is as it was before the first change. Raise LabError if the device cannot have them.
        """
        try:
            before = self._before.get(device) or features(device)
        except OSError as error:
            raise LabError(
                f"device {device!r}: its offloads are unknown: {os.strerror(error.errno or errno.EIO)}"
            ) from None
        wanted = before.with_offloads(settings)
        linked = has_link(device)
        if device not in self._before:
            undo = [FEATURES, device, f"{before.wanted:x}"]
            self._changes.run([FEATURES, device, f"{wanted:x}"], undo)
            self._before[device] = before  # only now is its undoing certain
        elif features(device).wanted != wanted and (trouble := run([FEATURES, device, f"{wanted:x}"])):
            raise LabError(trouble)
        now = features(device)
        if missed := unlike(now, settings):
            raise LabError(
                f"device {device!r} cannot have {', '.join(missed)}; its driver decides (ethtool -k {device})"
            )
        if linked:
            _wait_for_link(device)
        return {name: now.on(name) for name in settings}


def _wait_for_link(device: str) -> None:
    """Wait until a device has its link again; raise LabError if that takes too long."""
    end = time.monotonic() + _LINK_S
    while not has_link(device):
        if time.monotonic() > end:
            raise LabError(f"device {device!r}: its link is still down {_LINK_S:g} s after its offloads were switched")
        time.sleep(_POLL_S)
