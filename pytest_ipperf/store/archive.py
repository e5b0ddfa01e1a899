"""The archive: all sessions of a folder of records, by name; and the course of a cell over them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.past import Key, Past
from pytest_ipperf.core.record import Record
from pytest_ipperf.store.index import Entry, Index, record_of
from pytest_ipperf.store.migration import check_schema, tells_end
from pytest_ipperf.store.reading import events, parsed

LAST = "last"
_EVER = 1e18
_PAST = (
    "SELECT key.cell, key.metric, key.version, session.name, session.began_at, change, sd_epoch, epochs, test_value, "
    "reference_value, m.text, margin_fraction, header_cost, v.text, f.text, sound FROM past "
    "JOIN key ON key.id = past.key JOIN session ON session.id = past.session JOIN word m ON m.id = margin "
    "JOIN word v ON v.id = verdict JOIN word f ON f.id = fingerprint "
)
_OF_SESSION = _PAST + "WHERE session.name = ?"
_OF_KEY = f"""{_PAST} WHERE past.key = (SELECT id FROM key WHERE cell = ? AND metric = ? AND version = ?)
AND (? = '' OR session.saved = ?) AND session.began_at < ? ORDER BY session.began_at DESC LIMIT ?"""  # noqa: S608


class Archive:
    """Opened over the folder of records `root`; `notes` are sentences about what could not be used of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._index = Index(root)

    @property
    def notes(self) -> list[str]:
        """Of the index, and of the sessions whose records cannot be read."""
        rows = self._index.ask("SELECT trouble FROM session WHERE trouble != '' ORDER BY began_at, name")
        return [*self._index.notes, *(trouble for (trouble,) in rows)]

    def close(self) -> None:
        """Closes the index."""
        self._index.close()

    # --- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self, saved: str = "") -> list[Entry]:
        """All that have records or were begun, the oldest first; with `saved` those of that name."""
        counts: dict[int, dict[str, int]] = {}
        for number, verdict, cells in self._index.ask("SELECT session, verdict, cells FROM tally"):
            counts.setdefault(number, {})[verdict] = cells
        rows = self._index.ask(
            "SELECT id, name, began_at, seconds, status, design, saved, version, arguments, undecided, troubles, "
            "trouble, light, schema FROM session "
            "WHERE began_at IS NOT NULL AND (? = '' OR saved = ?) ORDER BY began_at, name",
            saved,
            saved,
        )
        return [self._entry(row, counts.get(row[0], {})) for row in rows]

    def _entry(self, row: tuple[Any, ...], verdicts: Mapping[str, int]) -> Entry:
        _, name, began_at, seconds, status, design, saved, version, arguments, undecided, *rest = row
        troubles, trouble, light, schema = rest
        return Entry(
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
            light=light,
            tells_end=tells_end(schema),
        )

    def find(self, name: str) -> Entry:
        """The session that `name` means; UsageError where there is none, or more than one.

        `last`, `last~2` (the last but two), a name under which sessions were saved (its newest), a session's name or
        its beginning, or its folder.
        """
        there = self.sessions()
        if not there:
            raise UsageError(f"there is no session in {self.root / 'runs'} yet")
        if match := re.fullmatch(rf"{LAST}(?:~(\d+))?", name):
            back = int(match[1] or 0)
            if back >= len(there):
                raise UsageError(f"session {name!r} does not exist; there are {len(there)}")
            return there[-1 - back]
        if saved := [entry for entry in there if name and entry.saved == name]:
            return saved[-1]
        told = Path(name).name
        found = [entry for entry in there if entry.name == told] or [e for e in there if e.name.startswith(told)]
        if not told or not found:
            names = sorted({entry.saved for entry in there} - {""})
            also = f", {', '.join(names)}" if names else ""
            raise UsageError(
                f"session {name!r} does not exist in {self.root}; there are {len(there)}, the last is "
                f"{there[-1].name}; last{also} or the beginning of a session's name is right"
            )
        if len(found) > 1:
            raise UsageError(f"session {name!r} may be any of {', '.join(entry.name for entry in found[:3])}; say more")
        return found[0]

    # --- cells --------------------------------------------------------------------------------------------------------

    def pasts(self, entry: Entry) -> dict[Key, Past]:
        """What a session found, by key."""
        rows = self._index.ask(_OF_SESSION, entry.name)
        return {past.key: past for past in map(_past, rows)}

    def keys(self, text: str) -> list[Key]:
        """The keys of cells in which that text occurs."""
        return [Key(*row) for row in self._index.ask(
            "SELECT cell, metric, version FROM key WHERE instr(cell, ?) ORDER BY cell, metric, version", text
        )]  # fmt: skip

    def course(self, key: Key, *, saved: str = "", before: float | None = None, most: int = 400) -> list[Past]:
        """What the last sessions found of a key, the oldest first: those saved under a name, begun before a time."""
        rows = self._index.ask(_OF_KEY, *key, saved, saved, _EVER if before is None else before, most)
        return [_past(row) for row in reversed(rows)]

    def courses(
        self, keys: Collection[Key], *, saved: str = "", before: float | None = None, most: int = 60
    ) -> dict[Key, list[Past]]:
        """The course of each key that has one."""
        found = {key: self.course(key, saved=saved, before=before, most=most) for key in keys}
        return {key: course for key, course in found.items() if course}

    def records(self, entry: Entry, cells: Iterable[str] = ()) -> Iterator[Record]:
        """The records of a session, whole; of these cells alone if some are named."""
        wanted = set(cells)
        rows = self._index.ask(
            "SELECT journal, at, key.cell, session.schema FROM past JOIN session ON session.id = past.session "
            "JOIN key ON key.id = past.key WHERE session.name = ? ORDER BY journal, at",
            entry.name,
        )
        for journal, at, cell, schema in rows:
            if wanted and cell not in wanted:
                continue
            with (entry.folder / journal).open("rb") as file:
                file.seek(at)
                event = parsed(file.readline())
            if event is None or event["event"] != "record":
                raise UsageError(f"session {entry.name} no longer has the record of {cell}, which the index knows")
            yield record_of(event, schema)


def records_in(folder: Path) -> list[Record]:
    """The records of a session's folder, wherever it lies; UsageError where they cannot be read."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        schema = None
        for event in events(path):
            if event["event"] == "session":
                schema = check_schema(event["schema"], str(folder))
            elif event["event"] == "record" and schema is not None:
                found.append(record_of(event, schema))
    return found


def _past(row: tuple[Any, ...]) -> Past:
    cell, metric, version, session, began_at, *rest, sound = row
    change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction, header_cost, verdict, digest = rest
    return Past(
        key=Key(cell, metric, version),
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
    )
