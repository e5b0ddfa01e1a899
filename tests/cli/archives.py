"""An archive as the store writes it, and ways to damage one, for `test_fuzz.py`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import random
import shutil
import zlib
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.cli.night.decide import decide_night
from pytest_ipperf.cli.night.write import write_verdict
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.plan import Plan, plan_for
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.plugin.session.plan_text import plan_data
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.store import SCHEMA, Archive, EventLog, accept, withdraw
from tests.store.kept import BEGAN, HOST, SUITE, events_of, facts, name_of, record, rewrite

GREEN, RED, FRESH, WORKER, RESUMED, NEXT = 0, 3, 4, 5, 6, 8
"""Sessions of the archive: the first of three green nights, the red night and its fresh session, a red session of
plain pytest by a worker of xdist, one that resumed it, and the next night, which lacks a cell."""
_NEW_IN_7 = frozenset({"samples_crc32", "files"})
_NEW_IN_6 = {"session": {"saved"}, "record": {"workload_version", "fingerprint", "nodeid", "p_exceeds"}}
STATE = ServerState()
PLAN = plan_for(
    Workload(testbed="lab", protocol="http", client=LEAN, connections=1, payload_bytes=1024),
    [Arm(4, "native"), Arm(6, "native")],
    DESIGNS["smoke"],
    7,
)


def build(root: Path, schema: int = SCHEMA) -> None:
    """Write an archive with its index as versions of that schema did: before 7 without checksums, 5 without nights."""
    for number in range(3):
        screening = _session(root, number, _cells(number))
        assert _decide(root, screening) == 0
    for cell, day in (("lab-http-c2-10k-ipv6", -1), ("lab-http-c9-*", 400)):
        said = Acceptance(
            cell=cell, metric="response_time", reason="a new kernel", by="ada", at=BEGAN - 9 * 86400, until=_date(day),
            up_to=0.9,
        )  # fmt: skip
        accept(root, said)
    withdraw(root, "lab-http-c9-*", reason="it is mended", by="ada", at=BEGAN)
    screening = _session(root, RED, _cells(RED, slower=1.3))
    fresh = _session(root, FRESH, [_cell(2, 1.3, 99)], saved="night.fresh", status=1)
    assert _decide(root, screening, fresh) == 1
    _session(root, WORKER, _cells(WORKER, slower=1.3), saved="", status=1, writer="gw0")
    _session(root, RESUMED, [dataclasses.replace(each, taken_from=name_of(WORKER)) for each in _cells(WORKER)],
             saved="", status=0, taken=root / "runs" / name_of(WORKER))  # fmt: skip
    _session(root, NEXT, _cells(NEXT)[:-1])
    if schema == 5:
        shutil.rmtree(root / "nights")
    for path in (root / "runs").glob("*/*.jsonl") if schema < SCHEMA else ():
        rewrite(
            path, [_of_schema(schema, each) for each in events_of(path) if _is_known(schema, each)], checksums=False
        )


def _is_known(schema: int, event: Mapping[str, Any]) -> bool:
    return schema > 5 or event["event"] not in ("trouble", "end")


def _of_schema(schema: int, event: Mapping[str, Any]) -> Mapping[str, Any]:
    changed = {**event, "schema": schema} if event["event"] == "session" else event
    new = _NEW_IN_7 | (_NEW_IN_6.get(event["event"], set()) if schema == 5 else set())
    return {name: value for name, value in changed.items() if name not in new}


def _cell(number: int, ratio: float, seed: int, **more: Any) -> Record:
    return record(number, ratio, seed=seed, **more)


def _cells(seed: int, slower: float = 1.0) -> list[Record]:
    twin = {"cell": "lab-http-c1-10k-ipv4-twin", "twin": True, "ipver": 4, "nodeid": f"{SUITE}::twin"}
    return [_cell(1, 1.0, seed), _cell(1, 1.0, seed + 50, **twin), _cell(3, 1.0, seed), _cell(2, slower, seed)]


def _date(days: int) -> dt.date:
    return (dt.datetime.fromtimestamp(BEGAN, dt.UTC) + dt.timedelta(days=days)).date()


def _decide(root: Path, screening: Path, fresh: Path | None = None) -> int:
    """Decide as `end_night` does, with a page that is quick to write."""
    with contextlib.closing(Archive(root)) as archive:
        found = decide_night(archive, screening, fresh, saved="night", baseline="night")
    folder = root / "nights" / screening.name
    write_verdict(folder, found, {"fresh_session": fresh.name if fresh else None, "baseline": "night"})
    (folder / "report.html").write_text("<html></html>")
    return int(found.report.gate_status)


def _session(
    root: Path,
    number: int,
    records: list[Record],
    *,
    saved: str = "night",
    status: int = 0,
    writer: str = "main",
    taken: Path | None = None,
) -> Path:
    folder = root / "runs" / name_of(number)
    main = EventLog(folder, "main")
    main.append("session", facts(number, saved=saved))
    if taken:
        main.append("taken", {"workload": str(PLAN.workload), "session": taken.name, "folder": str(taken)})
    else:
        measuring = main if writer == "main" else EventLog(folder, writer)
        if measuring is not main:
            measuring.append("session", facts(number, saved=saved, at=BEGAN + 86400 * number + 1))
        _measure(measuring, number)
        if measuring is not main:
            measuring.close()
    for each in records:
        main.append("record", each.to_plain())
    main.append("undecided", {"nodeid": f"{SUITE}::test_y", "sentence": "the budget was spent"})
    main.append("end", {"status": status, "seconds": 61.5, "files": main.sizes()})
    main.close()
    (folder / "report.html").write_text("<html></html>")
    return folder


def _measure(journal: EventLog, seed: int) -> None:
    """Write a workload as `plugin/display/progress.py` does, with samples that give its values."""
    draw, plan = random.Random(seed), PLAN
    name = str(plan.workload)
    service = ServerEndpoint("apache", "2.4", embedded=False, port=80, resolver_port=53)
    journal.append("workload", {"workload": name, "seed": plan.seed, "order": plan_data(plan)})
    for epoch in plan.epochs:
        hosts = {"client": HOST, "server": HOST}
        shown = {"epoch": epoch.number, "server": str(service), "resolver": "", "paths": {}, "fingerprint": hosts}
        journal.append("epoch", {"workload": name, **shown})
        for block, arms in [(-1, epoch.warmups), *enumerate(epoch.blocks)]:
            for slot, arm in enumerate(arms):
                _run(journal, plan, draw, {"arm": str(arm), "epoch": epoch.number, "block": block, "slot": slot})
    journal.append("look", {"workload": name, "look": 1, "looks": 1, "epochs": 2, "verdicts": {}, "going_on": []})
    journal.append("note", {"text": "the qdisc is not the usual one"})
    links = {"rate_bit_s": 0.0, "loss": 0.0, "delay_s": 0.0}
    journal.append("complete", {
        "workload": name, "testbed": BUILTIN["lab"], "state": STATE.digest_without_password, "asked": {},
        "service": service,
        "network": {"links": links, "one_machine": True, "backends": {}, "client_hosts": []}, "looks": {"ipv6": 1},
        "answered": [], "trouble": {}, "stopped": "", "seconds": [1.5],
    })  # fmt: skip
    journal.sync()


def _run(journal: EventLog, plan: Plan, draw: random.Random, place: dict[str, Any]) -> None:
    rows = array("d")
    for _ in range(4):
        total = 0.004 + draw.random() / 1000
        rows.extend([0.0, 0.0001, 0.0002, 0.003, total, 0.0, 0.0])
    packed = rows.tobytes()
    totals = rows[PHASES.index("total") :: len(PHASES)]
    journal.append("run", {
        "workload": str(plan.workload), **place, "warmup": place["block"] < 0, "started_at": 5.0, "attempted": 4,
        "failed": {}, "values": {"response_time": sum(totals) / len(totals)}, "facts": {}, "notes": [],
        "columns": PHASES, "rows": len(rows) // len(PHASES), "offset": journal.append_samples(packed),
        "samples_crc32": zlib.crc32(packed), "proof": {}, "contradictions": [], "unsettled": [], "client": None,
    })  # fmt: skip


# --- damage -----------------------------------------------------------------------------------------------------------

_Change = Callable[[bytes, random.Random], bytes]
_NUMBERS = (
    '"x"',
    "NaN",
    "Infinity",
    "-1",
    "1e308",
    "1e999",
    "0",
    "true",
    "null",
    "[]",
    "{}",
    "9" * 400,
    "1e-320",
    '"\\ud800"',
)


def flip(data: bytes, draw: random.Random) -> bytes:
    """Flip a bit."""
    if not data:
        return b"\0"
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def zeros(data: bytes, draw: random.Random) -> bytes:
    """Replace up to a page by zeros."""
    at, size = draw.randrange(len(data) + 1), draw.choice((1, 7, 512, 4096))
    return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def cut(data: bytes, draw: random.Random) -> bytes:
    """Cut off the end, from within a line; perhaps everything."""
    return data[: draw.randrange(len(data) + 1)].removesuffix(b"\n")


def cut_lines(data: bytes, draw: random.Random) -> bytes:
    """Cut off the last lines."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: draw.randrange(len(lines) + 1)])


