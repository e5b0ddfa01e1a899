"""The inventory: testbeds and their hosts, as described in `hosts.ini`, beside the built-in testbeds."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory.builtin import BUILTIN, ends_in_rate
from pytest_ipperf.lab.inventory.hosts import HOST_KEYS, read_host
from pytest_ipperf.lab.inventory.ini_reader import Section, read_sections
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.inventory.testbeds import LAB_KEYS, TESTBED_KEYS, read_lab, read_testbed

__all__ = ["HOST_KEYS", "LAB_KEYS", "TESTBED_KEYS", "read_inventory"]

_NAME = re.compile(r"[A-Za-z0-9_.]+")


def read_inventory(path: Path) -> dict[str, Testbed]:
    """Return the built-in testbeds and those of the file; UsageError with line, section and key of an invalid entry."""
    sections = read_sections(path)
    taken = dict.fromkeys(BUILTIN, "a built-in testbed")
    for section in sections:
        _check(section, taken)
    host_sections = {section.name: section for section in sections if section.kind == "host"}
    hosts = {name: read_host(section) for name, section in host_sections.items()}
    testbeds = dict(BUILTIN)
    for section in sections:
        if section.kind == "testbed":
            testbeds[section.name] = read_testbed(section, hosts, host_sections)
        elif section.kind == "lab":
            testbeds[section.name] = read_lab(section)
    return testbeds


def _check(section: Section, taken: dict[str, str]) -> None:
    """Raise UsageError for a section of an unknown kind, or a name that another testbed has."""
    where = f"{section.path}, line {section.line}"
    if section.kind not in ("host", "testbed", "lab") or not _NAME.fullmatch(section.name):
        raise UsageError(
            f"{where}: section [{section.title}] is neither [host NAME], [testbed NAME] nor [lab NAME], "
            "with a name of letters, digits, '_' and '.'"
        )
    if section.kind == "host":
        return
    if section.name in taken:
        raise UsageError(f"{where}: [{section.title}] takes the name of {taken[section.name]}; choose another")
    if ends_in_rate(section.name):
        raise UsageError(f"{where}: [{section.title}] takes the name that a lab has with a rate; choose another")
    taken[section.name] = f"another testbed, in line {section.line}"
