"""The nights of a folder of records: what each of them decided, as its `verdict.json` tells later ones."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import LabError
from pytest_ipperf.core.night import RED, Light
from pytest_ipperf.core.past import Key

VERDICT = "verdict.json"
_REDS = {ruling.name.lower() for ruling in RED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night that came to its end: its `name`, its screening's `session`, the name it was `saved` under, its `light`.

    It began at `began_at` (seconds since 1970). `red` are the cells (with their metric) that it found worse, `cells`
    those that the next one must measure too.
    """

    name: str
    session: str
    saved: str
    began_at: float
    light: int
    red: tuple[tuple[str, str], ...]
    cells: tuple[Key, ...]

    @property
    def believed(self) -> bool:
        """Whether its other cells are something to compare with."""
        return self.light != Light.UNSTABLE


def nights_in(root: Path, but: Container[str] = (), unread: dict[str, str] | None = None) -> Iterator[Night]:
    """The nights below a folder of records that have a verdict, the newest first, but those of these names.

    `unread` gains a sentence about each whose verdict cannot be read, by its name.
    """
    for path in sorted((root / "nights").glob(f"*/{VERDICT}"), reverse=True):
        name = path.parent.name
        if name in but:
            continue
        try:
            yield read_night(root, name)
        except LabError as error:
            if unread is not None:
                unread[name] = str(error)


def read_night(root: Path, name: str) -> Night:
    """The night of that name; LabError where its verdict cannot be read."""
    path = root / "nights" / name / VERDICT
    try:
        return _night(name, json.loads(path.read_bytes()))
    except OSError as error:
        raise LabError(f"night {name}: {path} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(f"night {name}: {path} is no verdict ({type(error).__name__}: {error})") from None


def _night(name: str, told: Mapping[str, Any]) -> Night:
    cells = [
        (Key(str(each["cell"]), str(each["metric"]), str(each.get("version", ""))), each["ruling"])
        for each in told["cells"]
    ]
    return Night(
        name=name,
        session=str(told["session"]),
        saved=str(told["saved"]),
        began_at=float(told.get("began_at") or 0),
        light=Light(told["status"]),
        red=tuple((key.cell, key.metric) for key, ruling in cells if ruling in _REDS),
        cells=tuple(key for key, _ in cells),
    )
