"""Deciding: from what is kept of a night's sessions, of earlier nights and of what was accepted, to its report.

All of it is on the disk, so that a night can be decided once more at any time, with the same result.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_ipperf.core.gate import decide
from pytest_ipperf.core.night import NightReport
from pytest_ipperf.core.story import Story
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.store import Archive, acceptances, read_story

_FAILED = 1
_OTHERWISE = (
    "it ended with status 1, for a test that measures nothing or by --ipperf-inconclusive=fail; its output says"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A night's report, with the stories of its screening, which holds it, and of its fresh session if it had one."""

    report: NightReport
    story: Story
    fresh: Story | None


def decided(
    archive: Archive, screening: Path, fresh: Path | None, *, saved: str, baseline: str, lost: str = ""
) -> Decided:
    """What a night found whose sessions lie in these folders; it has the name `saved`.

    Compared is with the earlier nights of the name `baseline`. What was accepted by the end of the night counts. `lost`
    says that an answer could not be kept, which its sessions cannot know.
    """
    story = read_story(screening)
    again = read_story(fresh) if fresh else None
    began = dt.datetime.fromtimestamp(story.began_at, dt.UTC)
    ended_at = max(each.began_at + (each.seconds or 0) for each in (story, again) if each)
    before = archive.last_night(saved, before=screening.name)
    report = decide(
        screen=story.records,
        fresh=again.records if again else (),
        expected=before.cells if before else (),
        courses=archive.nights(screening.name, saved=baseline),
        accepted=acceptances(archive.root, by=ended_at),
        today=began.date(),
        troubles={**_troubles(story, again), **({"records": lost} if lost else {})},
        metric_of=lambda name: METRICS[name].metric,
    )
    courses = archive.courses(screening.name, saved=baseline)
    return Decided(report=report, story=replace(story, courses=courses, night=report), fresh=again)


def _troubles(screening: Story, fresh: Story | None) -> dict[str, str]:
    """What the budget left out is no trouble: the gate tells that it is missing, or that it has no fresh data."""
    both = [*screening.troubles, *(fresh.troubles if fresh else ())]
    found = {each.nodeid: each.sentence for each in both if each.kind != "inconclusive"}
    if screening.status == _FAILED and not found:
        return {"pytest": _OTHERWISE}
    return found
