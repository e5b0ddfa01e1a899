"""Archive of a folder of records: find sessions by name, and read the history of a cell over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.core.portable.errors import DamageError, LabError, UsageError
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.store.history.nights import StoredNight, read_night
from pytest_ipperf.store.index.index import FILE, Index, SessionEntry
from pytest_ipperf.store.index.tables import INTACT
from pytest_ipperf.store.log.migration import tells_end

LAST = "last"
FRESH = ".fresh"
"""Behind a night's name, that of its second session: one of its own choice of cells, which nobody means by `last`."""
_PAST = (
    "key.cell, key.metric, key.version, session.name, session.began_at, change, sd_epoch, epochs, test_value, "
    "reference_value, m.text, margin_fraction, header_cost, v.text, f.text, sound, usable"
)
_FROM = (
    "FROM past JOIN key ON key.id = past.key JOIN session ON session.id = past.session JOIN word m ON m.id = margin "
    "JOIN word v ON v.id = verdict JOIN word f ON f.id = fingerprint"
)
_OF_SESSION = f"SELECT {_PAST} {_FROM} WHERE session.name = ? AND {INTACT}"
_OF_KEY = f"""SELECT {_PAST} {_FROM} WHERE past.key = (SELECT id FROM key WHERE cell = ? AND metric = ? AND version = ?)
AND trouble = '' AND (? = '' OR session.saved = ?) AND {INTACT}
ORDER BY session.began_at DESC, session.name DESC LIMIT ?"""  # noqa: S608
# Of some keys of a session. Words and names are looked up outside, as there are hundreds of thousands of such rows.
_OF_KEYS = f"""SELECT key, taken_from, change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction,
header_cost, verdict, fingerprint, sound, usable FROM past
WHERE session = ? AND key IN (SELECT value FROM json_each(?)) AND (sound AND usable OR ?) AND {INTACT}"""  # noqa: S608
_WORDS = (5, 8, 9)  # margin, verdict, fingerprint behind the first two
_ORIGINS = """SELECT key.id, cell, metric, key.version, CASE text WHEN '' THEN session.name ELSE text END FROM past
JOIN key ON key.id = past.key JOIN session ON session.id = past.session JOIN word ON word.id = taken_from
WHERE session.name = ?"""
_LAST_NIGHT = """SELECT name FROM night WHERE saved = ?
AND (? = '' OR (began_at, name) < (SELECT session.began_at, session.name FROM session WHERE session.name = ?))
ORDER BY began_at DESC, name DESC LIMIT 1"""
_DAMAGE = """SELECT trouble FROM session WHERE trouble != '' AND (saved = ? OR schema IS NULL)
AND (began_at, name) < (SELECT own.began_at, own.name FROM session AS own WHERE own.name = ?) ORDER BY began_at, name"""
_BEFORE = """SELECT id, name, began_at, light FROM session WHERE saved = ? AND trouble = ''
AND (began_at, name) < (SELECT own.began_at, own.name FROM session AS own WHERE own.name = ?)
ORDER BY began_at DESC, name DESC"""


