"""Run `pytest-ipperf doctor` as the controller of a farm."""

from __future__ import annotations

import json
import re
from pathlib import Path

ASK = """
import sys
from pytest_ipperf.cli import main
status = main(["doctor", *{arguments!r}, "--ipperf-hosts", {inventory!r}])
print(f"status {{status}}")
"""


def asked(farm, *arguments):
    """Return the output and exit status of the doctor; without a name for all testbeds of the inventory."""
    if not any(each.startswith("--testbed") for each in arguments):
        named = re.findall(r"^\[testbed (\S+)\]", Path(farm.inventory).read_text(encoding="utf-8"), re.MULTILINE)
        arguments = (*arguments, f"--testbed={','.join(named)}")
    *lines, status = farm.python(ASK.format(arguments=arguments, inventory=str(farm.inventory))).splitlines()
    return "\n".join(lines), int(status.removeprefix("status "))


def findings(farm, *arguments):
    """Return the doctor's findings by host and topic, and its exit status."""
    text, status = asked(farm, "--json", *arguments)
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for testbed in json.loads(text)["testbeds"]:
        for each in testbed["findings"]:
            reported = f"{each['said']}: {each['remedy']}" if each["remedy"] else each["said"]
            found.setdefault((each["host"], each["topic"]), []).append((each["grade"], reported))
    return found, status
