"""Traffic models: one model, one file of TOML, in this folder or in those of a user.

Only the controller reads the files; a model travels to hosts as a value. A file's name without `.toml` is the name of
its model, of small letters, digits and dots. A user's folder may hold other files of TOML, such as `pyproject.toml`:
those with neither [[stream]] nor title and source are no models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN, MODEL_NAME_RULE, TrafficModel
from pytest_ipperf.traffic_models.base import is_model, model_from_text

SUFFIX = ".toml"
_SHIPPED = Path(__file__).parent


class TrafficModels(Mapping[str, TrafficModel]):
    """Models by name, each read on first use: those of `folders`, the first before the next, then the package's own."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._files: dict[str, Path] = {}
        self._read: dict[str, TrafficModel] = {}
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"folder {folder} of traffic models does not exist")
        for folder in (*folders, _SHIPPED):
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                if folder == _SHIPPED or is_model(_text_of(path)):
                    self._files.setdefault(_name_of(path), path)

    def __getitem__(self, name: str) -> TrafficModel:
        if name not in self._files:
            known = f"no traffic model {name!r}; there are {', '.join(self)}"
            raise UsageError(known + did_you_mean(name, self._files))
        if name not in self._read:
            self._read[name] = _read(name, self._files[name])
        return self._read[name]

    def check_own(self) -> None:
        """Read the models of the folders that were given; raise UsageError if the file of one is wrong."""
        for name, path in self._files.items():
            if path.parent != _SHIPPED:
                self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)


@cache
def shipped_models() -> TrafficModels:
    """Return the package's own models."""
    return TrafficModels()


def _name_of(path: Path) -> str:
    name = path.name.removesuffix(SUFFIX)
    if not re.fullmatch(MODEL_NAME_PATTERN, name):
        raise UsageError(f"traffic model {path} has a name that test ids cannot have; rename it: {MODEL_NAME_RULE}")
    return name


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"traffic model {path} cannot be read: {error}") from error


def _read(name: str, path: Path) -> TrafficModel:
    text = _text_of(path)
    try:
        return model_from_text(name, text)
    except UsageError as error:
        raise UsageError(f"traffic model {path}: {error}") from error
