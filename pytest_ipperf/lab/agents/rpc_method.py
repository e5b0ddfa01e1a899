"""Typed RPC methods of the agent client: declared as methods without a body, called through the codec.

A declaration is called like a method; mypy checks arguments and reply against it. `request` sends a call and returns at
once, so that several hosts can be called in parallel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, get_type_hints

from pytest_ipperf.agent.rpc.codec import Decoder, MismatchError, encoder
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.inventory.model import Host

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE_S = 30.0
"""Default time-out of a call: seconds without a reply or a keep-alive."""

_DECODER, _RAW_DECODER = Decoder(printable), Decoder()


class Connection(Protocol):
    """Transport of one agent's calls: plain data out, plain data back."""

    host: Host

    @property
    def ended(self) -> bool:
        """Return whether the agent is gone."""

    def request(self, name: str, arguments: tuple[Any, ...], patience_s: float = PATIENCE_S) -> None:
        """Send the request of one call."""

    def result(self, patience_s: float = PATIENCE_S, beside: Sequence[Connection] = ()) -> object:
        """Wait for the result of the call."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of calls: their connection, their time-out, and the other agents that must stay alive meanwhile."""

    connection: Connection
    patience_s: float = PATIENCE_S
    beside: Sequence[Connection] = ()


class HasTerms(Protocol):
    """Object whose RPC methods are called on its terms."""

    terms: Terms


@dataclass(frozen=True, slots=True)
class PendingReply(Generic[R]):
    """Reply to a request that was sent; it must be read before the next request to the same agent."""

    _method: RpcMethod[..., R]
    connection: Connection

    def result(self, patience_s: float = PATIENCE_S, beside: Sequence[Connection] = ()) -> R:
        """Wait for the reply, as a call does."""
        return self._method.decode_reply(self.connection.result(patience_s, beside))


class BoundRpcMethod(Generic[P, R]):
    """RPC method of one agent."""

    __slots__ = ("_method", "_terms")

    def __init__(self, method: RpcMethod[P, R], terms: Terms) -> None:
        self._method = method
        self._terms = terms

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method and return its result; give up if an agent beside is gone.

        Raises the LabError that the agent reports, or an AgentError if an agent died or stayed silent; after that no
        further calls are possible, as their results could not be told apart.
        """
        method, terms = self._method, self._terms
        terms.connection.request(method.name, method.encode_arguments(args, kwargs), terms.patience_s)
        return method.decode_reply(terms.connection.result(terms.patience_s, terms.beside))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> PendingReply[R]:
        """Send the request and return at once; AgentError if the agent is gone."""
        method, terms = self._method, self._terms
        terms.connection.request(method.name, method.encode_arguments(args, kwargs), terms.patience_s)
        return PendingReply(method, terms.connection)


def all_replies(
    pending: Mapping[str, PendingReply[R]], patience_s: float = PATIENCE_S, beside: Sequence[Connection] = ()
) -> dict[str, R]:
    """Wait for the replies of several hosts to parallel requests; raise the first LabError of any.

    Waiting for a reply ends if another agent of `beside` is gone.
    """
    answers: dict[str, R] = {}
    trouble: LabError | None = None
    for role, reply in pending.items():
        others = [each for each in beside if each is not reply.connection]
        try:
            answers[role] = reply.result(patience_s, others)
        except AgentError:
            raise
        except LabError as error:  # the other replies must be read, or they would be taken for later ones
            trouble = trouble or error
    if trouble:
        raise trouble
    return answers


class RpcMethod(Generic[P, R]):
    """Declaration of an RPC method: name, parameters and reply type are those of the declared function."""

    def __init__(self, declared: Callable[Concatenate[Any, P], R], *, raw: bool = False) -> None:
        self._declared = declared
        self._decoder = _RAW_DECODER if raw else _DECODER
        self.name = declared.__name__
        self.__doc__ = declared.__doc__

    def __get__(self, instance: HasTerms, owner: type) -> BoundRpcMethod[P, R]:
        """Bind the method to an agent."""
        return BoundRpcMethod(self, instance.terms)

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the declaration, without `self`, its annotations evaluated."""
        signature = inspect.signature(self._declared, eval_str=True)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._declared)

    @cached_property
    def _encoders(self) -> list[Callable[[Any], Any] | None]:
        return [encoder(self._hints[name]) for name in self.signature.parameters]

    def encode_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Encode arguments by position; omitted ones have the handler's defaults. TypeError if there are too many."""
        if not args and not kwargs:
            return ()
        if kwargs:
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()  # arguments before a given one must be sent
            args = bound.args
        if len(args) > len(self._encoders):
            raise TypeError(f"call {self.name!r} takes {len(self._encoders)} arguments, and {len(args)} were given")
        return tuple([each(value) if each else value for each, value in zip(self._encoders, args, strict=False)])

    @cached_property
    def _decode(self) -> Callable[[object], Any]:
        return self._decoder.decoder(self._hints["return"])

    def decode_reply(self, plain: object) -> R:
        """Decode a reply; AgentError if it is not of the declared type."""
        try:
            return cast("R", self._decode(plain))
        except MismatchError as error:
            raise AgentError(error.sentence(f"reply to call {self.name!r}")) from None


def raw_texts(declared: Callable[Concatenate[Any, P], R]) -> RpcMethod[P, R]:
    """Declare an RPC method whose texts are not sanitised, control characters included."""
    return RpcMethod(declared, raw=True)
