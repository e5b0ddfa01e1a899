"""Say what the A/A check found, in the same words wherever it is reported."""

from __future__ import annotations

from pytest_ipperf.core.nightly.aa_check import AACheck


def aa_check_text(found: AACheck | None) -> str:
    """Return the result of the A/A check as a sentence without its full stop; None is a session without twins."""
    if found is None:
        return "A/A check: none, as the reference had no twin"
    unstable = "" if found.stable else ": the environment is unstable, and the other differences cannot be trusted"
    return f"{aa_check_finding(found)}{unstable}"


def aa_check_finding(found: AACheck) -> str:
    """Return whether the reference passed, in how many cells it differed from its twin, and what chance gives."""
    cells = f"{found.cells} cell{'s' * (found.cells != 1)}"
    differed = f"the reference differed from its twin (by a {100 * found.confidence:.0f} % interval) in"
    if not found.can_fail:
        return (
            f"A/A check: says nothing, as it needs {found.fewest} cells with a twin and there "
            f"{'are' if found.cells > 1 else 'is'} {found.cells}; {differed} {found.excludes} of {found.cells}"
        )
    return (
        f"A/A check {'passed' if found.stable else 'failed'}: {differed} {found.excludes} of {cells}, and chance gives "
        f"{found.at_most} at most"
    )
