"""Which of the memories in a prompt caused an outcome: the attempt again, without each of them, then without pairs.

A receipt alone tells what usually came with a memory. Here the attempt itself is repeated, and one thing is changed: a
memory is left out. Of each memory the difference is measured by ``formulas.effect``, which may be looked at after every
round, and those are named that e-BH names, so of such names a share of ``level`` is expected to be wrong. Two memories
that harm together only are both named: leaving out either mends it. Two that harm each for itself are not, as the other
still stands there; where no single one is named, pairs are left out.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.outside import own_faults
from evolvent.core.seeding import seed_tree
from evolvent.formulas.effect import LEAST, Estimate, Row, estimate, named
from evolvent.memory import effects
from evolvent.memory.effect_report import in_points, points
from evolvent.memory.items import Item
from evolvent.memory.memory import Memory
from evolvent.memory.text import counted

Attempt = Callable[..., "float | tuple[float, int]"]
"""``attempt(task, notes) -> reward``, or ``(reward, tokens)``, with the tokens that it used; it may take ``seed=``.

``notes`` are ``Item`` records, best first.
"""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Part:
    """A memory, or two, and what leaving it out adds to the reward.

    Attributes:
        ids: of the memories.
        adds: estimate of reward with it against without it, as a share of the reward range: negative where it harms.
        named: whether it is named as a cause.
    """

    ids: tuple[str, ...]
    adds: Estimate
    named: bool


@dataclass(frozen=True)
class Blame:
    """What caused an outcome, as far as it is known.

    Attributes:
        receipt: of the recall.
        parts: each memory that was shown, and pairs where those were tried.
        causes: memories that are named.
        descendants: memories written under their influence, which a quarantine takes along.
        attempts: how often the agent acted.
        tokens: that it used in all; ``None`` where it tells none.
        repeated: the attempt was repeated; otherwise other receipts were read, which is weaker.
        untried: pairs for which the budget did not suffice.
        stopped: it was interrupted before its end.
    """

    receipt: str
    parts: tuple[Part, ...]
    causes: tuple[str, ...]
    descendants: tuple[str, ...]
    attempts: int
    repeated: bool
    tokens: int | None = None
    untried: int = 0
    stopped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([_verdict(self), *map(_line, self.parts), *_ends(self)])


def blame(
    memory: Memory,
    receipt: str,
    attempt: Attempt | None = None,
    *,
    budget: int = 200,
    level: float = 0.1,
    seed: int = 0,
    progress: Progress | None = None,
) -> Blame:
    """Which of the memories that a recall showed caused what came of it.

    Args:
        memory: where the receipt is; nothing is written.
        receipt: of the recall ("r12").
        attempt: acts again: ``attempt(task, notes)`` returns the reward, within the memory's range, or a pair of it and
            the tokens that were used. With a parameter ``seed`` it gets one, the same for every arm of a round.
            ``None``: only what other receipts say.
        budget: attempts at most.
        level: share of the named ones that is expected to be named wrongly.
        seed: of the attempts.
        progress: called with attempts so far and the budget.

    Raises:
        BadInput: unknown receipt, nothing was shown, its task is erased, the budget is too small to say anything,
            ``level`` is no share, the agent takes other arguments or raised, or its reward is no number within the
            range, or its tokens no count.
    """
    if not 0.0 < level < 1.0:
        raise BadInput("not a share", got=level, expected="above 0, below 1", where="level", code="out_of_range")
    known = memory.explain(receipt).data
    if "pool" not in known:
        do = "evolvent memory receipts STORE lists them"
        raise BadInput("not a receipt", got=receipt, expected="e.g. 'r12'", where="blame", do=do, code="not_an_id")
    notes = [memory.get(row.get("memory", row["id"])) for row in known["pool"] if row["shown"]]
    if not notes:
        raise BadInput("nothing was shown, so no memory caused it", got=receipt, where="blame", code="nothing_named")
    if attempt is None:
        return _by_receipts(memory, receipt, notes, level)
    seeded = _seeded(attempt)
    if not all(note.body for note in notes):
        do = "leave the agent out: then other receipts are read; or recall with keep_text=True"
        raise BadInput("of what is kept elsewhere no text is here", got=receipt, where="blame", do=do, code="erased")
    if not known["query"]:
        do = "leave the agent out: then other receipts are read"
        raise BadInput("the task was erased", got=receipt, where="blame", do=do, code="erased")
    least = LEAST * (len(notes) + 1) * (2 if len(notes) > 2 else 1)
    if budget < least:
        expected = f"at least {least}"
        raise BadInput(
            "too few attempts to say anything", got=budget, expected=expected, where="blame", code="out_of_range"
        )
    again = partial(attempt, known["query"])
    trial = _Trial(memory, notes, again, budget, seed if seeded else None, progress)
    singles = [(note.id,) for note in notes]
    pairs = list(combinations([note.id for note in notes], 2)) if len(notes) > 2 else []
    untried, stopped, parts = 0, False, list[Part]()
    try:
        parts = trial.measured(singles, level, budget // 2 if pairs else budget)
        room = (budget - trial.attempts) // LEAST
        if pairs and not any(part.named for part in parts):
            untried = max(0, len(pairs) - room)
            parts += trial.measured(pairs[:room], level, budget)
    except KeyboardInterrupt:
        parts, stopped = parts or trial.parts(singles, level), True
    causes = _causes([part.ids for part in parts if part.named])
    below, used = _descendants(memory, causes), trial.tokens
    return Blame(receipt, tuple(parts), causes, below, trial.attempts, True, used, untried, stopped)


def _causes(named: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The memories of what is named; where several pairs are that share a memory, that one mends them all."""
    shared = set(named[0]).intersection(*named) if len(named) > 1 else set[str]()
    return tuple(dict.fromkeys(id_ for ids in named for id_ in ids if not shared or id_ in shared))


