"""Resuming: what an earlier session has measured whole, and this one need not measure again.

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
from pytest_ipperf.plugin.session.plan_text import asked_texts, order_of
from pytest_ipperf.store import LAST, Archive, StoredSession, StoredWorkload, read_session

if TYPE_CHECKING:  # execnet and scipy come with it
    from pytest_ipperf.experiment import Measurement

_OPTION = "--ipperf-resume"
_ASKED = {
    "design": "--design", "reference": "--reference", "client": "--client", "server": "--ipperf-server",
    "backend": "--ipperf-backend", "deadline_s": "--ipperf-deadline", "rate_per_s": "--arrivals",
    "workers": "--ipperf-workers", "reboot": "--ipperf-reboot",
}  # fmt: skip


def find_earlier(settings: Settings, directory: Path) -> Earlier | None:
    """The session that `--ipperf-resume` names, a folder from `directory`; None where it names none.

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
    return Earlier(kept, damage)


def _last(settings: Settings) -> Path:
    """The newest session of the same name, or of those without one: the same command goes on with what it began."""
    with contextlib.closing(Archive(settings.records)) as archive:
        there = [entry for entry in archive.sessions() if entry.saved == settings.saved]
    if not there:
        named = f" that was saved as {settings.saved}" if settings.saved else ""
        raise UsageError(f"there is no session{named} in {settings.records / 'runs'} yet")
    return there[-1].folder


def _check_question(kept: StoredSession, settings: Settings) -> None:
    """What holds for all workloads of a session must be the same: else nothing of it could be taken over."""
    version = kept.facts.get("pytest_ipperf")
    if version != __version__:
        raise UsageError(f"session {kept.name} was measured by pytest-ipperf {version}, and this is {__version__}")
    for name, option in _ASKED.items():
        there, here = kept.facts.get(name), _plain(getattr(settings, name))
        if there != here:
            told = [_told(value) for value in (there, here)]
            change = f"{told[0]}, and this one has {told[1]}" if told[0] != told[1] else f"{told[0]} of another size"
            raise UsageError(f"session {kept.name} had {option} {change}; ask the same, or measure without {_OPTION}")
    if settings.seed_asked and settings.seed != kept.facts["seed"]:
        raise UsageError(
            f"session {kept.name} had the seed {kept.facts['seed']}, and this one has --ipperf-seed={settings.seed}; "
            "leave it out"
        )


