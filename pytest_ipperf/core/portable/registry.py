"""Plug-in registry: a folder of modules as a read-only mapping, so that one new file is one new thing.

Each module of the folder offers one object under the registry's name (`protocol`, `server`, `metric`, ...); `base`
holds their common code and is not in the registry.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Generic, TypeVar, cast

from pytest_ipperf.core.portable.errors import UsageError

Thing = TypeVar("Thing")


class Registry(Mapping[str, Thing], Generic[Thing]):
    """Modules of package `package` by name; each is imported on first use."""

    def __init__(self, package: str, path: list[str], offers: str) -> None:
        self._package = package
        self.offers = offers
        self._names = sorted(m.name for m in pkgutil.iter_modules(path) if m.name != "base")
        self._modules: dict[str, ModuleType] = {}

    def __getitem__(self, name: str) -> Thing:
        if (module := self._modules.get(name)) is None:
            if name not in self._names:
                raise UsageError(f"no {self.offers} {name!r}; there are: {', '.join(self._names)}")
            module = self._modules[name] = import_module(f"{self._package}.{name}")
        return cast("Thing", getattr(module, self.offers))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
