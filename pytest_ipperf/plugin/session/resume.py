"""Resume an earlier session: reuse the workloads that it has measured completely, and go on with those it has begun.

The runs of a reused workload are read back unchanged, and judged by the tests of this session; so are those of a begun
one, beside the runs that it lacks. A workload that was
measured for another question is measured anew, and the user is told why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import Arm, Workload, testbed_of
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import WARMUP, Epoch, Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.portable.errors import DamageError, UsageError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.plugin.options.settings import Settings
from pytest_ipperf.plugin.session.plan_text import model_digests, plan_data, question_texts
from pytest_ipperf.store import LAST, Archive, StoredSession, StoredWorkload, read_session

if TYPE_CHECKING:  # imports execnet and scipy
    from pytest_ipperf.experiment import KeptRuns, Measurement

_OPTION = "--ipperf-resume"
_ASKED = {
    "design": "--design", "reference": "--reference", "client": "--client", "server": "--ipperf-server",
    "backend": "--ipperf-backend", "deadline_s": "--ipperf-deadline", "rate_per_s": "--arrivals",
    "workers": "--ipperf-workers", "reboot": "--ipperf-reboot",
}  # fmt: skip


def find_resumed(settings: Settings, directory: Path) -> ResumedSession | None:
    """Return the session that `--ipperf-resume` names, by a folder relative to `directory`; None if not given.

    Raise UsageError if there is no such session, or if it was measured with other settings than this one.
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
    """Return the folder of the newest session saved under the same name, or of the newest without one."""
    with contextlib.closing(Archive(settings.records)) as archive:
        there = [entry for entry in archive.sessions() if entry.saved == settings.saved]
    if not there:
        named = f" that was saved as {settings.saved}" if settings.saved else ""
        raise UsageError(f"there is no session{named} in {settings.records / 'runs'} yet")
    return there[-1].folder


def _check_question(kept: StoredSession, settings: Settings) -> None:
    """Raise UsageError if a setting of all workloads differs, so that none of them could be reused."""
    version = kept.facts.get("pytest_ipperf")
    if version != __version__:
        raise UsageError(f"session {kept.name} was measured by pytest-ipperf {version}, and this is {__version__}")
    for name, option in _ASKED.items():
        there, here = kept.facts.get(name), _journalled(getattr(settings, name))
        if there != here:
            texts, had = [_display_text(value) for value in (there, here)], f"session {kept.name} had {option}"
            if texts[0] == texts[1]:  # designs of one name, which another release or a conftest.py has made
                texts = [_size_text(value) for value in (there, here)]
                raise UsageError(f"{had} {texts[0]}, and this one has {texts[1]}; measure without {_OPTION}")
            change = f"{texts[0]}, and this one has {texts[1]}"
            raise UsageError(f"session {kept.name} had {option} {change}; use the same, or measure without {_OPTION}")
    if settings.seed_asked and settings.seed != kept.facts["seed"]:
        raise UsageError(
            f"session {kept.name} had the seed {kept.facts['seed']}, and this one has --ipperf-seed={settings.seed}; "
            "leave it out"
        )


