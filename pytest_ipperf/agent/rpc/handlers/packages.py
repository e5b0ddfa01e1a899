"""RPC methods that install Python packages and read their cache."""

from __future__ import annotations

from pytest_ipperf.agent.rpc.handlers.base import Handlers
from pytest_ipperf.agent.rpc.messages import CacheState, Cleaned, InstalledPackages, PythonBuild


class PackageHandlers(Handlers):
    """What was sent is gone with the agent, except for what the cache keeps packed."""

    def packages(self, names: list[str]) -> InstalledPackages:
        """Return which versions of these distributions are here, and the Python that they are for."""
        found = self._context.packages.installed(names)
        return InstalledPackages(versions=found["versions"], python=PythonBuild(**found["python"]))

    def unpack_kept(self, digest: str, stripped: list[str]) -> bool:
        """As `unpack`, of a parcel that this host has kept; false where it has not."""
        return self._context.packages.unpack_kept(digest, stripped)

    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Makes the packages of a parcel importable, here and in servers that start from now on."""
        self._context.packages.unpack(digest, data, stripped)

    def unpack_and_keep(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """The same, and keeps the parcel for agents to come, if this host can."""
        self._context.packages.unpack_and_keep(digest, data, stripped)

    def cache(self) -> CacheState:
        """Return the state of the cache of packages."""
        return CacheState(**self._context.packages.cache_state())

    def clean(self) -> Cleaned:
        """Empty the cache, and remove private folders whose agents are gone; return what was removed."""
        return Cleaned(cache=CacheState(**self._context.packages.forget()), folders=self._context.removed_folders)


handlers = PackageHandlers
