"""What the memory is told of an attempt: settled at first, revised when better evidence says otherwise."""

from __future__ import annotations

from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory.items import ValueChange
from evolvent.memory.memory import Memory
from evolvent.serve.attempts import Attempt, Attempts
from evolvent.serve.verdicts import IDLE_S, LAPSE_S


def tell(memory: Memory, attempts: Attempts, scope: str, id: str, now: float, **more: Any) -> list[ValueChange]:
    """Have the memory say of each receipt of an attempt what its verdict says; told again, nothing changes.

    Args:
        memory: of the scope.
        attempts: of the store.
        scope: its name.
        id: of the attempt.
        now: seconds since 1970.
        more: of ``Memory.settle``: action, child.
    """
    attempt = attempts.of(scope, id, now)
    changes = list[ValueChange]()
    said = [_say(memory, receipt, attempt, changes, more) for receipt in attempt.receipts]
    if attempt.verdict.state == "settled":
        # what was just said is looked at once more: its commit may fail
        attempts.look_again(id, now if any(said) else None)
    else:
        attempts.look_again(id, attempt.last + (IDLE_S if attempt.verdict.state == "waiting" else LAPSE_S))
    return changes


def _say(memory: Memory, receipt: str, attempt: Attempt, changes: list[ValueChange], more: dict[str, Any]) -> bool:
    """Whether the memory had to be told."""
    verdict, bank = attempt.verdict, memory.bank
    if verdict.state == "waiting":
        return False
    valid, reward = verdict.reward is not None, verdict.reward
    value = bank.reward_range[reward] if isinstance(reward, bool) else reward
    rows = bank.store.rows(
        "SELECT valid, reward, source, weight, replaced_by FROM outcome WHERE recall_id = ? AND objective = 'success' "
        "ORDER BY outcome_id DESC",
        (int(receipt[1:]),),
    )
    stands = next(((bool(row[0]), *row[1:4]) for row in rows if row[4] is None), None)
    if stands == (valid, value, verdict.source, verdict.weight) or (stands and not valid and not stands[0]):
        return False
    if verdict.state != "settled" and not (stands and any(one.rank for one in attempt.evidence)):
        return False  # else what stands follows no more: what was fixed fails again, or somebody contradicts
    options: dict[str, Any] = {"source": verdict.source, "valid": valid, "weight": verdict.weight, **more}
    try:
        if any(row[0] for row in rows):
            memory.revise(receipt, reward, f"attempt {attempt.id}: {verdict.words}", **options)
        else:
            changes += memory.settle(receipt, reward, **options)
    except BadInput as error:
        if error.code != "unknown_receipt":  # erased since
            raise
        return False
    return True


def words(attempt: Attempt) -> str:
    """The line of an explanation that says which evidence gave the verdict."""
    verdict = attempt.verdict
    said = "no reward" if verdict.reward is None else f"reward {float(verdict.reward):g}, weight {verdict.weight:g}"
    said = f"{verdict.state}, {said}" if verdict.state in ("settled", "waiting") else verdict.state
    return f"  attempt {attempt.id}: {said}: {verdict.words}"