def append(data: bytes, draw: random.Random) -> bytes:
    """Append something."""
    return data + draw.choice(
        (b"\0" * 512, b"\n", b"{}\n", b"\xff\xfe\n", b'{"event": "end"}\n', b"[" * 10_000 + b"\n")
    )


def lines_moved(data: bytes, draw: random.Random) -> bytes:
    """Remove, repeat or move a line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data + b"\n"
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(3)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def not_utf8(data: bytes, draw: random.Random) -> bytes:
    """Insert bytes that are not UTF-8."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + b"\xff\xc0" + data[at + 2 :]


def other_number(data: bytes, draw: random.Random) -> bytes:
    """Replace a value by one of another type, or by an impossible number."""
    at = [place for place in range(len(data) - 2) if data[place : place + 2] == b": "]
    if not at:
        return data + b"5"
    start = draw.choice(at) + 2
    end = next((place for place in range(start, len(data)) if data[place : place + 1] in b",}\n"), len(data))
    return data[:start] + draw.choice(_NUMBERS).encode() + data[end:]


def other_key(data: bytes, draw: random.Random) -> bytes:
    """Rename a key, so that it is missing."""
    at = [place for place in range(len(data) - 1) if data[place : place + 2] == b'":']
    if not at:
        return data + b"x"
    end = draw.choice(at)
    return data[: end - 1] + b"~" + data[end:]


