"""Codec of RPC messages: encode typed values as plain data, and decode plain data strictly by type.

A dataclass becomes a dictionary with a key for each field, a set a sorted list, any mapping a dictionary. Scalars and
bytes stay as they are, so packed samples are never walked. Encoders and decoders are made once for each type.

Supported types: None, bool, int, float, str, bytes, dataclasses, `list`, `tuple`, `frozenset`, `dict`, `Mapping`,
`Counter`, unions of scalars with at most one other type, `object` for plain data that is only kept or shown, and
`Annotated[dict[str, ...], ByKey(types)]` for a dictionary with a type for each key.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pytest_ipperf.core.portable.errors import AgentError

T = TypeVar("T")
_Convert = Callable[[Any], Any]

_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_MAPPINGS = frozenset({dict, Mapping, Counter})
_SEQUENCES = frozenset({list, tuple, Sequence, frozenset})
_SHOWN = 60


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ByKey:
    """Annotation of a dictionary whose items have different types; `types` are looked up when a key is sent."""

    types: Mapping[str, Any]


class MismatchError(Exception):
    """Plain data do not fit their type; `path` leads to the place, outermost name first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []

    def within(self, name: str) -> MismatchError:
        """Return this error with the name of the surrounding value put before its path."""
        self.path.insert(0, name if not self.path or self.path[0].startswith("[") else f"{name}.")
        return self

    def sentence(self, message: str) -> str:
        """Return the sentence of the error; `message` names the call or the reply."""
        return f"{message}: {''.join(self.path)}: {self}" if self.path else f"{message}: {self}"


def encoded(of: Any, value: object) -> Any:
    """Encode a value of type `of` as plain data."""
    convert = encoder(of)
    return convert(value) if convert else value


def encoder(of: Any) -> _Convert | None:
    """Return the function that encodes values of a type; None if they are plain data already."""
    if of not in _ENCODERS:
        _ENCODERS[of] = _make_encoder(of)
    return _ENCODERS[of]


_ENCODERS: dict[Any, _Convert | None] = {}


def _make_encoder(of: Any) -> _Convert | None:  # noqa: PLR0911 - one for each kind of type
    if of in _SCALARS or of is object or of is Any:
        return None
    if dataclasses.is_dataclass(of):
        return _dataclass_encoder(cast("type", of))
    origin, arguments = _parts(of)
    if origin is ByKey:
        by_key = arguments[0].types
        return lambda value: {key: encoded(by_key[key], item) for key, item in value.items()}
    if origin is types.UnionType:
        (other,) = {each for each in arguments if each not in _SCALARS} or {None}
        inner = encoder(other) if other else None
        return inner and (lambda value: value if type(value) in _SCALARS else inner(value))
    converts = [encoder(each) for each in arguments if each is not Ellipsis]
    if origin in _MAPPINGS:
        return _mapping_encoder(converts[-1])
    if origin is tuple and Ellipsis not in arguments and any(converts):
        return lambda value: [each(item) if each else item for each, item in zip(converts, value, strict=True)]
    convert = converts[0]
    if origin is frozenset:
        return sorted
    return convert and (lambda value: [convert(item) for item in value])


def _dataclass_encoder(of: type) -> _Convert:
    hints = typing.get_type_hints(of, include_extras=True)
    fields = [(field.name, encoder(hints[field.name])) for field in dataclasses.fields(of)]

    def convert(value: Any) -> dict[str, Any]:
        return {name: inner(getattr(value, name)) if inner else getattr(value, name) for name, inner in fields}

    return convert


def _mapping_encoder(inner: _Convert | None) -> _Convert:
    if inner:
        return lambda value: {key: inner(item) for key, item in value.items()}
    return lambda value: value if type(value) is dict else dict(value)


