"""Offloads of a host's devices as a factor of every protocol: its levels, and the settings that each stands for.

Offloads let the device, or the kernel at its edge, do the work of many packets at once (Linux,
Documentation/networking/segmentation-offloads.rst); paper 002 compares them on and off. Travels to hosts: Python 3.10
alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.portable.factor import Factor, StudySize, Value

UNCHANGED = "unchanged"
ON, OFF = "on", "off"
SINGLE: Mapping[str, str] = {
    "tso": "tso", "gso": "gso", "gro": "gro", "lro": "lro", "rx": "rx-checksum", "tx": "tx-checksum",
}  # fmt: skip
"""Single offloads, by the names of `ethtool -K`, with their longer names."""
_NEEDS = {"tso": ("tx-checksum", "sg"), "gso": ("sg",), "lro": ("rx-checksum",)}
"""Offloads that each offload needs."""
_WITHOUT = "no"

OFFLOAD = Factor(
    name="offload",
    title="offload",
    unit="word",
    levels=(UNCHANGED,),
    help=(
        f"offloads of the hosts' devices: {UNCHANGED}, {ON}, {OFF}, one alone ({', '.join(SINGLE)}), or all but one "
        f"({', '.join(_WITHOUT + name for name in SINGLE)})"
    ),
    mark="offload",
    words=(UNCHANGED, ON, OFF, *SINGLE, *(_WITHOUT + name for name in SINGLE)),
    implicit=UNCHANGED,
    silent=True,
    # Three reboots, each with 11 runs of which the first was discarded (paper 002).
    study=StudySize(epochs=3, blocks=10),
)


def offload_settings(level: Value) -> dict[str, bool]:
    """Return the offloads that a level switches, on or off by name; empty for `unchanged`.

    `on` leaves LRO, which merges packets that a router must not merge, as it was. With one offload alone, those that it
    needs are on too; without one, those that need it are off.
    """
    names = list(SINGLE.values())
    if level == UNCHANGED:
        return {}
    if level == OFF:
        return dict.fromkeys(names, False)
    if level == ON:
        return {"sg": True, **{name: True for name in names if name != "lro"}}
    text = str(level)
    if text in SINGLE:
        name = SINGLE[text]
        return {**dict.fromkeys(names, False), **dict.fromkeys((*_NEEDS.get(name, ()), name), True)}
    name = SINGLE[text.removeprefix(_WITHOUT)]
    dependent = [each for each, needed in _NEEDS.items() if name in needed]
    return {**offload_settings(ON), **dict.fromkeys((name, *dependent), False)}


def merges(settings: Mapping[str, bool]) -> bool | None:
    """Return whether packets larger than the MTU must be seen with these settings (True), must not be (False), or may.

    Senders make them by TSO or GSO, receivers by GRO or LRO.
    """
    sending, receiving = ([settings.get(name) for name in names] for names in (("tso", "gso"), ("gro", "lro")))
    if True in sending:
        return True
    return False if {*sending, *receiving} == {False} else None
