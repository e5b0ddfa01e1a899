"""Parse `hosts.ini`: sections with keys, and the line number of each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.printable import printable

# A comment begins at the start of a line or after a space.
_COMMENT = re.compile(r"(?:^|\s)[#;].*")
_HEADER = re.compile(r"\[(.+)\]")
_FORMS = "[host NAME], [testbed NAME], [lab NAME] nor KEY = VALUE"


@dataclass(frozen=True, slots=True)
class Section:
    """A section: `title` is the text in brackets on line `line`; `lines` are the line numbers of its keys."""

    path: Path
    line: int
    title: str
    keys: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """First word of the title, such as `host` in `[host alpha]`."""
        return self.title.partition(" ")[0]

    @property
    def name(self) -> str:
        """Rest of the title, such as `alpha` in `[host alpha]`."""
        return self.title.partition(" ")[2]

    def wrong(self, sentence: str, key: str = "") -> UsageError:
        """Return the error about a key, located at its line, or at the section's line if it lacks the key.

        Without `key`, the key is the first word of the sentence.
        """
        line = self.lines.get(key or sentence.partition(" ")[0], self.line)
        return UsageError(f"{self.path}, line {line}: [{self.title}]: {sentence}")

    @contextlib.contextmanager
    def at(self, key: str = "") -> Iterator[None]:
        """Add path, line and section to a UsageError raised inside, as `wrong` does, and name `key` if given."""
        try:
            yield
        except UsageError as error:
            named = not key or str(error).startswith(f"{key} ")
            raise self.wrong(str(error) if named else f"{key}: {error}", key) from None

    def known(self, allowed: frozenset[str]) -> None:
        """Raise UsageError for the first key that is not allowed."""
        for key in self.keys:
            if key not in allowed:
                raise self.wrong(f"key {key!r} is unknown; there are {', '.join(sorted(allowed))}", key)


def read_sections(path: Path) -> list[Section]:
    """Return the sections in order; UsageError with the line of anything invalid or repeated."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name an inventory with --ipperf-hosts") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    sections: dict[str, Section] = {}
    section, key, level = None, "", 0
    continued: list[tuple[Section, str, list[str]]] = []
    for number, line in _lines(text):
        depth = len(line) - len(line.lstrip())
        if section and key and depth > level:  # a continuation line, as in Python's configparser
            continued[-1][2].append(line.strip())
            continue
        where = f"{path}, line {number}"
        level, key = depth, ""
        if header := _HEADER.fullmatch(line.strip()):
            title = printable(header[1]).replace("\t", "?")  # messages show the title within a line
            section = _opened(where, Section(path, number, title), sections)
        else:
            section, key = _noted(where, number, line.strip(), section)
            continued.append((section, key, [section.keys[key]]))
    for owner, name, parts in continued:
        owner.keys[name] = "\n".join(parts).strip()
    return list(sections.values())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the lines with content, without comments, and their numbers."""
    for number, line in enumerate(text.split("\n"), start=1):
        if content := _COMMENT.sub("", line).rstrip():
            yield number, content


def _opened(where: str, section: Section, sections: dict[str, Section]) -> Section:
    if earlier := sections.get(section.title):
        raise UsageError(f"{where}: section [{section.title}] is there already, in line {earlier.line}; give it once")
    sections[section.title] = section
    return section


def _noted(where: str, number: int, line: str, section: Section | None) -> tuple[Section, str]:
    """Store `KEY = VALUE` and return the section and the key."""
    key, equals, value = (part.strip() for part in line.partition("="))
    key = key.lower()
    if section is None:
        raise UsageError(f"{where}: {line!r} comes before the first section, such as [host NAME]")
    if not key or not equals:
        raise UsageError(f"{where}: {line!r} is neither {_FORMS}")
    if key in section.keys:
        earlier = section.lines[key]
        raise UsageError(f"{where}: key {key!r} is in [{section.title}] already, in line {earlier}; give it once")
    section.keys[key] = value
    section.lines[key] = number
    return section, key


def listed(text: str) -> list[str]:
    """Split a comma-separated list; an item is empty if there is nothing between two commas."""
    return [part.strip() for part in text.split(",")]


def word(section: Section, key: str, choices: Mapping[str, object] | tuple[str, ...], default: str) -> str:
    """Return the value of a key that must be one of `choices`."""
    value = section.keys.get(key, default)
    if value not in choices:
        raise section.wrong(f"{key} = {value!r} does not exist; there are {', '.join(choices)}", key)
    return value
