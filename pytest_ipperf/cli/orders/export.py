"""`export` writes a session, or the night of which it was the screening, in another format."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ipperf.cli.choosing import SESSION, Chosen, Records, records
from pytest_ipperf.cli.orders.base import Order, records_argument
from pytest_ipperf.core.errors import LabError, UsageError
from pytest_ipperf.core.story import Story
from pytest_ipperf.report.formats import FORMATS
from pytest_ipperf.store import VERDICT, read_story


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument("--format", dest="form", required=True, metavar="NAME", help=f"one of {', '.join(FORMATS)}")
    parser.add_argument("--output", "-o", default="", metavar="FILE", help="where to; default standard output")
    records_argument(parser)


def _run(asked: argparse.Namespace) -> int:
    if asked.form not in FORMATS:
        raise UsageError(f"--format: {asked.form!r} does not exist; there are {', '.join(FORMATS)}")
    with records(asked.records) as found:
        told = FORMATS[asked.form].render(_story(found, found.session(asked.session)))
    if not asked.output:
        sys.stdout.buffer.write(told)
        sys.stdout.buffer.flush()
        return 0
    try:
        Path(asked.output).write_bytes(told)
    except OSError as error:
        raise LabError(f"--output: {asked.output} cannot be written ({error.strerror})") from error
    return 0


def _story(found: Records, session: Chosen) -> Story:
    """With the course of its cells over the sessions of the same name, and the night that it belongs to."""
    if session.entry is None:
        return read_story(session.folder)
    verdict = found.root / "nights" / session.name / VERDICT
    if session.entry.light is not None and verdict.exists():
        return _night(found, session, json.loads(verdict.read_bytes()))
    story = read_story(session.folder)
    if not story.saved:
        return story
    return replace(story, courses=found.archive.courses(session.name, saved=story.saved))


def _night(found: Records, session: Chosen, told: Mapping[str, Any]) -> Story:
    """Decided once more from the records, as its verdict has no measurements."""
    from pytest_ipperf.cli.night.deciding import decided  # noqa: PLC0415 - loads scipy

    fresh = found.root / "runs" / told["fresh_session"] if told.get("fresh_session") else None
    saved = told["saved"]
    return decided(found.archive, session.folder, fresh, saved=saved, baseline=told.get("baseline") or saved).story


order = Order(
    help="write a session, with its night, in another format",
    description=(
        "Writes a session in another format; where it was the screening of a night, with what the night ruled. It is "
        "made of the records alone, so it is the same whenever that is done."
    ),
    epilog=f"Formats: {', '.join(FORMATS)}.",
    arguments=_arguments,
    run=_run,
)
