"""What a transport is: how an IP version travels, and what that costs on the wire."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transport:
    """Each file of this folder offers one as `transport`.

    `overhead_bytes` is what it adds to each packet beside the IP header itself; `encapsulated` says whether its
    packets travel inside IPv4 as protocol 41, which the proof of the path counts.
    """

    name: str
    title: str
    ipvers: tuple[int, ...]
    overhead_bytes: int
    encapsulated: bool
    source: str
