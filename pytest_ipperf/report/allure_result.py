"""Identity and categories of Allure results, which a session writes and the end of a night completes."""

from __future__ import annotations

import enum
import hashlib
import json

PENDING = "measured again in fresh epochs; the night decides about all flagged cells together"
"""Sentence of a result of a night's second session until the night has decided."""

VALUES = "run values and answer"
"""Name of the attachment with the values of all runs and the answer."""


class Category(enum.Enum):
    """A category of Allure; the value is its status and its name."""

    REGRESSION = ("failed", "Regression")
    FLAGGED = ("skipped", "Flagged, to be measured again")
    INCONCLUSIVE = ("skipped", "Inconclusive")
    UNJUDGED = ("skipped", "Unjudged")
    INVALID = ("broken", "Invalid")
    INFRASTRUCTURE = ("broken", "Infrastructure")

    @property
    def status(self) -> str:
        """Status of the results in this category."""
        return self.value[0]

    @property
    def word(self) -> str:
        """First word of the messages in this category."""
        return self.name.lower()

    def message(self, sentence: str) -> str:
        """Return the message by which Allure finds the category."""
        return f"{self.word}: {sentence.removeprefix(f'{self.word}: ')}"


def result_id(nodeid: str, cell: str, metric: str) -> str:
    """Return the id by which Allure identifies the same test in two sessions.

    The id of allure-pytest is a digest of all parameter values concatenated, in which 1 and 64 equal 16 and 4.
    """
    return hashlib.sha256(json.dumps([nodeid, cell, metric]).encode()).hexdigest()[:32]