def _seeded(attempt: Attempt) -> bool:
    """Whether an agent takes a seed; ``BadInput`` where it cannot be called as an agent is."""
    try:
        signature = inspect.signature(attempt)
        seeded = "seed" in signature.parameters
        signature.bind("task", [], **({"seed": 0} if seeded else {}))
    except TypeError as error:
        raise BadInput(
            "no agent that can be called",
            got=getattr(attempt, "__name__", attempt),
            expected="a function attempt(task, notes) that returns the reward",
            where=f"the agent: {error}",
            code="wrong_type",
        ) from None
    return seeded


class _Trial:
    """Attempts at one task, with all the memories and without some; what came of each, by what was left out."""

    def __init__(
        self,
        memory: Memory,
        notes: Sequence[Item],
        attempt: Attempt,
        budget: int,
        seed: int | None,
        progress: Progress | None,
    ) -> None:
        self.notes, self.attempt, self.budget, self.progress = notes, attempt, budget, progress
        self.range, self.seed, self.attempts = memory.bank.reward_range, seed, 0
        self.tokens: int | None = None
        self.outcomes: dict[tuple[str, ...], list[float]] = {(): []}

    def measured(self, arms: Sequence[tuple[str, ...]], level: float, budget: int) -> list[Part]:
        """Rounds of all arms, until some are named and nothing speaks against another, or the budget is used."""
        self.outcomes |= {arm: [] for arm in arms}
        while arms:
            done = len(self.outcomes[arms[0]])
            missing = [arm for arm in ((), *arms) if len(self.outcomes[arm]) == done]
            if self.attempts + len(missing) > budget:
                break
            for arm in missing:
                self.outcomes[arm].append(self._once(arm, done))
            parts = self.parts(arms, level)
            open_ = [part for part in parts if not part.named and part.adds.e_harm > 1.0]
            if any(part.named for part in parts) and not open_:
                break
        return self.parts(arms, level)

    def parts(self, arms: Sequence[tuple[str, ...]], level: float) -> list[Part]:
        """What is known of each arm."""
        found = {arm: estimate(self._rows(arm)) for arm in arms}
        return _named(found, level)

    def _rows(self, arm: tuple[str, ...]) -> list[Row]:
        sides = ((True, self.outcomes[()]), (False, self.outcomes.get(arm, [])))
        return [Row(side, 0.5, y, task=i) for side, outcomes in sides for i, y in enumerate(outcomes)]

    def _once(self, without: tuple[str, ...], number: int) -> float:
        notes = [note for note in self.notes if note.id not in without]
        more = {} if self.seed is None else {"seed": seed_tree(self.seed, "blame", number)}
        with own_faults("", "the agent failed", where=f"without {', '.join(without) or 'nothing'}"):
            reward: Any = self.attempt(notes, **more)
        if isinstance(reward, tuple) and len(reward) == 2:
            reward, used = reward
            if not isinstance(used, Integral) or isinstance(used, bool) or used < 0:
                expected = "(reward, tokens), tokens a whole number from 0 on"
                raise BadInput(
                    "what the agent used is no count of tokens",
                    got=used,
                    expected=expected,
                    where="the agent",
                    code="out_of_range",
                )
            self.tokens = int(used) + (self.tokens or 0)
        low, high = self.range
        if isinstance(reward, bool):
            reward = high if reward else low
        if not isinstance(reward, int | float) or not math.isfinite(reward) or not low <= reward <= high:
            expected = f"a number from {low:g} to {high:g}, the rewards of this memory"
            raise BadInput(
                "what the agent returned is no reward",
                got=reward,
                expected=expected,
                where="the agent",
                code="out_of_range",
            )
        self.attempts += 1
        if self.progress:
            self.progress(self.attempts, self.budget)
        return (float(reward) - low) / (high - low)


