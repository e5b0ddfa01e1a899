"""RPC methods that install Python packages and read their cache."""

from __future__ import annotations

from typing import Any

from pytest_ipperf.agent.rpc.handlers.base import Handlers


class PackageHandlers(Handlers):
    """What was sent is gone with the agent, except for what the cache keeps packed."""

    def packages(self, names: list[str]) -> dict[str, Any]:
        """Which versions of these distributions are here, and the Python that they are for."""
        return self._context.packages.installed(names)

    def unpack_kept(self, digest: str, stripped: list[str]) -> bool:
        """As `unpack`, of a parcel that this host has kept; false where it has not."""
        return self._context.packages.unpack_kept(digest, stripped)

    def unpack(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """Makes the packages of a parcel importable, here and in servers that start from now on."""
        self._context.packages.unpack(digest, data, stripped)

    def unpack_and_keep(self, digest: str, data: bytes, stripped: list[str]) -> None:
        """The same, and keeps the parcel for agents to come, if this host can."""
        self._context.packages.unpack_and_keep(digest, data, stripped)

    def cache(self) -> dict[str, Any]:
        """The `folder` of the cache, empty where there can be none, its `entries` and `bytes`.

        `note` says why a cache is not used that is there, else it is empty.
        """
        return self._context.packages.cache_state()

    def clean(self) -> dict[str, Any]:
        """Removes all that agents have left here and may be removed: `entries` and `bytes` of the cache, and `folders`.

        These are private folders whose agents are gone. `note` as of `cache`.
        """
        return {**self._context.packages.forget(), "folders": self._context.removed_folders}


handlers = PackageHandlers