class Archive:
    """Opened over the folder of records `root`; `notes` are sentences about what could not be used of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._index = Index(root)

    @property
    def notes(self) -> list[str]:
        """Of the index, of nights without a verdict to read, and of the sessions whose records cannot be read."""
        rows = self._index.query("SELECT trouble FROM session WHERE trouble != '' ORDER BY began_at, name")
        return [*self._index.notes, *self._index.unread.values(), *(trouble for (trouble,) in rows)]

    def close(self) -> None:
        """Closes the index."""
        self._index.close()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self, saved: str = "") -> list[SessionEntry]:
        """All that have records or were begun, the oldest first; with `saved` those of that name.

        One of which nothing can be read is among them, without a name that it was saved under.
        """
        counts: dict[int, dict[str, int]] = {}
        for number, verdict, cells in self._index.query("SELECT session, verdict, cells FROM tally"):
            counts.setdefault(number, {})[verdict] = cells
        rows = self._index.query(
            "SELECT id, name, began_at, seconds, status, design, saved, version, arguments, undecided, troubles, "
            "trouble, light, schema, measured, planned, missing, "
            "EXISTS (SELECT 1 FROM journal WHERE journal.session = session.id AND half) FROM session "
            "WHERE began_at IS NOT NULL AND (? = '' OR saved = ?) ORDER BY began_at, name",
            saved,
            saved,
        )
        return [self._entry(row, counts.get(row[0], {})) for row in rows]

    def _entry(self, row: tuple[Any, ...], verdicts: Mapping[str, int]) -> SessionEntry:
        _, name, began_at, seconds, status, design, saved, version, arguments, undecided, *rest = row
        troubles, trouble, gate_status, schema, measured, planned, missing, partial_line = rest
        return SessionEntry(
            name=name,
            folder=self.root / "runs" / name,
            began_at=began_at,
            seconds=seconds,
            status=status,
            design=design,
            saved=saved,
            version=version,
            arguments=tuple(json.loads(arguments)),
            verdicts=dict(verdicts),
            troubles=troubles + undecided,
            trouble=trouble,
            gate_status=gate_status,
            tells_end=schema is not None and tells_end(schema),
            measured=measured,
            planned=planned,
            missing=missing,
            partial_line=bool(partial_line),
            running=name in self._index.running,
        )

    def whole(self) -> list[SessionEntry]:
        """Return all sessions but the second ones of nights, which measure a choice of their own; the oldest first."""
        return _whole(self.sessions())

    def find(self, name: str) -> SessionEntry:
        """The session that `name` means; UsageError where there is none, or more than one.

        `last`, `last~2` (the last but two; the second sessions of nights do not count), a name under which sessions
        were saved (its newest), a session's name or its beginning, or its folder.
        """
        there = self.sessions()
        if not there:
            raise UsageError(f"there is no session in {self.root / 'runs'} yet")
        if match := re.fullmatch(rf"{LAST}(?:~(\d{{1,9}}))?", name):
            back, whole = int(match[1] or 0), _whole(there)
            if back >= len(whole):
                raise UsageError(f"session {name!r} does not exist; there are {len(whole)}")
            return whole[-1 - back]
        if saved := [entry for entry in there if name and entry.saved == name]:
            return saved[-1]
        wanted = Path(name).name
        found = [entry for entry in there if entry.name == wanted] or [e for e in there if e.name.startswith(wanted)]
        if not wanted or not found:
            names = sorted({entry.saved for entry in there} - {""})
            also = f", {', '.join(names)}" if names else ""
            raise UsageError(
                f"session {name!r} does not exist in {self.root}; there are {len(there)}, the last is "
                f"{there[-1].name}; last{also} or the beginning of a session's name is right"
            )
        if len(found) > 1:
            raise UsageError(f"session {name!r} may be any of {', '.join(entry.name for entry in found[:3])}; say more")
        return found[0]

    def resume_of(self, entry: SessionEntry) -> str:
        """Return what `--ipperf-resume` takes to go on with a session: `last` where it is the last one of its name."""
        of_name = [each.name for each in self.sessions() if each.saved == entry.saved]
        return LAST if of_name[-1] == entry.name else str(entry.folder)

    def damage(self, *, saved: str, before: str) -> list[str]:
        """The sentences about what is left out of the history by that name, of what began before a session.

        A session of which not even its beginning can be read may have been one of that name.
        """
        rows = self._index.query(_DAMAGE, saved, before)
        nights = [why for name, why in self._unread(saved) if name < before]
        return [*(trouble for (trouble,) in rows), *nights]

    # --- cells --------------------------------------------------------------------------------------------------------

    def history_entries(self, entry: SessionEntry) -> dict[HistoryKey, HistoryEntry]:
        """Return the findings of a session by key; DamageError where its records are damaged."""
        if entry.trouble:
            raise DamageError(entry.trouble)
        rows = self._index.query(_OF_SESSION, entry.name)
        if len(rows) < sum(entry.verdicts.values()):
            self._index.rebuild()
            rows = self._index.query(_OF_SESSION, entry.name)
        return {entry.key: entry for entry in map(_entry_of_row, rows)}

    def keys(self, text: str) -> list[HistoryKey]:
        """The keys of cells in which that text occurs."""
        return [HistoryKey(*row) for row in self._index.query(
            "SELECT cell, metric, version FROM key WHERE instr(cell, ?) ORDER BY cell, metric, version", text
        )]  # fmt: skip

    def history(self, key: HistoryKey, *, saved: str = "", most: int = 400) -> list[HistoryEntry]:
        """What the last sessions found of a key, the oldest first; with `saved` those of that name."""
        return [_entry_of_row(row) for row in reversed(self._index.query(_OF_KEY, *key, saved, saved, most))]

    def histories(self, session: str, *, saved: str, most: int = 60) -> dict[HistoryKey, list[HistoryEntry]]:
        """What the last sessions of the name `saved` that began before a session found of each of its cells.

        The oldest first; all of them, for a person to look at.
        """
        keys = {number: HistoryKey(*key) for number, *key, _ in self._index.query(_ORIGINS, session)}
        found, words = dict[int, list[HistoryEntry]](), self._words()
        for earlier in self._index.query(_BEFORE, saved, session)[:most]:
            for number, _, entry in self._found(earlier, keys, words, everything=True):
                found.setdefault(number, []).append(entry)
        return _by_key(found)

    def nights(self, session: str, *, saved: str, most: int = 60) -> dict[HistoryKey, list[HistoryEntry]]:
        """The last nights of the name `saved` that began before a session, of each of its cells: what a gate asks.

        The oldest first, of each cell the last `most` that are sound and usable, and beside them what the very last
        night found, sound or not. Nights have a verdict: what was broken off, or was none, is not among them. What was
        reused from another session counts once, and never for the session that has it too.
        """
        own = self._index.query(_ORIGINS, session)
        wanted = {number: HistoryKey(*key) for number, *key, _ in own}
        seen, left = {(row[0], row[-1]) for row in own}, dict.fromkeys(wanted, most)
        found, words = dict[int, list[HistoryEntry]](), self._words()
        nights = [row for row in self._index.query(_BEFORE, saved, session) if row[-1] is not None]
        for night in nights:
            for number, origin, entry in self._found(night, wanted, words, everything=night is nights[0]):
                if (number, origin) in seen:
                    continue
                found.setdefault(number, []).append(entry)
                if entry.sound and entry.usable:
                    seen.add((number, origin))
                    left[number] -= 1
            wanted = {number: key for number, key in wanted.items() if left[number]}
            if not wanted:
                break
        return _by_key(found)

    def _words(self) -> dict[int, str]:
        return dict(self._index.query("SELECT id, text FROM word"))

    def _found(
        self, session: Sequence[Any], keys: Mapping[int, HistoryKey], words: Mapping[int, str], *, everything: bool
    ) -> Iterator[tuple[int, str, HistoryEntry]]:
        """What a session found of these keys, with the name of the session that measured it."""
        at, name, began_at, _ = session
        for number, origin, *row in self._index.query(_OF_KEYS, at, json.dumps(sorted(keys)), everything):
            if not {origin, *(row[place] for place in _WORDS)} <= words.keys():
                raise LabError(f"index: {self.root / FILE} lacks rows; remove it")
            for place in _WORDS:
                row[place] = words[row[place]]
            yield number, words[origin] or name, _entry_of_row((*keys[number], name, began_at, *row))

    def last_night(self, saved: str, *, before: str = "") -> StoredNight | None:
        """The newest night that was saved under that name; with `before` of those that began before that session.

        LabError where its verdict cannot be read, or that of a later one which may have the name.
        """
        found = self._index.query(_LAST_NIGHT, saved, before, before)
        last = found[0][0] if found else ""
        for name, why in self._unread(saved):
            if last < name and (not before or name < before):
                raise DamageError(f"{why}; what it measured is to be measured again, and is not known")
        return read_night(self.root, last) if last else None

    def _unread(self, saved: str) -> Iterator[tuple[str, str]]:
        """Yield the nights whose verdict cannot be read, with a sentence, but those of sessions of another name."""
        for name, why in sorted(self._index.unread.items()):
            if self._index.query("SELECT saved FROM session WHERE name = ?", name) in ([], [(saved,)]):
                yield name, why


def _whole(entries: Sequence[SessionEntry]) -> list[SessionEntry]:
    return [entry for entry in entries if not entry.saved.endswith(FRESH)]


def _by_key(found: Mapping[int, list[HistoryEntry]]) -> dict[HistoryKey, list[HistoryEntry]]:
    """The oldest first, of histories that have the newest first."""
    return {history[0].key: history[::-1] for history in found.values()}


def _entry_of_row(row: Sequence[Any]) -> HistoryEntry:
    cell, metric, version, session, began_at, *rest, sound, usable = row
    change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction, header_cost, verdict, digest = rest
    return HistoryEntry(
        key=HistoryKey(cell, metric, version),
        session=session,
        began_at=began_at,
        change=change,
        sd_epoch=sd_epoch,
        epochs=epochs,
        test_value=test_value,
        reference_value=reference_value,
        margin=margin,
        margin_fraction=margin_fraction,
        header_cost=header_cost,
        verdict=verdict,
        fingerprint=digest,
        sound=bool(sound),
        usable=bool(usable),
    )