def _named(found: Mapping[tuple[str, ...], Estimate], level: float) -> list[Part]:
    harm = {" ".join(arm): e.e_harm if e.speaks else 1.0 for arm, e in found.items()}
    worst = set(named(harm, level))
    return [Part(arm, e, " ".join(arm) in worst) for arm, e in found.items()]


def _by_receipts(memory: Memory, receipt: str, notes: Sequence[Item], level: float) -> Blame:
    """What other receipts say of the memories: where chance left one of them out, and what came of it."""
    rows = effects.own(effects.read(memory.bank, memory.policy.objective, notes=True))
    first = {note.id: memory.explain(note.id).data["versions"][0] for note in notes}
    parts = _named({(id_,): estimate(rows.get(int(one[1:]), [])) for id_, one in first.items()}, level)
    causes = tuple(part.ids[0] for part in parts if part.named)
    return Blame(receipt, tuple(parts), causes, _descendants(memory, causes), 0, False)


def _descendants(memory: Memory, causes: Sequence[str]) -> tuple[str, ...]:
    if not causes:
        return ()
    would = memory.quarantine(list(causes), "blamed", dry_run=True)
    return tuple(change.id for change in would.statuses if change.id not in causes)


# ---------------------------------------------------------------------------------------------------- in words
def _verdict(b: Blame) -> str:
    if not b.causes:
        nothing = "no memory is shown to have caused it"
        return nothing.capitalize() + (" (interrupted)." if b.stopped else ".")
    return f"Named as a cause: {' and '.join(b.causes)}."


def _line(part: Part) -> str:
    e, name = part.adds, " and ".join(part.ids)
    if e.lift is None or e.mean_with is None or e.mean_without is None:
        return f"  {name}: never left out, so nothing is known"
    with_it, without = f"{e.mean_with:.2f} with it ({e.n_with})", f"{e.mean_without:.2f} without it ({e.n_without})"
    said = f"  {name}: {with_it}, {without}"
    if not e.speaks or e.lo is None or e.hi is None:
        return said + "; too early to say"
    return said + f"; {in_points(e.lift)} [{points(e.lo)}, {points(e.hi)}]" + ", named" * part.named


def _ends(b: Blame) -> list[str]:
    used = "" if b.tokens is None else f", {counted(b.tokens, 'token')}"
    lines = [f"{counted(b.attempts, 'attempt')} at the task{used}."]
    if not b.repeated:
        lines = ["From other receipts alone, which is weaker than an agent that tries the task again (--agent)."]
    if b.untried:
        lines.append(f"{counted(b.untried, 'pair')} not tried: the budget did not suffice.")
    if b.descendants:
        lines.append(f"Written under their influence: {', '.join(b.descendants)}.")
    return lines
