"""Rewrite the short names of options to the registered long ones, unless others have registered the same names.

Short names are never registered: pytest would stop at a conftest that registers the same name, since conftests are
loaded after plugins. Only once the initial conftests are loaded is it known who owns each name; short names that are
ours are then rewritten in the arguments, in pytest's hook for that.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.plugin.options.declarations import ALIASES, SHORT, long_of

_NOBODY = object()
_NAME = re.compile(r"(?<![\w-])--[a-z]+(?![\w-])")
_TYPED_LONG: pytest.StashKey[frozenset[str]] = pytest.StashKey()
"""Short names of the options that were given by their long names."""


def active_aliases(config: pytest.Config) -> frozenset[str]:
    """Return the short names that are read as ours: all but those registered by others, or none if they are disabled.

    Raise UsageError where the ini key that disables them is neither yes nor no.
    """
    try:
        wanted = config.getini(ALIASES)
    except (TypeError, ValueError, pytest.UsageError) as error:  # the type depends on pytest's version
        raise pytest.UsageError(f"ini {ALIASES}: {error}; use yes or no") from None
    # Until all arguments are parsed, `getoption` of pytest 8 knows only the options that have a default.
    known = vars(config).get("_opt2dest", {})
    strange = {name for name in SHORT if name in known or config.getoption(name, _NOBODY) is not _NOBODY}
    return frozenset(SHORT) - strange if wanted else frozenset()


def spell_options(config: pytest.Config, text: str) -> str:
    """Return `text` with each of our options under the name that works here, or under which it was given.

    Messages of all modules call options by their short names.
    """
    typed_long: frozenset[str] = config.stash.get(_TYPED_LONG, frozenset())
    usable = active_aliases(config) - typed_long

    def name(match: re.Match[str]) -> str:
        return match[0] if match[0] in usable or match[0] not in SHORT else long_of(match[0])

    return _NAME.sub(name, text)


def rewrite_aliases(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> Generator[None, object, object]:
    """Wrap the loading of the initial conftests, and rewrite `args` in place once they are loaded.

    pytest takes the value in `--testbed lab` for a path, as it does not know the option. Such values are removed from
    the paths before conftests are loaded, unless a file of that name exists; afterwards the conftests that pytest has
    missed because of them are loaded.
    """
    given = list(_expanded(args))
    config.stash[_TYPED_LONG] = frozenset(name for name in SHORT for word in given if _name(word) == long_of(name))
    if not any(_name(word) in SHORT for word in given):
        return (yield)
    spaced = any(word in SHORT for word in given)
    if spaced:
        _set_paths(config, parser, _rewritten(given, active_aliases(config) - _unsure(config, given)))
    result = yield
    words = _checked(given, active_aliases(config))
    while spaced and _set_paths(config, parser, words):
        _load_more(config)
        words = _checked(given, active_aliases(config))
    if words != given:
        args[:] = words
    return result


def _expanded(args: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """Yield the arguments, with `@file` expanded as argparse does: one argument a line, recursively."""
    for each in args:
        word = os.fspath(each)
        if not word.startswith("@"):
            yield word
            continue
        encoding, errors = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
        try:
            lines = Path(word[1:]).read_text(encoding, errors).splitlines()
        except OSError:  # reported by argparse
            yield word
        else:
            yield from _expanded(lines)


def _name(word: str) -> str:
    return word.partition("=")[0]


def _options(words: list[str]) -> int:
    """Return the number of words that may be options: those before `--`."""
    return words.index("--") if "--" in words else len(words)


def _rewritten(words: list[str], names: Collection[str]) -> list[str]:
    end = _options(words)
    return [
        long_of(_name(word)) + word[len(_name(word)) :] if at < end and _name(word) in names else word
        for at, word in enumerate(words)
    ]


def _checked(words: list[str], names: Collection[str]) -> list[str]:
    """Return the words rewritten; raise UsageError, which names the short option, where one lacks its value."""
    for at, word in enumerate(words[: _options(words)]):
        if word in names and not _has_value(words, at):
            raise pytest.UsageError(f"{word}: expected one argument, such as {word}={SHORT[word]}")
    return _rewritten(words, names)


def _unsure(config: pytest.Config, words: list[str]) -> set[str]:
    """Return the options that may be another plugin's flag: without a value, or followed by an existing path."""
    here = config.invocation_params.dir
    return {
        word
        for at, word in enumerate(words)
        if not _has_value(words, at) or _exists(here / words[at + 1].partition("::")[0])
    }


def _has_value(words: list[str], at: int) -> bool:
    """Return whether argparse would take the next word for a value, not for an option (which begins with a dash)."""
    after = words[at + 1 : _options(words)][:1]
    return bool(after and re.match(r"(?!-)|-\d|-$|-.* ", after[0]))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # not a valid file name
        return False


def _set_paths(config: pytest.Config, parser: pytest.Parser, words: list[str]) -> bool:
    """Set the paths for which pytest loads conftests from these arguments; return whether they have changed."""
    known: Any = getattr(config, "known_args_namespace", None)
    paths = getattr(parser.parse_known_args(words, copy.copy(config.option)), "file_or_dir", None)
    if known is None or paths is None or paths == known.file_or_dir:
        return False
    known.file_or_dir = paths
    return True


def _load_more(config: pytest.Config) -> None:
    """Load the initial conftests of the paths that are now known, by pytest's own hook implementation."""
    load = getattr(config, "pytest_load_initial_conftests", None)
    if load is not None:
        load(early_config=config)
