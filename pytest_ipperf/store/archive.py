"""Archive of a folder of records: find sessions by name, and read the history of a cell across them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.outages import RunCount
from pytest_ipperf.core.portable.errors import DamageError, LabError, UsageError
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.store.history.nights import StoredNight, read_night
from pytest_ipperf.store.index.index import FILE, Index, SessionEntry
from pytest_ipperf.store.index.tables import INTACT
from pytest_ipperf.store.log.migration import tells_end

LAST = "last"
FRESH = ".fresh"
"""Suffix of a night's name for its second session, which measures only flagged cells and is never meant by `last`."""
_PAST = (
    "key.cell, key.metric, key.version, session.name, session.began_at, change, sd_epoch, epochs, test_value, "
    "reference_value, m.text, margin_fraction, header_cost, v.text, f.text, sound, usable, session.revision"
)
_FROM = (
    "FROM past JOIN key ON key.id = past.key JOIN session ON session.id = past.session JOIN word m ON m.id = margin "
    "JOIN word v ON v.id = verdict JOIN word f ON f.id = fingerprint"
)
_OF_SESSION = f"SELECT {_PAST} {_FROM} WHERE session.name = ? AND {INTACT}"
_OF_KEY = f"""SELECT {_PAST} {_FROM} WHERE past.key = (SELECT id FROM key WHERE cell = ? AND metric = ? AND version = ?)
AND trouble = '' AND (? = '' OR session.saved = ?) AND {INTACT}
ORDER BY session.began_at DESC, session.name DESC LIMIT ?"""  # noqa: S608
# Rows of some keys of a session; words and names are looked up in Python, as there are hundreds of thousands of rows.
_OF_KEYS = f"""SELECT key, taken_from, change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction,
header_cost, verdict, fingerprint, sound, usable FROM past
WHERE session = ? AND key IN (SELECT value FROM json_each(?)) AND (sound AND usable OR ?) AND {INTACT}"""  # noqa: S608
_WORDS = (5, 8, 9)  # places of margin, verdict and fingerprint after the first two columns
_ORIGINS = """SELECT key.id, cell, metric, key.version, CASE text WHEN '' THEN session.name ELSE text END FROM past
JOIN key ON key.id = past.key JOIN session ON session.id = past.session JOIN word ON word.id = taken_from
WHERE session.name = ?"""
_LAST_NIGHT = """SELECT name FROM night WHERE saved = ?
AND (? = '' OR (began_at, name) < (SELECT session.began_at, session.name FROM session WHERE session.name = ?))
ORDER BY began_at DESC, name DESC LIMIT 1"""
_DAMAGE = """SELECT trouble FROM session WHERE trouble != '' AND (saved = ? OR schema IS NULL)
AND (began_at, name) < (SELECT own.began_at, own.name FROM session AS own WHERE own.name = ?) ORDER BY began_at, name"""
_BEFORE = """SELECT id, name, began_at, revision, light FROM session WHERE saved = ? AND trouble = ''
AND (began_at, name) < (SELECT own.began_at, own.name FROM session AS own WHERE own.name = ?)
ORDER BY began_at DESC, name DESC"""


_RUNS = """SELECT text, sum(runs), sum(hit), count(*) FROM run_count JOIN word ON word.id = run_count.cell
WHERE session IN (SELECT value FROM json_each(?)) GROUP BY run_count.cell"""
_NUMBER = "SELECT id FROM session WHERE name = ?"


def resume_value(folder: Path, saved: str) -> str:
    """Return the value of `--ipperf-resume` that resumes the session which has just ended in that folder."""
    return str(folder) if saved else LAST


