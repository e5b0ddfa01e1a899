"""Limits of this user's open files, and the ephemeral ports."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.agent.load.limits import ephemeral_ports


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts(Facts):
    """Number of `descriptors`, 0 without a limit, and the first and last ephemeral port."""

    descriptors: int
    ephemeral: tuple[int, int]

    @classmethod
    def collect(cls, request: FactsRequest) -> LimitFacts:
        """Ask the kernel."""
        del request
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return cls(descriptors=0 if hard == resource.RLIM_INFINITY else hard, ephemeral=ephemeral_ports())


facts = LimitFacts
