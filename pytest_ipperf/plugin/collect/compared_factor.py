"""The factor that a test compares instead of IP versions and transports, by its marker `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pytest_ipperf.core.design.cell import Arm, arm_level_text
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports import TRANSPORTS

_RIGHT = 'compare("offload"), or compare("offload", transport=["native"])'


@dataclass(frozen=True, slots=True)
class ComparedFactor:
    """A factor whose levels are arms, on these transports; the first of `levels` is the reference."""

    factor: Factor
    transports: tuple[str, ...]
    levels: tuple[Value, ...] = ()

    @property
    def level_texts(self) -> tuple[str, ...]:
        """Levels as arms name them, the reference first."""
        return tuple(arm_level_text(self.factor.name, self.factor.text(value)) for value in self.levels)

    @property
    def against(self) -> str:
        """Reference level as arms name it."""
        return self.level_texts[0]

    def arms(self, arms: Sequence[Arm], *, alone: bool) -> list[Arm]:
        """Return each of these arms at each level, without the reference unless the test has limits `alone`."""
        return [
            Arm(arm.ipver, arm.transport, level=level)
            for arm in arms
            if arm.transport in self.transports
            for level in self.level_texts[0 if alone else 1 :]
        ]


def compared_factor(node: pytest.Item | pytest.Function, protocol: str) -> ComparedFactor | None:
    """Return the factor of a test's marker `compare`, without levels; None if there is no such marker.

    Raise UsageError for an invalid marker.
    """
    mark = node.get_closest_marker("compare")
    if mark is None:
        return None
    if len(mark.args) != 1 or set(mark.kwargs) - {"transport"}:
        raise UsageError(f"marker compare takes the name of one factor: {_RIGHT}")
    factors = {factor.name: factor for factor in PROTOCOLS[protocol].factors}
    if mark.args[0] not in factors:
        has = f"it has {', '.join(factors)}" if factors else "it has none"
        raise UsageError(f"marker compare: {mark.args[0]!r} is no factor of {protocol}; {has}")
    transports = mark.kwargs.get("transport", list(TRANSPORTS))
    if not isinstance(transports, list | tuple) or not transports or not set(transports) <= set(TRANSPORTS):
        raise UsageError(f"marker compare: transport={transports!r} is no list of {', '.join(TRANSPORTS)}: {_RIGHT}")
    return ComparedFactor(factors[mark.args[0]], tuple(transports))