def _told(value: Any) -> Any:
    """As people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "nothing"
    return value["name"] if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """As the journal gives it back."""
    if isinstance(value, Arm):
        return str(value)
    plain = dataclasses.asdict(value) if isinstance(value, (Design, Testbed)) else value
    return json.loads(json.dumps(plain))


class Earlier:
    """The session that is resumed, and what this one takes over from it.

    `anew` tells for each workload that was begun there why it is measured anew, `damage` what of its journals cannot be
    read; the workloads that are complete before that can be taken over.
    """

    def __init__(self, kept: StoredSession, damage: Sequence[str] = ()) -> None:
        self.kept = kept
        self.damage = tuple(damage)
        self.anew: dict[Workload, str] = {}
        self._taken: dict[Workload, tuple[StoredSession, StoredWorkload]] = {}
        self._known = {kept.folder: kept}

    def choose(self, plans: Iterable[Plan], asked: Mapping[Workload, Mapping[Arm, Collection[Question]]],
               settings: Settings) -> None:  # fmt: skip
        """Decides of each plan, once all are known, whether it is taken over."""
        self.anew, self._taken = {}, {}
        for plan in plans:
            try:
                found = self._source(plan.workload)
                if found is None:
                    continue
                _check_workload(found[1], plan, asked[plan.workload], settings)
            except (UsageError, DamageError) as error:
                self.anew[plan.workload] = str(error)
            except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
                self.anew[plan.workload] = f"its records cannot be used ({type(error).__name__}: {error})"
            else:
                self._taken[plan.workload] = found

    def _source(self, workload: Workload) -> tuple[StoredSession, StoredWorkload] | None:
        """The session that measured it, which may be an earlier one that the resumed session resumed."""
        name, kept = str(workload), self.kept
        if name in kept.taken_over and not (name in kept.workloads and kept.workloads[name].complete):
            folder = kept.taken_over[name]
            if folder not in self._known:
                self._known[folder] = read_session(folder)
            kept = self._known[folder]
        return (kept, kept.workloads[name]) if name in kept.workloads else None

    def taken_folders(self) -> Iterator[tuple[Workload, Path]]:
        """What is taken over, with the folder of the session that measured it."""
        for workload, (kept, _) in self._taken.items():
            yield workload, kept.folder

    def name_of(self, workload: Workload) -> str:
        """The session that measured it; empty where it is not taken over."""
        return self._taken[workload][0].name if workload in self._taken else ""

    def take(self, plan: Plan, state: ServerState, deadline_s: float) -> Measurement | None:
        """The measurement as it was; None, with the reason in `anew`, where it cannot be used after all."""
        from pytest_ipperf.plugin.session.rebuild import rebuild  # noqa: PLC0415 - only what measures loads scipy

        if plan.workload not in self._taken:
            return None
        _, found = self._taken[plan.workload]
        try:
            return rebuild(found, plan, state, deadline_s)
        except UsageError as error:
            self.anew[plan.workload] = str(error)
            del self._taken[plan.workload]
        return None

    def told_anew(self) -> dict[str, str]:
        """`anew` as it travels, from a worker to the controller."""
        return {str(workload): why for workload, why in self.anew.items()}

    def note_anew(self, told: Mapping[str, str]) -> None:
        """What a worker found that it cannot take over, of what was to be."""
        for workload in [each for each in self._taken if str(each) in told]:
            self.anew[workload] = told[str(workload)]
            del self._taken[workload]

    def hosts_changed(self, here: StoredSession) -> list[str]:
        """What is different of the hosts on which this session measured, from those where the earlier one did."""
        now = {place: value for found in here.workloads.values() for place, value in _hosts(found)}
        lines = [
            f"{role} of testbed {testbed}: {fact} was {there} in session {kept.name} and is {now[place]} now"
            for kept, found in self._taken.values()
            for place, there in _hosts(found)
            if now.get(place, there) != there
            for testbed, role, fact in [place]
        ]
        return list(dict.fromkeys(lines))


def _check_workload(found: StoredWorkload, plan: Plan, asked: Mapping[Arm, Collection[Question]],
                    settings: Settings) -> None:  # fmt: skip
    """UsageError with the reason why what is kept of a workload does not answer what this session asks of it."""
    complete, order = found.complete, order_of(plan)
    if not complete:
        how = found.broken[-1] if found.broken else f"it ended after {len(found.runs)} of {plan.runs} runs"
        raise UsageError(f"broken off there: {how}")
    for arm, sentence in complete["trouble"].items():
        raise UsageError(f"{arm} had trouble there: {sentence}")
    if complete["stopped"]:
        raise UsageError(f"left open there: {complete['stopped']}")
    if _arms(found.begun["order"]) != _arms(order):
        raise UsageError(f"its arms were {', '.join(_arms(found.begun['order']))} there")
    if found.begun["order"] != order:
        raise UsageError("its order was another there")
    if complete["testbed"] != _plain(settings.inventory[plan.workload.testbed]):
        raise UsageError(f"testbed {plan.workload.testbed} had other hosts there")
    # The controller of xdist knows no questions; where there is one look, they do not count for what is measured.
    if plan.looks > 1 and any(asked.values()) and complete["asked"] != asked_texts(asked):
        raise UsageError("the tests asked other questions there")
    if not found.whole:
        raise UsageError("not all of its samples are there")


def _arms(order: Any) -> list[str]:
    return sorted({arm for epoch in order for arm in epoch["warmups"]})


def _hosts(found: StoredWorkload) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """The fingerprints of a workload's hosts, fact by fact; names of devices come and go."""
    testbed = found.begun["workload"].partition("-")[0]
    for epoch in found.epochs[:1]:
        for role, facts in epoch["fingerprint"].items():
            for fact, value in facts.items():
                if isinstance(value, dict):
                    yield from (((testbed, role, f"{fact} {name}"), each) for name, each in value.items())
                elif fact != "device":
                    yield (testbed, role, fact), value
