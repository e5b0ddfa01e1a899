"""Features of a network device, read and set by ethtool's ioctl, as a bare host may have no `ethtool`.

The kernel keeps a bit for each feature, three times: which can be changed, which are wanted, which are in force
(linux/ethtool.h: `ethtool_gfeatures`). An offload is a group of features, as in `ethtool -K`.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pytest_ipperf.core.portable.errors import LabError

_SIOCETHTOOL, _SIOCGIFFLAGS = 0x8946, 0x8913
_IFF_RUNNING = 0x40
_GET_STRINGS, _GET_COUNTS, _GET_FEATURES, _SET_FEATURES = 0x1B, 0x37, 0x3A, 0x3B
_STRINGS_OF_FEATURES, _STRING_BYTES = 4, 32
_GROUPS = {
    "sg": ("tx-scatter-gather", "tx-scatter-gather-fraglist"),
    "tx-checksum": (
        *("tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6"),
        *("tx-checksum-fcoe-crc", "tx-checksum-sctp"),
    ),
    "rx-checksum": ("rx-checksum",),
    "tso": (
        *("tx-tcp-segmentation", "tx-tcp-ecn-segmentation"),
        *("tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"),
    ),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro", "rx-gro-hw"),
    "lro": ("rx-lro",),
}
"""Features of each offload."""
_SHOWN = ("sg", "tx-checksum", "rx-checksum", "tso", "gso", "gro")
# Off unless somebody asks for them by their own names: one changes the IP identification of TCP's packets.
_SPECIAL = {"tx-tcp-mangleid-segmentation", "tx-scatter-gather-fraglist"}


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a device as bit masks: those that can be changed, are wanted, and are in force."""

    changeable: int
    wanted: int
    active: int

    def on(self, offload: str) -> bool:
        """Return whether a feature of an offload is in force."""
        return bool(_mask(_GROUPS[offload]) & self.active)

    def with_offloads(self, settings: Mapping[str, bool]) -> int:
        """Return the features to be wanted for these offloads; others stay as they are."""
        wanted = self.wanted
        for name, on in settings.items():
            group = [each for each in _GROUPS[name] if not on or each not in _SPECIAL]
            wanted = wanted | _mask(group) if on else wanted & ~_mask(group)
        return wanted

    def texts(self) -> dict[str, str]:
        """Return `on` or `off` by feature, with what is wanted where that differs."""
        found = {}
        for bit, name in enumerate(_names()):
            if name and (self.changeable | self.active) >> bit & 1:
                active, wanted = (bool(mask >> bit & 1) for mask in (self.active, self.wanted))
                asked = f", wanted {_word(wanted)}" if active != wanted and self.changeable >> bit & 1 else ""
                found[name] = _word(active) + asked
        return found


def features(device: str) -> Features:
    """Return the features of a device; raise OSError if there is no such device."""
    blocks = -(-len(_names()) // 32)
    request = array.array("I", [_GET_FEATURES, blocks, *[0] * (4 * blocks)])
    _ioctl(device, request)
    columns = ([request[2 + 4 * block + column] for block in range(blocks)] for column in range(3))
    return Features(*(sum(word << 32 * block for block, word in enumerate(words)) for words in columns))


def set_features(device: str, wanted: int) -> None:
    """Make these features, a bit mask, the wanted ones, as far as they can be changed; raise OSError if that fails."""
    now = features(device)
    blocks = -(-len(_names()) // 32)
    request = array.array("I", [_SET_FEATURES, blocks])
    for block in range(blocks):
        request.extend(mask >> 32 * block & 0xFFFFFFFF for mask in (now.changeable, wanted & now.changeable))
    _ioctl(device, request)


def has_link(device: str) -> bool:
    """Return whether a device is up and has its link (IFF_RUNNING, netdevice(7)); raise OSError if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        found = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sH", device.encode(), 0) + bytes(22))
    return bool(struct.unpack_from("H", found, 16)[0] & _IFF_RUNNING)


def offloads(device: str) -> dict[str, bool]:
    """Return the offloads in force, on or off by name; empty if the device does not tell."""
    try:
        found = features(device)
    except OSError:
        return {}
    return {name: found.on(name) for name in _SHOWN}


def set_offloads(device: str, wanted: Mapping[str, bool]) -> None:
    """Switch offloads; raise LabError if one is not as wanted in the end.

    Some depend on others: without `sg` there is no `tso`.
    """
    try:
        set_features(device, features(device).with_offloads(wanted))
    except OSError as error:
        raise LabError(f"device {device!r}: offloads cannot be switched: {error.strerror}") from None
    if missed := unlike(features(device), wanted):
        raise LabError(f"device {device!r}: offloads cannot be switched: {', '.join(missed)}")


def unlike(found: Features, wanted: Mapping[str, bool]) -> list[str]:
    """Return the offloads that are not as wanted, such as `tso on`."""
    return [f"{name} {_word(on)}" for name, on in wanted.items() if found.on(name) != on]


def _word(on: bool) -> str:  # noqa: FBT001 - it is the word's meaning
    return "on" if on else "off"


def _mask(names: Iterable[str]) -> int:
    known = _names()
    return sum(1 << known.index(name) for name in names if name in known)


@lru_cache(1)
def _names() -> tuple[str, ...]:
    """Return the names of the features by their bits, which are the same for all devices; empty for unused bits."""
    device = socket.if_nameindex()[0][1]
    # Command, a reserved word, the sets that are asked for (64 bits), and a count for each of them.
    counts = array.array("I", [_GET_COUNTS, 0, 1 << _STRINGS_OF_FEATURES, 0, 0])
    _ioctl(device, counts)
    strings = array.array("B", struct.pack("III", _GET_STRINGS, _STRINGS_OF_FEATURES, counts[4]))
    header = len(strings)
    strings.extend(bytes(_STRING_BYTES * counts[4]))
    _ioctl(device, strings)
    text = strings.tobytes()[header:]
    return tuple(
        text[at : at + _STRING_BYTES].partition(b"\0")[0].decode("ascii") for at in range(0, len(text), _STRING_BYTES)
    )


def _ioctl(device: str, value: array.array[int]) -> None:
    request = struct.pack("16sP", device.encode(), value.buffer_info()[0]) + bytes(16)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCETHTOOL, request)