class Archive:
    """An archive opened on the folder of records `root`; close it after use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._index = Index(root)

    @property
    def notes(self) -> list[str]:
        """Sentences about the index, about nights without a readable verdict, and about unreadable sessions."""
        rows = self._index.query("SELECT trouble FROM session WHERE trouble != '' ORDER BY began_at, name")
        return [*self._index.notes, *self._index.unread.values(), *(trouble for (trouble,) in rows)]

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self, saved: str = "") -> list[SessionEntry]:
        """Return all sessions that have begun, oldest first; with `saved`, those saved under that name.

        An unreadable session is included, without the name that it was saved under.
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
        """Return all sessions except the second ones of nights, which measure only flagged cells, oldest first."""
        return _whole(self.sessions())

    def find(self, name: str) -> SessionEntry:
        """Return the session that `name` denotes; UsageError if there is none, or more than one.

        `name` is `last`, `last~2` (two before the last; second sessions of nights do not count), a name under which
        sessions were saved (the newest one), a session's name or its beginning, or its folder.
        """
        sessions = self.sessions()
        if not sessions:
            raise UsageError(f"there is no session in {self.root / 'runs'} yet")
        if match := re.fullmatch(rf"{LAST}(?:~(\d{{1,9}}))?", name):
            back, whole = int(match[1] or 0), _whole(sessions)
            if back >= len(whole):
                raise UsageError(f"session {name!r} does not exist; there are {len(whole)}")
            return whole[-1 - back]
        if saved := [entry for entry in sessions if name and entry.saved == name]:
            return saved[-1]
        wanted = Path(name).name
        matches = [entry for entry in sessions if entry.name == wanted] or [
            e for e in sessions if e.name.startswith(wanted)
        ]
        if not wanted or not matches:
            names = sorted({entry.saved for entry in sessions} - {""})
            also = f", {', '.join(names)}" if names else ""
            raise UsageError(
                f"session {name!r} does not exist in {self.root}; there are {len(sessions)}, the last is "
                f"{sessions[-1].name}; last{also} or the beginning of a session's name is right"
            )
        if len(matches) > 1:
            raise UsageError(
                f"session {name!r} could be any of {', '.join(entry.name for entry in matches[:3])}; give more of it"
            )
        return matches[0]

    def resume_of(self, entry: SessionEntry) -> str:
        """Return the value of `--ipperf-resume` that resumes a session, whatever else the command says.

        That is `last` for the last of those without a name, and the folder of another one: with a name, `last` means it
        only if the command saves under that name too.
        """
        unnamed = [each.name for each in self.sessions() if not each.saved]
        return LAST if unnamed[-1:] == [entry.name] else str(entry.folder)

    def damage(self, *, saved: str, before: str) -> list[str]:
        """Return sentences about sessions and nights before `before` that are missing from the history of a name.

        A session whose beginning cannot be read is included, as it may have that name.
        """
        rows = self._index.query(_DAMAGE, saved, before)
        nights = [why for name, why in self._unread(saved) if name < before]
        return [*(trouble for (trouble,) in rows), *nights]

    # --- cells --------------------------------------------------------------------------------------------------------

    def history_entries(self, entry: SessionEntry) -> dict[HistoryKey, HistoryEntry]:
        """Return the findings of a session by key; DamageError if its records are damaged."""
        if entry.trouble:
            raise DamageError(entry.trouble)
        rows = self._index.query(_OF_SESSION, entry.name)
        if len(rows) < sum(entry.verdicts.values()):
            self._index.rebuild()
            rows = self._index.query(_OF_SESSION, entry.name)
        return {entry.key: entry for entry in map(_entry_of_row, rows)}

    def keys(self, text: str) -> list[HistoryKey]:
        """Return the keys of cells whose text contains `text`."""
        return [HistoryKey(*row) for row in self._index.query(
            "SELECT cell, metric, version FROM key WHERE instr(cell, ?) ORDER BY cell, metric, version", text
        )]  # fmt: skip

    def history(self, key: HistoryKey, *, saved: str = "", most: int = 400) -> list[HistoryEntry]:
        """Return the last `most` findings of a key, oldest first; with `saved`, those of sessions of that name."""
        return [_entry_of_row(row) for row in reversed(self._index.query(_OF_KEY, *key, saved, saved, most))]

    def histories(self, session: str, *, saved: str, most: int = 60) -> dict[HistoryKey, list[HistoryEntry]]:
        """Return, for each cell of a session, the findings of earlier sessions of the name `saved`, oldest first.

        These histories are for people and include findings that the gate ignores.
        """
        keys = {number: HistoryKey(*key) for number, *key, _ in self._index.query(_ORIGINS, session)}
        result, words = dict[int, list[HistoryEntry]](), self._words()
        for earlier in self._index.query(_BEFORE, saved, session)[:most]:
            for number, _, entry in self._entries(earlier, keys, words, everything=True):
                result.setdefault(number, []).append(entry)
        return _by_key(result)

    def nights(self, session: str, *, saved: str, most: int = 60) -> dict[HistoryKey, list[HistoryEntry]]:
        """Return, for each cell of a session, the findings of earlier nights of the name `saved`, oldest first.

        The gate uses them: the last `most` sound and usable findings of each cell, and those of the very last night in
        any case. Only nights with a verdict count. A finding reused from another session counts once, and not at all if
        the session itself reused it.
        """
        own = self._index.query(_ORIGINS, session)
        wanted = {number: HistoryKey(*key) for number, *key, _ in own}
        seen, left = {(row[0], row[-1]) for row in own}, dict.fromkeys(wanted, most)
        result, words = dict[int, list[HistoryEntry]](), self._words()
        nights = [row for row in self._index.query(_BEFORE, saved, session) if row[-1] is not None]
        for night in nights:
            for number, origin, entry in self._entries(night, wanted, words, everything=night is nights[0]):
                if (number, origin) in seen:
                    continue
                result.setdefault(number, []).append(entry)
                if entry.sound and entry.usable:
                    seen.add((number, origin))
                    left[number] -= 1
            wanted = {number: key for number, key in wanted.items() if left[number]}
            if not wanted:
                break
        return _by_key(result)

    def run_counts(self, session: str, *, saved: str, most: int = 60) -> dict[str, RunCount]:
        """Return, by cell, the runs of a session and of the last `most` nights of the name `saved` before it.

        Runs that a session reused are those of the session that measured them.
        """
        nights = [row[0] for row in self._index.query(_BEFORE, saved, session) if row[-1] is not None][:most]
        own = [number for (number,) in self._index.query(_NUMBER, session)]
        rows = self._index.query(_RUNS, json.dumps([*own, *nights]))
        return {cell: RunCount(runs=runs, hit=hit, nights=count) for cell, runs, hit, count in rows}

    def _words(self) -> dict[int, str]:
        return dict(self._index.query("SELECT id, text FROM word"))

    def _entries(
        self, session: Sequence[Any], keys: Mapping[int, HistoryKey], words: Mapping[int, str], *, everything: bool
    ) -> Iterator[tuple[int, str, HistoryEntry]]:
        """Iterate over a session's findings for these keys, with the name of the session that measured each."""
        at, name, began_at, commit, _ = session
        for number, origin, *row in self._index.query(_OF_KEYS, at, json.dumps(sorted(keys)), everything):
            if not {origin, *(row[place] for place in _WORDS)} <= words.keys():
                raise LabError(f"index: {self.root / FILE} lacks rows; remove it")
            for place in _WORDS:
                row[place] = words[row[place]]
            yield number, words[origin] or name, _entry_of_row((*keys[number], name, began_at, *row, commit))

    def last_night(self, saved: str, *, before: str = "") -> StoredNight | None:
        """Return the newest night saved under that name; with `before`, the newest that began before that session.

        Raises DamageError if its verdict cannot be read, or that of a later night which may have the name.
        """
        rows = self._index.query(_LAST_NIGHT, saved, before, before)
        last = rows[0][0] if rows else ""
        for name, why in self._unread(saved):
            if last < name and (not before or name < before):
                raise DamageError(f"{why}; the cells that must be measured again are unknown")
        return read_night(self.root, last) if last else None

    def _unread(self, saved: str) -> Iterator[tuple[str, str]]:
        """Iterate over the nights whose verdict cannot be read, with the reason; not those of other names."""
        for name, why in sorted(self._index.unread.items()):
            if self._index.query("SELECT saved FROM session WHERE name = ?", name) in ([], [(saved,)]):
                yield name, why


def _whole(entries: Sequence[SessionEntry]) -> list[SessionEntry]:
    return [entry for entry in entries if not entry.saved.endswith(FRESH)]


def _by_key(histories: Mapping[int, list[HistoryEntry]]) -> dict[HistoryKey, list[HistoryEntry]]:
    """Return histories that have the newest entry first with the oldest first."""
    return {history[0].key: history[::-1] for history in histories.values()}


def _entry_of_row(row: Sequence[Any]) -> HistoryEntry:
    cell, metric, version, session, began_at, *rest, sound, usable, commit = row
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
        commit=commit,
    )
