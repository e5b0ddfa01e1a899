"""RPC methods that install Python packages and read their cache."""

from __future__ import annotations

from pytest_ipperf.agent.rpc.handlers.base import Handlers
from pytest_ipperf.agent.rpc.messages import CacheState, Cleaned, InstalledPackages, PythonBuild


class PackageHandlers(Handlers):
    """Handlers for packages; sent ones are removed with the agent, except for the cached parcels."""

    def packages(self, names: list[str]) -> InstalledPackages:
        """Return the versions of these distributions here, and the Python that they are for."""
        found = self._context.packages.installed(names)
        return InstalledPackages(versions=found["versions"], python=PythonBuild(**found["python"]))

    def unpack_kept(self, digest: str, stripped: list[str]) -> bool:
        """Unpack a cached parcel as `unpack` does; return False if this host has not cached it."""
        return self._context.packages.unpack_kept(digest, stripped)

    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Make the packages of a parcel importable, here and in servers that start from now on."""
        self._context.packages.unpack(digest, data, stripped)

    def unpack_and_keep(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Unpack a parcel as `unpack` does, and cache it for later agents, if possible."""
        self._context.packages.unpack_and_keep(digest, data, stripped)

    def cache(self) -> CacheState:
        """Return the state of the cache of packages."""
        return CacheState(**self._context.packages.cache_state())

    def clean(self) -> Cleaned:
        """Empty the cache, and remove private folders whose agents are gone; return what was removed."""
        return Cleaned(cache=CacheState(**self._context.packages.forget()), folders=self._context.removed_folders)


handlers = PackageHandlers