def _display_text(value: Any) -> Any:
    """Return an option's value as a user writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "nothing"
    return value["name"] if isinstance(value, dict) else value


def _size_text(value: Any) -> str:
    """Return the name and size of a journalled design: `standard (1 to 3 looks of 10 epochs x 3 blocks at 2.21 %)`."""
    if not isinstance(value, dict):
        return f"{value} of another kind"
    known = {field.name for field in dataclasses.fields(Design)}
    try:
        design = Design(**{name: each for name, each in value.items() if name in known})
    except TypeError:  # of a release whose designs had other fields
        return f"{value.get('name')} of another size"
    return f"{design.name} ({design.size_text()} at {100 * design.alpha:g} %)"


def _journalled(value: Any) -> Any:
    """Return a value as it is read back from the journal."""
    if isinstance(value, Arm):
        return str(value)
    plain = dataclasses.asdict(value) if isinstance(value, (Design, Testbed)) else value
    return json.loads(json.dumps(plain))


class ResumedSession:
    """The session that is resumed, and the workloads that this one reuses from it, or goes on with.

    `not_reused` is the reason for each workload that was begun there and is measured anew. `damage` lists the parts of
    its journals that cannot be read; workloads completed before them can be reused.
    """

    def __init__(self, kept: StoredSession, damage: Sequence[str] = ()) -> None:
        self.kept = kept
        self.damage = tuple(damage)
        self.not_reused: dict[Workload, str] = {}
        self._reused: dict[Workload, tuple[StoredSession, StoredWorkload]] = {}
        self._begun: dict[Workload, tuple[StoredSession, StoredWorkload]] = {}
        self._known = {kept.folder: kept}

    def select(self, plans: Iterable[Plan], asked: Mapping[Workload, Mapping[Arm, Collection[Question]]],
               settings: Settings) -> None:  # fmt: skip
        """Decide for each plan, once all are known, whether its measurement is reused."""
        self.not_reused, self._reused, self._begun = {}, {}, {}
        for plan in plans:
            try:
                found = self._source(plan.name)
                if found is None:
                    continue
                questions = asked[plan.workload]
                _check_workload(found[1], plan, questions, settings, knows_arms=any(questions.values()))
                ended = bool(found[1].complete) and not found[1].complete["stopped"]
                found = found if ended else (found[0], _kept(found[1], plan))
            except (UsageError, DamageError) as error:
                self.not_reused[plan.workload] = str(error)
            except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
                self.not_reused[plan.workload] = f"its records cannot be used ({type(error).__name__}: {error})"
            else:
                (self._reused if ended else self._begun)[plan.workload] = found

    def _source(self, name: str) -> tuple[StoredSession, StoredWorkload] | None:
        """Return the session that measured the plan of that name and its records there; None if no session did.

        It may be an earlier session that the resumed one had itself resumed.
        """
        kept = self.kept
        if not (name in kept.workloads and kept.workloads[name].complete):
            # What was begun there was copied first of all, if this session came so far.
            copied = name in kept.workloads and kept.workloads[name].runs
            folder = kept.reused.get(name) or (None if copied else kept.begun.get(name))
            if folder is not None:
                if folder not in self._known:
                    self._known[folder] = read_session(folder)
                kept = self._known[folder]
        return (kept, kept.workloads[name]) if name in kept.workloads else None

    def reused_folders(self) -> Iterator[tuple[Workload, Path]]:
        """Yield the reused workloads, each with the folder of the session that measured it."""
        for workload, (kept, _) in self._reused.items():
            yield workload, kept.folder

    def source_of(self, workload: Workload) -> str:
        """Return the name of the session that measured a workload; empty if it is not reused."""
        return self._reused[workload][0].name if workload in self._reused else ""

    def reuse(self, plan: Plan, state: ServerState, deadline_s: float) -> Measurement | None:
        """Return the reused measurement of a plan; None, with the reason in `not_reused`, if it cannot be used."""
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

    def begun(self) -> Iterator[tuple[Workload, str, int]]:
        """Yield the workloads that this session goes on with, the earlier session of each, and its runs."""
        for workload, (kept, found) in self._begun.items():
            yield workload, kept.name, len(found.runs)

    def begun_folders(self) -> Iterator[tuple[Workload, Path]]:
        """Yield the workloads that this session goes on with, each with the folder of the session that began it."""
        for workload, (kept, _) in self._begun.items():
            yield workload, kept.folder

    def go_on(self, plan: Plan, state: ServerState, deadline_s: float) -> tuple[KeptRuns, StoredWorkload, str] | None:
        """Return the runs with which to go on, their records and session; None if there are none to be used.

        `not_reused` has the reason if there are some.
        """
        from pytest_ipperf.plugin.session.rebuild import load_kept  # noqa: PLC0415 - loads scipy

        if plan.workload not in self._begun:
            return None
        kept, found = self._begun[plan.workload]
        try:
            return load_kept(found, plan, state, deadline_s), found, kept.name
        except UsageError as error:
            self.not_reused[plan.workload] = str(error)
            del self._begun[plan.workload]
        return None

    def reuse_fresh(
        self, plan: Plan, state: ServerState, deadline_s: float, settings: Settings
    ) -> tuple[Measurement, StoredSession] | None:
        """Return the reused fresh epochs of a plan and the session that measured them; None if none did.

        Raise UsageError with the reason if they were begun there and cannot be used.
        """
        from pytest_ipperf.plugin.session.rebuild import load_measurement  # noqa: PLC0415 - loads scipy

        try:
            found = self._source(plan.name)
            if found is None:
                return None
            _check_workload(found[1], plan, {}, settings, knows_arms=True)
            if not found[1].complete:
                raise UsageError(_broken_off(found[1], plan))
            return load_measurement(found[1], plan, state, deadline_s), found[0]
        except (DamageError, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            raise UsageError(f"its records cannot be used ({type(error).__name__}: {error})") from None

    def not_reused_texts(self) -> dict[str, str]:
        """Return `not_reused` as it is sent from a worker to the controller."""
        return {str(workload): why for workload, why in self.not_reused.items()}

    def mark_not_reused(self, reasons: Mapping[str, str]) -> None:
        """Note the workloads that a worker could not reuse, with its reasons."""
        for workload in [each for each in self._reused if str(each) in reasons]:
            self.not_reused[workload] = reasons[str(workload)]
            del self._reused[workload]

    def hosts_changed(self, here: StoredSession) -> list[str]:
        """Return the differences between this session's hosts and those of the earlier one, a line for each fact."""
        now = {place: value for found in here.workloads.values() for place, value in _hosts(found)}
        lines = [
            f"{role} of testbed {testbed}: {fact} was {there} in session {kept.name} and is {now[place]} now"
            for kept, found in (*self._reused.values(), *self._begun.values())
            for place, there in _hosts(found)
            if now.get(place, there) != there
            for testbed, role, fact in [place]
        ]
        return list(dict.fromkeys(lines))