class Decoder:
    """Decoder of plain data; each text passes through `text`, such as a function that makes it printable."""

    def __init__(self, text: Callable[[str], str] = str) -> None:
        self._text = text
        self._made: dict[Any, _Convert] = {}

    def decode(self, of: type[T], plain: object, message: str) -> T:
        """Decode a value of type `of`; raise AgentError, with `message` as its context, if it does not fit."""
        try:
            return cast("T", self.decoder(of)(plain))
        except MismatchError as error:
            raise AgentError(error.sentence(message)) from None

    def decoder(self, of: Any) -> _Convert:
        """Return the function that decodes values of a type; it raises MismatchError."""
        if of not in self._made:
            self._made[of] = self._make(of)
        return self._made[of]

    def _make(self, of: Any) -> _Convert:  # noqa: PLR0911 - one for each kind of type
        if of in _SCALARS:
            return self._scalars({of})
        if of is object or of is Any:
            return self._anything
        if dataclasses.is_dataclass(of):
            return self._dataclass(cast("type", of))
        origin, arguments = _parts(of)
        if origin is ByKey:
            return self._by_key(arguments[0].types)
        if origin is types.UnionType:
            return self._union(arguments)
        if origin in _MAPPINGS:
            return self._mapping(of, *map(self.decoder, arguments or (str,)))
        if origin is tuple and Ellipsis not in arguments:
            return self._row(of, [self.decoder(each) for each in arguments])
        if origin in _SEQUENCES:
            return self._sequence(of, list if origin is list else frozenset if origin is frozenset else tuple)
        raise TypeError(f"type {of} cannot be part of a message")

    def _scalars(self, of: set[type]) -> _Convert:
        text, allowed = self._text, of | ({int} if float in of else set())  # as PEP 484 has it; a count stays one

        def convert(value: object) -> object:
            kind = type(value)
            if kind not in allowed:
                raise _mismatch(" or ".join(sorted(_name(each) for each in of)), value)
            return text(cast("str", value)) if kind is str else value

        return convert

    def _anything(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            return {self._anything(key): self._anything(item) for key, item in value.items()}
        if kind in (list, tuple):
            return kind(map(self._anything, value))
        return value

    def _dataclass(self, of: type) -> _Convert:
        hints = typing.get_type_hints(of, include_extras=True)
        fields = [(field.name, self.decoder(hints[field.name])) for field in dataclasses.fields(of)]
        names = {name for name, _ in fields}

        def convert(value: Any) -> object:
            if type(value) is not dict:
                raise _mismatch(of.__name__, value)
            if value.keys() != names:
                raise _wrong_keys(of, names, value)
            found, name = {}, ""
            try:
                for name, inner in fields:
                    found[name] = inner(value[name])
            except MismatchError as error:
                raise error.within(name) from None
            return of(**found)

        return convert

    def _union(self, arguments: tuple[Any, ...]) -> _Convert:
        scalars = {each for each in arguments if each in _SCALARS}
        others = [each for each in arguments if each not in _SCALARS]
        plain = self._scalars(scalars)
        if not others:
            return plain
        (other,) = map(self.decoder, others)
        return lambda value: plain(value) if type(value) in scalars else other(value)

    def _mapping(self, of: Any, key_of: _Convert, item_of: _Convert) -> _Convert:
        make = Counter if _parts(of)[0] is Counter else None

        def convert(value: Any) -> object:
            if type(value) is not dict:
                raise _mismatch("dict", value)
            found, key = {}, None
            try:
                for key, item in value.items():
                    found[key_of(key)] = item_of(item)
            except MismatchError as error:
                raise error.within(f"[{key!r}]") from None
            return make(found) if make else found

        return convert

    def _by_key(self, by_key: Mapping[str, Any]) -> _Convert:
        def convert(value: Any) -> object:
            if type(value) is not dict:
                raise _mismatch("dict", value)
            found = {}
            for key, item in value.items():
                if key not in by_key:
                    raise MismatchError(f"has no key {key!r}")
                try:
                    found[key] = self.decoder(by_key[key])(item)
                except MismatchError as error:
                    raise error.within(f"[{key!r}]") from None
            return found

        return convert

    def _row(self, of: Any, items: Sequence[_Convert]) -> _Convert:
        def convert(value: Any) -> object:
            if type(value) not in (list, tuple) or len(value) != len(items):
                raise _mismatch(str(of), value)
            return tuple([item(each) for item, each in zip(items, value, strict=True)])

        return convert

    def _sequence(self, of: Any, make: Callable[[list[Any]], object]) -> _Convert:
        item_of = self.decoder(_parts(of)[1][0])

        def convert(value: Any) -> object:
            if type(value) not in (list, tuple):
                raise _mismatch("list", value)
            try:
                return make([item_of(each) for each in value])
            except MismatchError:
                for at, each in enumerate(value):
                    try:
                        item_of(each)
                    except MismatchError as error:
                        raise error.within(f"[{at}]") from None
                raise

        return convert


def _parts(of: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin of a generic type and its arguments; both kinds of unions have the same origin."""
    for each in getattr(of, "__metadata__", ()):
        if isinstance(each, ByKey):
            return ByKey, (each,)
    origin, arguments = typing.get_origin(of) or of, typing.get_args(of)
    if origin is Counter:
        return origin, (*arguments, int)
    return (types.UnionType if origin is typing.Union else origin), arguments


def _mismatch(wanted: str, value: object) -> MismatchError:
    shown = repr(value)
    return MismatchError(f"expected {wanted}, got {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}...'}")


def _wrong_keys(of: type, names: set[str], value: Mapping[Any, Any]) -> MismatchError:
    missing, unknown = sorted(names - value.keys()), sorted(map(str, value.keys() - names))
    problems = [f"lacks {', '.join(map(repr, missing))}"] * bool(missing)
    problems += [f"has no field {', '.join(map(repr, unknown))}"] * bool(unknown)
    return MismatchError(f"{of.__name__} {' and '.join(problems)}")


def _name(of: type) -> str:
    return "None" if of is type(None) else of.__name__
