"""Switch the offloads of a testbed's hosts as the level of a run wants them, on the devices of the measured link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.measurement.path_proof import merged_violations
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.factor import Value, values_of
from pytest_ipperf.core.portable.offload import OFFLOAD, UNCHANGED, merges, offload_settings
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.transports.base import ROUTER

Settings = dict[str, bool]


@dataclass(slots=True)
class HostOffloads:
    """Offloads of a testbed's hosts; `switched` once any were."""

    testbed: Testbed
    agents: Mapping[str, AgentClient]
    switched: bool = False
    _level: Value = UNCHANGED
    _state: dict[str, dict[str, Settings]] = field(default_factory=dict)
    _devices: dict[str, list[str]] = field(default_factory=dict)

    def switch(self, workload: Workload) -> dict[str, dict[str, Settings]]:
        """Switch the offloads of all hosts to a workload's level; return those in force, by role and device.

        Nothing is done, and nothing returned, while every level was `unchanged`. Raise LabError, naming the host, if a
        device cannot have them.
        """
        level = values_of(workload.levels).get(OFFLOAD.name, UNCHANGED)
        if level == UNCHANGED and not self.switched:
            return {}
        if level != self._level:
            self.switched, self._level = True, ""  # unknown until all hosts have it
            self._state = self._switch(offload_settings(level))
            self._level = level
        return self._state

    def violations(
        self, workload: Workload, merged: Mapping[str, Mapping[str, int] | None], streamed: int
    ) -> list[str]:
        """Return how the packets of a run contradict the level; `streamed` is the number of its whole mebibytes."""
        if not self.switched:
            return []
        level = values_of(workload.levels).get(OFFLOAD.name, UNCHANGED)
        wanted = merges(offload_settings(level))
        return merged_violations(wanted, merged, streamed)

    def _switch(self, settings: Settings) -> dict[str, dict[str, Settings]]:
        self._devices = self._devices or self._measured_devices()
        return {
            role: {device: self._switch_device(role, device, settings) for device in devices}
            for role, devices in self._devices.items()
        }

    def _switch_device(self, role: str, device: str, settings: Settings) -> Settings:
        agent = self.agents[role]
        try:
            return agent.set_offloads(device, settings)
        except AgentError:
            raise
        except LabError as error:
            raise LabError(f"host {agent.host.name}: {error}") from None

    def _measured_devices(self) -> dict[str, list[str]]:
        """Return the devices by which clients reach the server, and the other hosts reach both ends, by role."""
        ends = [self.testbed.roles[role] for role in self.testbed.clients]
        found: dict[str, list[str]] = {}
        for role, agent in self.agents.items():
            others = [self.testbed.server] if role in self.testbed.clients else ends
            others = [*others, self.testbed.server] if role == ROUTER else others
            addresses = (host.address(4) or host.address(6) for host in others)
            found[role] = sorted({agent.route(address).device for address in addresses if address} - {""})
            if not found[role]:
                raise LabError(f"host {agent.host.name}: no device leads to the other hosts, so it has no offloads")
        return found
