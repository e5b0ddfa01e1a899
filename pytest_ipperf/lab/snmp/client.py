"""Ask a host, or the switch before it, by SNMP for itself and its interface counters.

Asked are Net-SNMP's own programs, by SNMPv2c (RFC 3416). The community is in no command line, which every user of this
machine could read, but in a file for them alone, and in nothing that is shown or kept.
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
# Values as they are: numeric names, ticks of time as a number.
_WORDS = ("-Oqnt", "-t", "1", "-r", "2")
_PATIENCE_S = 20.0
_ANSWER = re.compile(r"^(\.1[\d.]*) (.*?)\s*(?=^\.1[\d.]* |\Z)", re.MULTILINE | re.DOTALL)


def description(source: Source) -> str:
    """What the one who answers says that it is (sysDescr); LabError where nobody does."""
    return _text(_asked(source, "snmpget", _DESCRIPTION).get(_DESCRIPTION, ""))


def counters(source: Source) -> dict[str, Any]:
    """Seconds since its SNMP agent was started (sysUpTime, RFC 3418), and by interface the bytes in and out.

    `bits` are those of the counters: where it has none of 64 they begin anew after 4 GB. LabError where nobody answers.
    """
    uptime = _asked(source, "snmpget", _UPTIME).get(_UPTIME, "")
    names = _column(source, _IF_DESCR) | {index: name for index, name in _column(source, _IF_NAME).items() if name}
    found: dict[str, dict[str, Any]] = {}
    octets = {key: [_column(source, name) for name in columns] for key, columns in _OCTETS.items()}
    for index, name in names.items():
        long, short = ({key: _number(columns[at], index) for key, columns in octets.items()} for at in (0, 1))
        counted = long if None not in long.values() else short
        if None not in counted.values():
            shown = name if name not in found else f"{name} {index}"
            found[shown] = {**counted, "bits": 64 if counted is long else 32}
    return {"uptime_s": int(uptime) / 100 if uptime.isdecimal() else None, "interfaces": found}


def _number(column: Mapping[str, str], index: str) -> int | None:
    text = column.get(index, "")
    return int(text) if text.isdecimal() else None


def _column(source: Source, name: str) -> dict[str, str]:
    """A column of a table, by the index of its rows."""
    return {
        found.removeprefix(f"{name}."): _text(value)
        for found, value in _asked(source, "snmpbulkwalk", name).items()
        if found.startswith(f"{name}.")
    }


def _text(value: str) -> str:
    """A string without its quotes, anything else as it is."""
    quoted = re.fullmatch(r'"(.*)"', value, re.DOTALL)
    said = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL).strip() if quoted else value
    return printable(said.replace("\r\n", "\n"))


def _asked(source: Source, program: str, name: str) -> dict[str, str]:
    """What is told under a name, or below it."""
    path = shutil.which(program)
    if path is None:
        raise LabError(f"program {program} is not installed (Debian: apt-get install snmp)")
    remove_stale()  # where somebody was killed at this point, his folder has the community
    with private_folder() as folder:
        settings = folder / "snmp.conf"
        settings.touch(0o600, exist_ok=False)  # for this user alone, in a folder that all may enter
        settings.write_text(f"defVersion 2c\ndefCommunity {source.community}\n")
        own = {"SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder), "MIBS": "", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [path, *_WORDS, source.place, name],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S,
                env={**os.environ, **own}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LabError(f"no end of the answers from {source} in {_PATIENCE_S:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LabError(f"{program} of {source}: {printable(lines[-1].replace(source.community, '...'))}")
    return dict(_answers(done.stdout))


def _answers(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _ANSWER.findall(text):
        if not value.startswith("No "):  # such object, such instance, more variables: RFC 3416, section 4.2
            yield name, value
