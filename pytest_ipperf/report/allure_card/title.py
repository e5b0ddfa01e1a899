"""Build the title of a cell's Allure result, and its factors as texts."""

from __future__ import annotations

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.protocols import PROTOCOLS


def title(cell: Cell, metric: str, *, testbed: bool = False) -> str:
    """Return the title: `SMTP, IPv6 tunnel, 10 connections, 1k`; with a flow's metric, and the testbed on request."""
    workload = cell.workload
    protocol = PROTOCOLS[workload.protocol]
    named = len(protocol.metrics) > 1 and metric != workload.protocol
    what = f"{protocol.title} {metric.replace('_', ' ')}" if named else protocol.title
    many = protocol.kind.title_of(workload.connections)
    size = bytes_text(workload.payload_bytes)
    load = _load(cell)
    more = {
        "arrivals": f"{load.get('arrivals')} arrivals",
        "workers": f"{workload.workers} workers",
        "client": f"client {workload.client}",
    }
    own = [level.text for level in workload.levels if level.text]
    where = f"on {workload.testbed}" if testbed else ""
    size += " bytes" if size.isdecimal() else ""
    parts = (what, cell.arm.title, many, size, *(more[name] for name in load), *own, where)
    return ", ".join(filter(None, parts))


def factor_texts(cell: Cell) -> dict[str, str]:
    """Return every factor of a cell as text, by name; default values are left out.

    The arm is given by `ipver`, such as `IPv6`, and `transport`, such as `tunnel` or, for a twin, `native twin`; and by
    the level of a compared factor.
    """
    workload, arm = cell.workload, cell.arm
    return {
        "testbed": workload.testbed,
        "protocol": workload.protocol,
        "connections": str(workload.connections),
        "payload": bytes_text(workload.payload_bytes),
        **_load(cell),
        **{level.name: level.text.removeprefix(_mark(cell, level.name)) for level in workload.levels if level.text},
        "ipver": f"IPv{arm.ipver}",
        "transport": f"{arm.transport} twin" if arm.twin else arm.transport,
        **_compared(cell),
    }


def _compared(cell: Cell) -> dict[str, str]:
    """Return the level of a compared factor under its name, and that of the reference."""
    name, _, level = cell.arm.level.partition("_")
    return {name: level, "compared with": cell.workload.against.partition("_")[2]} if name else {}


def _load(cell: Cell) -> dict[str, str]:
    workload = cell.workload
    texts = {
        "client": "" if workload.client == LEAN else workload.client,
        "arrivals": f"{workload.rate_per_s!r}/s".replace(".0/s", "/s") if workload.rate_per_s else "",
        "workers": str(workload.workers) if workload.workers > 1 else "",
    }
    return {name: text for name, text in texts.items() if text}


def _mark(cell: Cell, name: str) -> str:
    return next((each.mark for each in PROTOCOLS[cell.workload.protocol].factors if each.name == name), "")
