"""Resume an earlier session: reuse the workloads that it has measured whole.

Taken over is a workload as it was: its runs are read back, and the tests of this session judge them. It must have been
measured for the same question; where it was not, a sentence says so and it is measured anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.plugin.session.plan_text import plan_data, question_texts
from pytest_ipperf.store import LAST, Archive, StoredSession, StoredWorkload, read_session

if TYPE_CHECKING:  # execnet and scipy come with it
    from pytest_ipperf.experiment import Measurement

_OPTION = "--ipperf-resume"
_ASKED = {
    "design": "--design", "reference": "--reference", "client": "--client", "server": "--ipperf-server",
    "backend": "--ipperf-backend", "deadline_s": "--ipperf-deadline", "rate_per_s": "--arrivals",
    "workers": "--ipperf-workers", "reboot": "--ipperf-reboot",
}  # fmt: skip


def find_resumed(settings: Settings, directory: Path) -> ResumedSession | None:
    """Return the session that `--ipperf-resume` names, a folder from `directory`; None where it names none.

    UsageError where there is no such session, or it had another question than this one.
    """
    if not settings.resume:
        return None
    damage: list[str] = []
    try:
        folder = _last(settings) if settings.resume == LAST else directory / settings.resume
        kept = read_session(folder.resolve(), damage=damage)
        _check_question(kept, settings)
    except (UsageError, DamageError) as error:
        raise UsageError(f"{_OPTION}: {error}") from None
    return ResumedSession(kept, damage)


def _last(settings: Settings) -> Path:
    """The newest session of the same name, or of those without one: the same command goes on with what it began."""
    with contextlib.closing(Archive(settings.records)) as archive:
        there = [entry for entry in archive.sessions() if entry.saved == settings.saved]
    if not there:
        named = f" that was saved as {settings.saved}" if settings.saved else ""
        raise UsageError(f"there is no session{named} in {settings.records / 'runs'} yet")
    return there[-1].folder


def _check_question(kept: StoredSession, settings: Settings) -> None:
    """What holds for all workloads of a session must be the same: else nothing of it could be reused."""
    version = kept.facts.get("pytest_ipperf")
    if version != __version__:
        raise UsageError(f"session {kept.name} was measured by pytest-ipperf {version}, and this is {__version__}")
    for name, option in _ASKED.items():
        there, here = kept.facts.get(name), _journalled(getattr(settings, name))
        if there != here:
            texts = [_display_text(value) for value in (there, here)]
            change = (
                f"{texts[0]}, and this one has {texts[1]}" if texts[0] != texts[1] else f"{texts[0]} of another size"
            )
            raise UsageError(f"session {kept.name} had {option} {change}; ask the same, or measure without {_OPTION}")
    if settings.seed_asked and settings.seed != kept.facts["seed"]:
        raise UsageError(
            f"session {kept.name} had the seed {kept.facts['seed']}, and this one has --ipperf-seed={settings.seed}; "
            "leave it out"
        )


def _display_text(value: Any) -> Any:
    """Return an option's value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "nothing"
    return value["name"] if isinstance(value, dict) else value


def _journalled(value: Any) -> Any:
    """Return a value as the journal gives it back."""
    if isinstance(value, Arm):
        return str(value)
    plain = dataclasses.asdict(value) if isinstance(value, (Design, Testbed)) else value
    return json.loads(json.dumps(plain))


