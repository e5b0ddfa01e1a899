"""A figure of one arm, ready to be compared with a limit: `measured.p95 <= "20ms"` has three answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ipperf.core.design.limit import EXAMPLES, THROUGHPUT, Limit
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.portable.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Figure:
    """The figure `name`; `judge` judges a limit of it, and raises UsageError if the cell has no such figure."""

    name: str
    judge: Callable[[Limit], Claim]

    def __le__(self, limit: str) -> Claim:
        """Return the claim that the figure is at most `limit`, a text such as `20ms`."""
        return self._claim("<=", limit)

    def __ge__(self, limit: str) -> Claim:
        """Return the claim that the figure is at least `limit`, which only a throughput has."""
        return self._claim(">=", limit)

    def _claim(self, sign: str, limit: object) -> Claim:
        if sign != (">=" if self.name == THROUGHPUT else "<="):
            raise self._no_question(sign, limit)
        return self.judge(Limit.parse(self.name, limit))

    def __lt__(self, other: object) -> bool:
        raise self._no_question("<", other)

    def __gt__(self, other: object) -> bool:
        raise self._no_question(">", other)

    def __eq__(self, other: object) -> bool:
        raise self._no_question("==", other)

    def __ne__(self, other: object) -> bool:
        raise self._no_question("!=", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        """Raise UsageError: a figure alone is no question."""
        raise UsageError(f"{self.name} alone compares nothing; {self._right}")

    @property
    def _right(self) -> str:
        return f"use `{claim_text(self.name)}`; its value is `measured.arm`'s"

    def _no_question(self, sign: str, other: object) -> UsageError:
        return UsageError(f"{self.name} cannot be compared by `{sign} {other!r}`; {self._right}")


def claim_text(name: str) -> str:
    """Return an example of a claim about a figure: `measured.p95 <= "20ms"`."""
    return f'measured.{name} {">=" if name == THROUGHPUT else "<="} "{EXAMPLES[name]}"'
