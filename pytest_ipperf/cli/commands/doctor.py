"""The command `doctor`: check testbeds before measuring on them, and name a remedy for each problem."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import screen_width, write_lines
from pytest_ipperf.cli.testbeds import inventory, session_testbeds, testbed_arguments, testbeds_named
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.doctor import Finding, Grade, examine
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed

_TROUBLE = 1
_COLUMNS = 110
_LEAST_COLUMNS = 60
_COLOURS = {Grade.WELL: "32", Grade.DOUBTFUL: "33", Grade.WRONG: "1;31"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    testbed_arguments(
        parser, "testbeds of the inventory, or lab, pair or loopback; default: those on which pytest would measure here"
    )
    parser.add_argument(
        "--clear", action="store_true",
        help="remove the dirty marks of hosts that you have restored; a host with visible leftovers stays marked",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def _run(args: argparse.Namespace) -> int:
    """Return 1 if something is wrong, else 0; raise UsageError for a testbed that does not exist."""
    testbeds, among = _testbeds(args)
    found: dict[str, list[Finding]] = {}
    for at, testbed in enumerate(testbeds):
        found[testbed.name] = examine(testbed, among, clear=args.clear)
        if not args.json:
            write_lines([*([""] * bool(at)), *_lines(testbed, found[testbed.name])])
            sys.stdout.flush()
    if args.json:
        document = [{"testbed": name, "findings": list(map(_plain, each))} for name, each in found.items()]
        write_lines([json.dumps({"testbeds": document}, indent=2)])
    wrong = any(finding.grade is Grade.WRONG for findings in found.values() for finding in findings)
    return _TROUBLE if wrong else 0


def _testbeds(args: argparse.Namespace) -> tuple[list[Testbed], Mapping[str, Testbed]]:
    """Return the testbeds to examine, by default those of a session, and the inventory."""
    if not args.testbed:
        return session_testbeds(args.ipperf_hosts)
    among = inventory(args.ipperf_hosts) or BUILTIN
    return testbeds_named(args.testbed, among), among


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(testbed: Testbed, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings by host, then those between hosts, and a count at the end."""
    merged = _merged(findings)
    width = max(_LEAST_COLUMNS, min(screen_width() or _COLUMNS, _COLUMNS + 20))
    topics = max((len(finding.topic) for finding in merged), default=0)
    yield _bold(_title(testbed))
    for subject in dict.fromkeys(sorted((finding.subject for finding in merged), key=_rank)):
        yield ""
        yield _bold(subject or "testbed")
        for finding in merged:
            if finding.subject == subject:
                yield from _finding_lines(finding, topics, width)
    yield ""
    count = {grade: sum(each.grade is grade for each in merged) for grade in Grade}
    yield f"testbed {testbed.name}: " + ", ".join(f"{count[grade]} {grade.value}" for grade in Grade)


def _rank(subject: str) -> int:
    """Return the rank of a subject: hosts first, then paths between them, then the testbed."""
    return 2 if not subject else 1 if "->" in subject else 0


def _title(testbed: Testbed) -> str:
    hosts = ", ".join(f"{role} {host.name}" if role != host.name else role for role, host in testbed.roles.items())
    domain = f"; domain {testbed.domain}" if testbed.domain else ""
    return f"testbed {testbed.name}: {hosts}{domain}"


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge equal findings of several hosts, common if `client` and `server` are one machine."""
    subjects: dict[tuple[Any, ...], list[str]] = {}
    for each in findings:
        subjects.setdefault((each.grade, each.topic, each.said, each.remedy), []).append(each.subject)
    return [
        Finding(grade=grade, subject=", ".join(dict.fromkeys(names)), topic=topic, said=said, remedy=remedy)
        for (grade, topic, said, remedy), names in subjects.items()
    ]


def _finding_lines(finding: Finding, topics: int, width: int) -> Iterator[str]:
    word = finding.grade.value
    head = f"  {word:<8}  {finding.topic:<{topics}}  "
    text = f"{finding.said}: {finding.remedy}" if finding.remedy else finding.said
    first, *rest = textwrap.wrap(
        printable(text), width - len(head), break_on_hyphens=False, break_long_words=False
    ) or [""]
    yield f"  {_coloured(word, _COLOURS[finding.grade])}{head[2 + len(word) :]}{first}"
    for line in rest:
        yield " " * len(head) + line


def _bold(text: str) -> str:
    return _coloured(text, "1")


def _coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def _plain(finding: Finding) -> dict[str, str]:
    return {
        "grade": finding.grade.value, "host": finding.subject, "topic": finding.topic, "said": finding.said,
        "remedy": finding.remedy,
    }  # fmt: skip


command = Command(
    help="check testbeds and their hosts, with a remedy for each problem",
    description=(
        "Checks testbeds: access, rights, limits, ports, addresses, firewalls, MTU, clocks, servers, tunnels, "
        "processors, resources, leases and leftovers of earlier measurements. Each finding is well, doubtful or wrong, "
        "with a remedy unless it is well. Exit status 1 if something is wrong."
    ),
    arguments=_arguments,
    run=_run,
)
