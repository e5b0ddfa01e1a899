"""Carrier of packets or queries as a factor: UDP datagrams, or TCP connections. Travels to hosts: Python 3.10 alone."""

from __future__ import annotations

from pytest_ipperf.core.portable.factor import Factor

UDP, TCP = "udp", "tcp"

CARRIER = Factor(
    name="carrier",
    title="carrier",
    unit="word",
    levels=(UDP,),
    help=f"the transport protocol that carries packets or queries: {UDP} or {TCP}",
    words=(UDP, TCP),
    implicit=UDP,
    silent=True,
)
"""Factor `carrier`. It is silent: the ids and records of workloads over UDP are as they would be without it."""