class ResumedSession:
    """The session that is resumed, and what this one reuses of it.

    `not_reused` holds for each workload that was begun there why it is measured anew, `damage` what of its journals
    cannot be read; the workloads that are complete before that can be reused.
    """

    def __init__(self, kept: StoredSession, damage: Sequence[str] = ()) -> None:
        self.kept = kept
        self.damage = tuple(damage)
        self.not_reused: dict[Workload, str] = {}
        self._reused: dict[Workload, tuple[StoredSession, StoredWorkload]] = {}
        self._known = {kept.folder: kept}

    def select(self, plans: Iterable[Plan], asked: Mapping[Workload, Mapping[Arm, Collection[Question]]],
               settings: Settings) -> None:  # fmt: skip
        """Decide of each plan, once all are known, whether its measurement is reused."""
        self.not_reused, self._reused = {}, {}
        for plan in plans:
            try:
                found = self._source(plan.workload)
                if found is None:
                    continue
                _check_workload(found[1], plan, asked[plan.workload], settings)
            except (UsageError, DamageError) as error:
                self.not_reused[plan.workload] = str(error)
            except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
                self.not_reused[plan.workload] = f"its records cannot be used ({type(error).__name__}: {error})"
            else:
                self._reused[plan.workload] = found

    def _source(self, workload: Workload) -> tuple[StoredSession, StoredWorkload] | None:
        """The session that measured it, which may be an earlier one that the resumed session resumed."""
        name, kept = str(workload), self.kept
        if name in kept.reused and not (name in kept.workloads and kept.workloads[name].complete):
            folder = kept.reused[name]
            if folder not in self._known:
                self._known[folder] = read_session(folder)
            kept = self._known[folder]
        return (kept, kept.workloads[name]) if name in kept.workloads else None

    def reused_folders(self) -> Iterator[tuple[Workload, Path]]:
        """Yield the reused workloads, each with the folder of the session that measured it."""
        for workload, (kept, _) in self._reused.items():
            yield workload, kept.folder

    def source_of(self, workload: Workload) -> str:
        """Return the name of the session that measured a workload; empty where it is not reused."""
        return self._reused[workload][0].name if workload in self._reused else ""

    def reuse(self, plan: Plan, state: ServerState, deadline_s: float) -> Measurement | None:
        """Return the measurement; None, with the reason in `not_reused`, where it cannot be used after all."""
        from pytest_ipperf.plugin.session.rebuild import load_measurement  # noqa: PLC0415 - loads scipy

        if plan.workload not in self._reused:
            return None
        _, found = self._reused[plan.workload]
        try:
            return load_measurement(found, plan, state, deadline_s)
        except UsageError as error:
            self.not_reused[plan.workload] = str(error)
            del self._reused[plan.workload]
        return None

    def not_reused_texts(self) -> dict[str, str]:
        """Return `not_reused` as it is sent from a worker to the controller."""
        return {str(workload): why for workload, why in self.not_reused.items()}

    def mark_not_reused(self, reasons: Mapping[str, str]) -> None:
        """Note the workloads that a worker could not reuse, with its reasons."""
        for workload in [each for each in self._reused if str(each) in reasons]:
            self.not_reused[workload] = reasons[str(workload)]
            del self._reused[workload]

    def hosts_changed(self, here: StoredSession) -> list[str]:
        """What is different of the hosts on which this session measured, from those where the earlier one did."""
        now = {place: value for found in here.workloads.values() for place, value in _hosts(found)}
        lines = [
            f"{role} of testbed {testbed}: {fact} was {there} in session {kept.name} and is {now[place]} now"
            for kept, found in self._reused.values()
            for place, there in _hosts(found)
            if now.get(place, there) != there
            for testbed, role, fact in [place]
        ]
        return list(dict.fromkeys(lines))


def _check_workload(found: StoredWorkload, plan: Plan, asked: Mapping[Arm, Collection[Question]],
                    settings: Settings) -> None:  # fmt: skip
    """UsageError with the reason why what is kept of a workload does not answer what this session asks of it."""
    complete, order = found.complete, plan_data(plan)
    if not complete:
        how = found.broken[-1] if found.broken else f"it ended after {len(found.runs)} of {plan.runs} runs"
        raise UsageError(f"broken off there: {how}")
    for arm, sentence in complete["trouble"].items():
        raise UsageError(f"{arm} had trouble there: {sentence}")
    if complete["stopped"]:
        raise UsageError(f"left open there: {complete['stopped']}")
    if _arms(found.workload_event["order"]) != _arms(order):
        raise UsageError(f"its arms were {', '.join(_arms(found.workload_event['order']))} there")
    if found.workload_event["order"] != order:
        raise UsageError("its order was another there")
    if complete["testbed"] != _journalled(settings.inventory[plan.workload.testbed]):
        raise UsageError(f"testbed {plan.workload.testbed} had other hosts there")
    # The controller of xdist knows no questions; where there is one look, they do not count for what is measured.
    if plan.looks > 1 and any(asked.values()) and complete["asked"] != question_texts(asked):
        raise UsageError("the tests asked other questions there")
    if not found.whole:
        raise UsageError("not all of its samples are there")


def _arms(order: Any) -> list[str]:
    return sorted({arm for epoch in order for arm in epoch["warmups"]})


def _hosts(found: StoredWorkload) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """The fingerprints of a workload's hosts, fact by fact; names of devices come and go."""
    testbed = found.workload_event["workload"].partition("-")[0]
    for epoch in found.epochs[:1]:
        for role, facts in epoch["fingerprint"].items():
            for fact, value in facts.items():
                if isinstance(value, dict):
                    yield from (((testbed, role, f"{fact} {name}"), each) for name, each in value.items())
                elif fact != "device":
                    yield (testbed, role, fact), value
