"""What a program that was run is paid: graded by how far it came, or by how fast it is."""

from __future__ import annotations

from evolvent.core.errors import BadInput

GRADES = (-1.0, -0.6, -0.3, 1.0)
"""CodeRL: it does not compile, it ends with an error, a test fails, all pass."""


def outcome_class(compiles: bool, runs: bool, correct: bool) -> int:
    """The outcome as CodeRL counts it, a place in ``GRADES``: that of the first stage that was not passed."""
    return 3 if correct else 0 if not compiles else 2 if runs else 1


def graded_outcome(
    compiles: bool, runs: bool, correct: bool, grades: tuple[float, float, float, float] = GRADES
) -> float:
    """The grade of an outcome (Le et al. 2022, arXiv 2207.01780)."""
    return grades[outcome_class(compiles, runs, correct)]


def efficiency_reward(compiles: bool, correct: bool, ratio: float = 1.0) -> float:
    """Correctness and speed in one number, in [-1, 1] (ACECode, Yang et al. 2024, arXiv 2412.17264; the form is ours).

        -1 does not compile     -0.5 wrong     0.5 + 0.5 clip((t_ref - t) / t_ref, -1, 1) right

    ``ratio`` is ``t_ref / t``: how many times as fast as the reference.

    Raises:
        BadInput: a right program whose ratio is not above 0.
    """
    if not correct:
        return -0.5 if compiles else -1.0
    if not ratio > 0.0:
        raise BadInput("no ratio of times", got=ratio, expected="above 0", where="efficiency_reward")
    return 0.5 + 0.5 * max(-1.0, min(1.0, 1.0 - 1.0 / ratio))