def _check_workload(found: StoredWorkload, plan: Plan, asked: Mapping[Arm, Collection[Question]],
                    settings: Settings, *, knows_arms: bool) -> None:  # fmt: skip
    """Raise UsageError with the reason if the records of a workload do not answer this session's questions.

    Unless the caller `knows_arms`, records without the reference will do: the controller of xdist cannot tell all tests
    of limits alone, which measure none.
    """
    facts, order = found.complete or found.workload_event, plan_data(plan)
    if "testbed" not in facts:
        raise UsageError(_broken_off(found, plan))
    for arm, sentence in facts.get("trouble", {}).items():
        raise UsageError(f"{arm} had trouble there: {sentence}")
    there, here = _arms(found.workload_event["order"]), _arms(order)
    references = {str(plan.workload.reference(arm, settings.reference)) for arm in plan.arms}
    if not knows_arms and not references & {*there} and {*there} | references == {*here}:
        return
    if there != here:
        raise UsageError(f"its arms were {', '.join(_arms(found.workload_event['order']))} there")
    if found.workload_event["order"] != order:
        raise UsageError("its order was another there")
    if facts["testbed"] != _journalled(settings.inventory[plan.workload.testbed]):
        raise UsageError(f"testbed {plan.workload.testbed} had other hosts there")
    _check_models(facts.get("models", {}), model_digests(plan, settings.models))
    # The controller of xdist knows no questions. With a single look, the measurement does not depend on them.
    if plan.looks > 1 and any(asked.values()) and facts["asked"] != question_texts(asked):
        raise UsageError("the tests asked other questions there")
    if not found.whole:
        raise UsageError("not all of its samples are there")


def _check_models(there: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise UsageError if a traffic model of both sessions, by name with its digest, has another content now."""
    for name, digest in here.items():
        if there.get(name, digest) != digest:
            raise UsageError(f"traffic model {name} had another content there")


def _kept(found: StoredWorkload, plan: Plan) -> StoredWorkload:
    """Return what a session can go on with: whole epochs, or single runs if they are parts or made arm by arm.

    Raise UsageError if there is nothing.
    """
    made: dict[int, set[tuple[int, int]]] = {}
    for run in found.runs:
        made.setdefault(run["epoch"], set()).add((run["block"], run["slot"]))
    kept = set()
    for number in range(plan.looks):
        look = plan.look(number)
        # Later looks leave out decided arms. An arm that had trouble would lack blocks in common with the others.
        arms = frozenset(plan.arms) if number == 0 else _arms_made(look[0], made.get(look[0].number, set()))
        kept |= {epoch.number for epoch in look if _is_kept(epoch, made.get(epoch.number, set()), arms)}
    if not kept:
        raise UsageError(_broken_off(found, plan))
    return dataclasses.replace(
        found,
        runs=[run for run in found.runs if run["epoch"] in kept],
        epochs=[epoch for epoch in found.epochs if epoch["epoch"] in kept],
        others=[(kind, facts) for kind, facts in found.others if facts["epoch"] in kept],
    )


def _is_kept(epoch: Epoch, made: Collection[tuple[int, int]], arms: Collection[Arm]) -> bool:
    """Return whether the runs of these blocks and slots are kept: all of `arms`, or some if the runs are parts."""
    needed = {(block, slot) for block, slot, arm in epoch.places() if arm in arms}
    counted = any(block != WARMUP for block, _ in made)
    return counted and (epoch.together > 1 or needed == {*made})


def _arms_made(epoch: Epoch, made: Collection[tuple[int, int]]) -> frozenset[Arm]:
    return frozenset(arm for block, slot, arm in epoch.places() if (block, slot) in made)


def _broken_off(found: StoredWorkload, plan: Plan) -> str:
    how = found.broken[-1] if found.broken else f"it ended after {len(found.runs)} of {plan.runs} runs"
    return f"broken off there: {how}"


def _arms(order: Any) -> list[str]:
    return sorted({arm for epoch in order for arm in epoch["warmups"]})


def _hosts(found: StoredWorkload) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Yield the facts of the hosts' fingerprints in a workload, without device names, which change."""
    testbed = testbed_of(found.workload_event["workload"])
    for epoch in found.epochs[:1]:
        for role, facts in epoch["fingerprint"].items():
            for fact, value in facts.items():
                if isinstance(value, dict):
                    yield from (((testbed, role, f"{fact} {name}"), each) for name, each in value.items())
                elif fact != "device":
                    yield (testbed, role, fact), value
