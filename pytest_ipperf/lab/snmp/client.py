"""Ask a host, or the switch before it, for its description and interface counters by SNMP.

Queries use Net-SNMP's programs and SNMPv2c (RFC 3416). The community is never on a command line, which every user of
this machine could read, but in a private file, and is never shown or recorded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_ipperf.agent.host_state.private_dir import private_folder, remove_stale
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.inventory.snmp_source import Source

# RFC 3418: sysDescr.0, sysUpTime.0. RFC 2863: columns of ifTable and ifXTable.
_DESCRIPTION, _UPTIME = ".1.3.6.1.2.1.1.1.0", ".1.3.6.1.2.1.1.3.0"
_TABLE, _XTABLE = ".1.3.6.1.2.1.2.2.1", ".1.3.6.1.2.1.31.1.1.1"
_IF_DESCR, _IF_NAME = f"{_TABLE}.2", f"{_XTABLE}.1"
_OCTETS = {"in_bytes": (f"{_XTABLE}.6", f"{_TABLE}.10"), "out_bytes": (f"{_XTABLE}.10", f"{_TABLE}.16")}
# Plain output: numeric names, and time ticks as a number.
_WORDS = ("-Oqnt", "-t", "1", "-r", "2")
_PATIENCE_S = 20.0
_ANSWER = re.compile(r"^(\.1[\d.]*) (.*?)\s*(?=^\.1[\d.]* |\Z)", re.MULTILINE | re.DOTALL)


def description(source: Source) -> str:
    """Return the description of the SNMP agent's host (sysDescr); LabError if there is no answer."""
    return _text(_query(source, "snmpget", _DESCRIPTION).get(_DESCRIPTION, ""))


def counters(source: Source) -> dict[str, Any]:
    """Return the seconds since the SNMP agent's start (sysUpTime, RFC 3418), and each interface's bytes in and out.

    `bits` is the width of the counters: 32-bit counters wrap after 4 GB. Raises LabError if there is no answer.
    """
    uptime = _query(source, "snmpget", _UPTIME).get(_UPTIME, "")
    names = _column(source, _IF_DESCR) | {index: name for index, name in _column(source, _IF_NAME).items() if name}
    interfaces: dict[str, dict[str, Any]] = {}
    octets = {key: [_column(source, name) for name in columns] for key, columns in _OCTETS.items()}
    for index, name in names.items():
        long, short = ({key: _number(columns[at], index) for key, columns in octets.items()} for at in (0, 1))
        counted = long if None not in long.values() else short
        if None not in counted.values():
            shown = name if name not in interfaces else f"{name} {index}"
            interfaces[shown] = {**counted, "bits": 64 if counted is long else 32}
    return {"uptime_s": int(uptime) / 100 if uptime.isdecimal() else None, "interfaces": interfaces}


def _number(column: Mapping[str, str], index: str) -> int | None:
    text = column.get(index, "")
    return int(text) if text.isdecimal() else None


def _column(source: Source, name: str) -> dict[str, str]:
    """Return a column of a table, by the index of its rows."""
    return {
        oid.removeprefix(f"{name}."): _text(value)
        for oid, value in _query(source, "snmpbulkwalk", name).items()
        if oid.startswith(f"{name}.")
    }


def _text(value: str) -> str:
    """Return a string without its quotes, and any other value unchanged."""
    quoted = re.fullmatch(r'"(.*)"', value, re.DOTALL)
    text = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL).strip() if quoted else value
    return printable(text.replace("\r\n", "\n"))


def _query(source: Source, program: str, name: str) -> dict[str, str]:
    """Return the values at or below a name (OID)."""
    path = shutil.which(program)
    if path is None:
        raise LabError(f"program {program} is not installed (Debian: apt-get install snmp)")
    remove_stale()  # the folder of a killed process would still contain the community
    with private_folder() as folder:
        settings = folder / "snmp.conf"
        settings.touch(0o600, exist_ok=False)  # readable by this user only, as the folder is open to all
        settings.write_text(f"defVersion 2c\ndefCommunity {source.community}\n")
        environment = {"SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder), "MIBS": "", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [path, *_WORDS, source.place, name],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S,
                env={**os.environ, **environment}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LabError(f"answers from {source} did not end within {_PATIENCE_S:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"{program} of {source}: {printable(lines[-1].replace(source.community, '...'))}")
    return dict(_answers(done.stdout))


def _answers(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _ANSWER.findall(text):
        if not value.startswith("No "):  # "No Such Object" and the like (RFC 3416, section 4.2)
            yield name, value
