"""Say what the A/A check found, in the same words wherever a page says it."""

from __future__ import annotations

from pytest_ipperf.core.nightly.aa_check import AACheck


def aa_check_text(found: AACheck | None) -> str:
    """Return the result of the A/A check as a sentence without its full stop; None is a session without twins."""
    if found is None:
        return "A/A check: none, as the reference had no twin"
    cells = f"{found.cells} cell{'s' * (found.cells != 1)}"
    stable = ": no sign that anything but the networks made differences" if found.can_fail else ""
    word = stable if found.stable else ": the environment is unstable, and the other differences cannot be trusted"
    return (
        f"A/A check: in {found.excludes} of {cells} the {100 * found.confidence:.0f} % interval of the reference "
        f"against its twin excludes 0; {found.chance}{word}"
    )
