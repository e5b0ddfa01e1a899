"""The four paths of the lab, and where they lead."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.lab.inventory.builtin import BUILTIN

LAB = BUILTIN["lab"]
ARMS = (Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel"), Arm(6, "isatap"))
TUNNEL, ISATAP = ARMS[2:]
TO, FROM = {arm: LAB.path(arm).server for arm in ARMS}, {arm: LAB.path(arm).client for arm in ARMS}
"""The server's and the client's addresses."""

tunnelled = pytest.mark.parametrize("arm", [TUNNEL, ISATAP], ids=str)
every = pytest.mark.parametrize("arm", ARMS, ids=str)
