"""Whether learning can work at all: signs in the metrics of a run, in words, each pointing at its cause.

``docs/when-it-does-not-learn.md`` has a section for every one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

PAGE = "docs/when-it-does-not-learn.md"
AGAIN = 20
"""A warning is not repeated for this many updates."""
Check = Callable[[list[Mapping[str, Any]]], bool]
"""Of the last lines of the metrics, the newest last."""


class Health:
    """Looks at each update's line and remembers what it has said.

    ``exact`` says whether the model computes in float32, where sampling and training agree to rounding.
    """

    def __init__(self, *, exact: bool) -> None:
        self._gap = 1e-4 if exact else 0.5
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=10)
        self._said: dict[str, int] = {}
        self._before: dict[str, Any] = {}
        self._seen = 0

    def look(self, row: Mapping[str, Any]) -> list[str]:
        """Warnings that are due after this line of the metrics, in words; lines that are no update have none.

        The evaluation before the first update counts where the first update is looked at.
        """
        if "update" not in row:
            if row.get("phase") == "eval" and not self._seen:
                self._before = {"before_success": row.get("success_mean"), "before_n": row.get("n")}
            return []
        begun = self._before if row["update"] == 1 else {}
        row = {**row, **begun}
        self._rows.append({**row, "gap_beyond": row.get("gap", 0.0) > self._gap})
        self._seen += 1
        due: list[str] = []
        for name, (check, text) in SIGNS.items():
            if check(list(self._rows)) and self._seen - self._said.get(name, -AGAIN) >= AGAIN:
                self._said[name] = self._seen
                due.append(f"{text.format(**_numbers(row))} ({PAGE}#{name})")
        return due


def _all(name: str, beyond: Callable[[float], bool], n: int = 5) -> Check:
    """Whether the last ``n`` values of a column all lie beyond a limit."""

    def check(rows: list[Mapping[str, Any]]) -> bool:
        values = [float(row[name]) for row in rows[-n:] if isinstance(row.get(name), int | float)]
        return len(values) >= n and all(beyond(x) for x in values)

    return check


def _hopeless(rows: list[Mapping[str, Any]]) -> bool:
    """Nothing succeeded before learning or in the first update, whose attempts at each task all earned the same."""
    row = rows[-1]
    # where examples are imitated, nothing is attempted in an update
    tried = "success_mean" in row and not row["success_mean"]
    return row.get("before_success") == 0.0 and tried and row.get("flat_mean") in (None, 1.0)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(x) for name, x in row.items() if isinstance(x, int | float)}


def _unless_solved(check: Check) -> Check:
    """Not while nearly every attempt succeeds: what looks like a fault is then the end of learning."""
    return lambda rows: check(rows) and not SOLVED(rows)


SOLVED = _all("success_mean", lambda x: x >= 0.95)

SIGNS: dict[str, tuple[Check, str]] = {
    "all-right": (
        SOLVED,
        "{success_mean:.0%} of the attempts succeed, for five updates now: the tasks are solved or too easy",
    ),
    "no-difference": (
        _unless_solved(_all("flat_mean", lambda x: x >= 0.9)),
        "in {flat_mean:.0%} of the groups all attempts earned the same: nothing is compared, nothing is learned",
    ),
    "nothing-to-begin-with": (
        _hopeless,
        "0 of {before_n:.0f} held-out attempts succeeded before learning, and in the first update those at each task "
        "all earned the same: there is nothing to learn from; give examples in the instructions, easier tasks, rewards "
        "for parts of an answer, a larger model or --group",
    ),
    "never-right": (
        _all("success_mean", lambda x: x <= 0.0, 10),
        "no attempt succeeded in ten updates: the task is too hard for sampling alone",
    ),
    "sampler-and-trainer-differ": (
        _all("gap_beyond", lambda x: x > 0, 1),
        "log-probabilities when training differ from those when sampling by {gap:.1e}: the ratios start wrong",
    ),
    "attempts-break": (
        _all("broken_mean", lambda x: x >= 0.1, 3),
        "{broken_mean:.0%} of the attempts broke and are missing from what is learned: mend the environment or reward",
    ),
    "answers-cut-off": (
        _all("cut_mean", lambda x: x >= 0.5, 3),
        "{cut_mean:.0%} of the answers were cut off by their length: raise --answer, or give the model a way to stop",
    ),
    "entropy-gone": (
        _unless_solved(_all("entropy", lambda x: x < 0.01)),
        "the entropy is {entropy:.4f} nats where there is a choice: the model tries nothing new",
    ),
    "far-from-the-reference": (
        _all("kl_ref", lambda x: x > 10.0),
        "the model is {kl_ref:.1f} nats a token away from where it started",
    ),
    "clipped-away": (
        _all("clipped", lambda x: x > 0.5),
        "{clipped:.0%} of the tokens are clipped: most of the gradient is thrown away; lower lr or epochs",
    ),
    "steps-thrown-away": (
        _all("skipped", lambda x: x > 0.5),
        "{skipped:.0%} of the steps were thrown away by the KL guard; lower lr or raise --kl-stop",
    ),
    "critic-blind": (
        _unless_solved(_all("explained", lambda x: x < 0.05)),
        "the critic explains {explained:.0%} of the returns: the policy follows noise; raise --critic-lr, lower --lr",
    ),
    "one-verdict": (
        _all("accepted", lambda x: not 0.1 <= x <= 0.9, 1),
        "the critic accepts {accepted:.0%} of the steps, of which half are right: it says one word to nearly all",
    ),
    "never-called": (
        _unless_solved(_all("calls_mean", lambda x: x <= 0.0, 10)),
        "no tool was called in ten updates: what is never tried cannot be learned",
    ),
    "calls-fail": (
        _all("failed_calls_mean", lambda x: x >= 0.5),
        "{failed_calls_mean:.0%} of the calls of tools came back with an error",
    ),
}
