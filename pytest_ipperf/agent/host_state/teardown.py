"""Teardown of all that an agent has made on its host, and the mark of a host on which a part of it stays."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent.host_state.dirty_marks import LeftoverError, mark_leftovers
from pytest_ipperf.core.portable.errors import IpperfError, LabError


def teardown(stack: contextlib.ExitStack) -> list[str]:
    """Close the exit stack, whatever fails; mark the host with a sentence for each failure, and return them."""
    try:
        stack.close()
    except Exception as error:  # noqa: BLE001 - the next job has to know, whatever it is
        failed = _failed(error)
    else:
        return []
    sentences = [_sentence(each) for each in failed]
    notes = [each.note if isinstance(each, LeftoverError) else {"said": _sentence(each)} for each in failed]
    try:
        mark_leftovers(notes)
    except LabError as error:
        sentences.append(str(error))
    return sentences


def _failed(error: BaseException | None) -> list[Exception]:
    """Return the failures, the earliest first: an exit stack puts an earlier one into the context of a later one."""
    found: list[Exception] = []
    while isinstance(error, Exception):
        found.append(error)
        earlier = error.__context__
        if earlier is not None and (error.__cause__ is earlier or error.__suppress_context__):
            earlier = earlier.__context__  # the cause of this error
        error = earlier
    return found[::-1]


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, IpperfError) else f"{type(error).__name__}: {error}"
