"""Every exception of the house, on the lowest floor so that all floors can raise it.

A failed connection is data and never raises; what raises is a broken question or a broken instrument.
Each message is one sentence: the thing, the bad value, and what would be right.
"""

from __future__ import annotations


class IpperfError(Exception):
    """Root of all errors that the project raises on purpose."""


class UsageError(IpperfError):
    """The question is wrong: an option, a marker or a line of `hosts.ini`."""


class LabError(IpperfError):
    """The testbed is in trouble: a host, a server program, a right or an address is missing or died."""


class AgentError(LabError):
    """The instrument on a host died, did not answer in time, or could not be started."""


class RestoreError(LabError):
    """A host is not as it was before: whatever was measured, somebody has to look after it."""


class InvalidError(IpperfError):
    """The measurement cannot be believed: its proof failed or its data contradict each other."""


class UndecidedError(IpperfError):
    """There is no answer, and nothing is broken: too little evidence, or no time left to gather any."""