CHANGES: tuple[_Change, ...] = (
    flip, flip, zeros, cut, cut_lines, append, lines_moved, not_utf8, other_number, other_number, other_key,
)  # fmt: skip


def removed(path: Path, draw: random.Random) -> None:
    """Remove the file, or put something else in its place."""
    path.unlink()
    kind = draw.randrange(5)
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path)
    elif kind == 3:
        os.mkfifo(path)
    elif kind == 4:
        path.symlink_to(path.parent)


def mutate(root: Path, draw: random.Random) -> str:
    """Damage some files of an archive; return how."""
    done = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        files = [
            *root.glob("runs/*/*.jsonl"), *root.glob("runs/*/*.f64"), *root.glob("nights/*/*"), root / "accepted.jsonl",
            root / "index.sqlite",
        ]  # fmt: skip
        journals = [path for path in files if path.suffix == ".jsonl"]
        path = draw.choice(draw.choice((journals, files)))
        if not path.is_file():
            continue
        if draw.random() < 0.1:
            removed(path, draw)
            done.append(f"{path.relative_to(root)} removed")
        else:
            change = draw.choice(CHANGES)
            path.write_bytes(change(path.read_bytes(), draw))
            done.append(f"{path.relative_to(root)} {change.__name__}")
    return "; ".join(done)
