"""Tear down all that an agent has made on its host, and mark a host on which some of it stays."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent.host_state.dirty_marks import LeftoverError, mark_leftovers
from pytest_ipperf.core.portable.errors import IpperfError, LabError


def teardown(stack: contextlib.ExitStack) -> list[str]:
    """Close the exit stack, whatever fails; return a sentence for each failure, with which the host is marked."""
    try:
        stack.close()
    except Exception as error:  # noqa: BLE001 - the next job has to know, whatever it is
        failed = _failed(error)
    else:
        return []
    said = [_sentence(each) for each in failed]
    notes = [each.note if isinstance(each, LeftoverError) else {"said": _sentence(each)} for each in failed]
    try:
        mark_leftovers(notes)
    except LabError as error:
        said.append(str(error))
    return said


def _failed(error: BaseException | None) -> list[Exception]:
    """What failed, the first one first: an exit stack has the earlier one in the context of the later one."""
    found: list[Exception] = []
    while isinstance(error, Exception):
        found.append(error)
        earlier = error.__context__
        if earlier is not None and (error.__cause__ is earlier or error.__suppress_context__):
            earlier = earlier.__context__  # it is what this one came from
        error = earlier
    return found[::-1]


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, IpperfError) else f"{type(error).__name__}: {error}"
