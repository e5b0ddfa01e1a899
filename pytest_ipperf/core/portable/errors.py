"""Every exception of the project, in the bottom layer so that all layers can raise it.

A failed connection is data and never raises; an error means a wrong question or a broken measuring program. Each
message is one sentence: the thing, the bad value, and the remedy.
"""

from __future__ import annotations

_SHOWN = 60
_SENTENCE, _REPORT = 1000, 8000


def bounded(sentence: str, most: int = _SENTENCE) -> str:
    """Return the sentence in at most `most` characters (no fewer than 300), and say how many are left out.

    A quoted value is shortened first, so that the thing and the remedy stay; then the middle is.
    """
    if len(sentence) <= most:
        return sentence
    shorter = _without_value(sentence, most // 3)
    if len(shorter) <= most:
        return shorter
    half = (most - len(_left_out(len(sentence)))) // 2
    return f"{sentence[:half]}{_left_out(len(sentence) - 2 * half)}{sentence[-half:]}"


def _without_value(sentence: str, near: int) -> str:
    """Shorten the text between the first quote and the last one, if these are near the ends."""
    begins = {sentence.find(quote, 0, near): quote for quote in "'\""}
    begin = min((at for at in begins if at >= 0), default=-1)
    end = sentence.rfind(begins[begin], len(sentence) - near) if begin >= 0 else -1
    if end < 0:
        return sentence
    begin += 1
    return f"{sentence[: begin + _SHOWN]}...{sentence[end]} ({end - begin} characters){sentence[end + 1 :]}"


def _left_out(characters: int) -> str:
    return f" ... ({characters} characters left out) ... "


class IpperfError(Exception):
    """Root of all errors that the project raises on purpose.

    Messages may quote anything, a value of 20 MB or a server's reply; they are `bounded` to `longest` characters.
    """

    longest = _REPORT

    def __init__(self, *about: object) -> None:
        super().__init__(*(bounded(each, self.longest) if isinstance(each, str) else each for each in about))


class UsageError(IpperfError):
    """The question is wrong: an option, a marker or a line of `hosts.ini`."""

    longest = _SENTENCE


class LabError(IpperfError):
    """The testbed is in trouble: a host, a server program, a right or an address is missing or died."""


class AgentError(LabError):
    """An agent on a host died, did not answer in time, or could not be started."""


class RestoreError(LabError):
    """A host could not be restored and needs somebody's attention, whatever was measured."""


class DamageError(LabError):
    """Records are damaged: the message names the file, its line, and what would help."""


class InvalidError(IpperfError):
    """The measurement cannot be believed: its proof failed or its data contradict each other."""


class UnjudgedError(IpperfError):
    """The question was put to a design that never judges, or to too few epochs for any verdict."""


class UndecidedError(IpperfError):
    """No answer can be given, and nothing is broken: the evidence is too weak, or no time is left to gather more."""
