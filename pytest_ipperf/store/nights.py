"""The nights of a folder of records: what each of them decided, as its `verdict.json` tells later ones."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.night import RED, Light
from pytest_ipperf.core.past import Key

VERDICT = "verdict.json"
_REDS = {ruling.name.lower() for ruling in RED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night that came to its end: its `name`, its screening's `session`, the name it was `saved` under, its `light`.

    `red` are the cells (with their metric) that it found worse, and `cells` those that the next one must measure too.
    """

    name: str
    session: str
    saved: str
    light: int
    red: tuple[tuple[str, str], ...]
    cells: tuple[Key, ...]

    @property
    def believed(self) -> bool:
        """Whether its other cells are something to compare with."""
        return self.light != Light.UNSTABLE


def nights_in(root: Path, but: Container[str] = ()) -> Iterator[Night]:
    """The nights below a folder of records that have a verdict, the newest first, but those of these names.

    One whose verdict cannot be read is none.
    """
    for path in sorted((root / "nights").glob(f"*/{VERDICT}"), reverse=True):
        if path.parent.name in but:
            continue
        try:
            yield _night(path.parent.name, json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            continue


def last_night(root: Path, saved: str, *, before: str) -> Night | None:
    """The newest night that was saved under that name and began before the session of that name, as names tell."""
    return next((night for night in nights_in(root) if night.saved == saved and night.name < before), None)


def _night(name: str, told: Mapping[str, Any]) -> Night:
    cells = [(Key(each["cell"], each["metric"], each.get("version", "")), each["ruling"]) for each in told["cells"]]
    return Night(
        name=name,
        session=told["session"],
        saved=told["saved"],
        light=told["status"],
        red=tuple((key.cell, key.metric) for key, ruling in cells if ruling in _REDS),
        cells=tuple(key for key, _ in cells),
    )
