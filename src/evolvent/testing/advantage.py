"""Is an advantage function biased? Any trainer's, as a plain function on arrays, by enumeration: nothing is sampled.

In a few small tasks every attempt, and every group of two or three attempts, is formed with its probability. The
function credits each group, and the expected policy gradient

    E[ 1/G sum_i sum_t A_it grad log pi(token_it) ]

is compared with the true gradient of the expected return. Equal is unbiased; a multiple of it, the same in all tasks
and groups, is unbiased up to scale; anything else is biased, with the smallest counterexample as a table.

Three forms of function (which arguments it takes is read from its signature; others must have defaults):

``verl``
    ``f(token_level_rewards [B, T], response_mask [B, T], index [B]) -> advantages [B, T]``, or a tuple that begins
    with them. ``index`` names the prompt; all attempts at a prompt are one group.
``trl``
    ``f(rewards [B], num_generations) -> advantages [B] or [B, T]``; may also take ``completion_mask [B, T]`` and
    ``step_rewards [B, S]`` (NaN where an attempt had ended). Attempts at a prompt stand together.
``verifiers``
    ``f(inputs) -> outputs`` or the list itself: ``inputs.rollouts`` is one group, each a dict with ``reward`` and
    ``trajectory`` (a list of steps, each with its ``reward``); ``outputs.advantages`` has a number an attempt, or a
    list of one number a step.

B: attempts. T: positions: a turn is one or two tokens of the policy (mask 1), then one of the environment (mask 0).
S: turns.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from evolvent.core.errors import BadInput

Form = Literal["verl", "trl", "verifiers"]
Aggregation = Literal["constant", "token-mean", "sequence-mean"]
Claim = Literal["unbiased", "unbiased up to scale", "biased"]
# relative errors below these are rounding: of 64-bit and of 32-bit numbers
_ROUNDING = {8: 1e-8, 4: 1e-4, 2: 3e-2}
_WHERE = "testing.advantage"


@dataclass(frozen=True)
class Turn:
    """One action: a token or several, each option 0 or 1 at a choice point of the policy; and what it earned."""

    tokens: tuple[tuple[int, int], ...]
    reward: float


@dataclass(frozen=True)
class Attempt:
    """A whole attempt, and the probability of what the environment drew in it."""

    turns: tuple[Turn, ...]
    chance: float = 1.0

    @property
    def total(self) -> float:
        """Its return."""
        return sum(turn.reward for turn in self.turns)


@dataclass(frozen=True)
class Task:
    """All attempts at a task, and the policy: the probability of option 1 at each choice point ``[D]``."""

    name: str
    attempts: tuple[Attempt, ...]
    p_D: tuple[float, ...]

    def probability(self, attempt: Attempt) -> float:
        """Of this attempt."""
        chosen = (self.p_D[at] if option else 1.0 - self.p_D[at] for t in attempt.turns for at, option in t.tokens)
        return attempt.chance * math.prod(chosen)

    def scores_KD(self, attempt: Attempt) -> np.ndarray:
        """``grad log pi`` of every token ``[K, D]``, by the log-odds of option 1."""
        tokens = [token for turn in attempt.turns for token in turn.tokens]
        out = np.zeros((len(tokens), len(self.p_D)))
        for k, (at, option) in enumerate(tokens):
            out[k, at] = option - self.p_D[at]
        return out

    @property
    def true_gradient_D(self) -> np.ndarray:
        """Of the expected return."""
        parts = [self.probability(a) * a.total * self.scores_KD(a).sum(0) for a in self.attempts]
        return np.sum(parts, axis=0)


def tasks(seed: int) -> list[Task]:
    """From the smallest on: one turn, turns of different number, chance in the environment, rewards all alike."""
    rng = np.random.default_rng([seed, 44])

    def odds() -> float:
        return 0.5 if seed == 0 else float(rng.uniform(0.25, 0.75))

    def reward() -> float:
        return float(rng.integers(-1, 3)) if seed == 0 else float(rng.normal())

    def grow(turns: int, before: tuple[Turn, ...], p: list[float], *, stops: bool, tokens: int) -> list[Attempt]:
        """After ``before``: b ends the attempt where it ``stops``, a is said by so many tokens."""
        first, found = len(p), list[Attempt]()
        p += [odds() for _ in range(tokens)]
        says = [((first, 1),), *(((first, 0), *rest) for rest in _ways(range(first + 1, first + tokens)))]
        for said in says[::-1]:
            now = (*before, Turn(said, reward()))
            ends = len(now) == turns or (stops and said[0][1] == 1)
            found += [Attempt(now)] if ends else grow(turns, now, p, stops=stops, tokens=tokens)
        return found

    def task(name: str, turns: int, *, stops: bool = True, tokens: int = 1) -> Task:
        p: list[float] = []
        return Task(name, tuple(grow(turns, (), p, stops=stops, tokens=tokens)), tuple(p))

    def lucky() -> Task:
        """The first action costs; then the environment draws what comes of it, and whether there is a second turn."""
        p = (odds(), odds())
        found: list[Attempt] = []
        for option, chance in itertools.product((0, 1), (0.25, 0.75)):
            first = Turn(((0, option),), reward())
            if chance < 0.5:
                found.append(Attempt((first,), chance))
            else:
                found += [Attempt((first, Turn(((1, o),), reward())), chance) for o in (0, 1)]
        return Task("chance in the environment", tuple(found), p)

    def sparse() -> Task:
        """Rewards are 0 but for one attempt: most groups have no variance."""
        whole = task("most groups alike", 2)
        last = len(whole.attempts) - 1
        some = [Attempt(tuple(Turn(t.tokens, 0.0) for t in a.turns)) for a in whole.attempts]
        some[last] = Attempt((*some[last].turns[:-1], Turn(some[last].turns[-1].tokens, 1.0)))
        return Task(whole.name, tuple(some), whole.p_D)

    return [
        task("one turn", 1),
        task("one or two turns", 2),
        task("two turns", 2, stops=False),
        sparse(),
        lucky(),
        task("turns of two tokens", 2, tokens=2),
    ]


def _ways(points: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    for options in itertools.product((0, 1), repeat=len(points)):
        yield tuple(zip(points, options, strict=True))


@dataclass
class AdvantageReport:
    """What was found; ``str()`` says it in words with the counterexample."""

    claim: Claim
    relative_error: float
    """Largest over tasks of ``|E - g| / |g|``."""
    cosine: float
    """Smallest over tasks, between expected and true gradient."""
    scales: tuple[float, float] = (1.0, 1.0)
    """Smallest and largest over tasks of ``<E, g> / <g, g>``."""
    worst: str = ""
    """Task and group size of the largest error."""
    findings: list[str] = field(default_factory=list[str])
    """What else is wrong: an order that matters, a position outside the mask that is paid, NaN."""
    counterexample: str = ""

    def __str__(self) -> str:
        text = self.claim
        if self.claim != "unbiased":
            text += f": relative error {self.relative_error:.3g}, cosine {self.cosine:.4f} ({self.worst})"
        if self.claim == "unbiased up to scale":
            text += f"; {self.scales[0]:.4g} times the true gradient"
        return "\n".join([text, *self.findings, *([self.counterexample] if self.counterexample else [])])


def check_advantage(
    function: Callable[..., Any],
    form: Form = "verl",
    *,
    seeds: Sequence[int] = range(3),
    group_sizes: Sequence[int] = (2, 3),
    aggregation: Aggregation = "constant",
    arrays: Callable[[np.ndarray], Any] = np.asarray,
) -> AdvantageReport:
    """Whether the expected gradient under an advantage function is the policy gradient.

    Args:
        function: of one of the forms above; called with one group at a time, as the batch.
        form: which.
        seeds: of the tasks; seed 0 has round numbers.
        group_sizes: attempts in a group.
        aggregation: how the trainer sums a loss: ``constant`` divides by a number that no attempt changes (and the
            attempts), ``token-mean`` by the group's tokens, ``sequence-mean`` each attempt by its own.
        arrays: makes the function's arrays of numpy's, e.g. ``torch.as_tensor``.

    Raises:
        BadInput: the function fails, or returns NaN, infinite numbers or another shape.
    """
    call = _caller(function, form, arrays)
    found: list[tuple[float, float, float, Task, int]] = []
    rounding = 0.0
    for seed in seeds:
        for task in tasks(seed):
            for size in group_sizes:
                credit, tolerance = _credit(call, task, size)
                rounding = max(rounding, tolerance)
                expected = sum((g.weight * _gradient(task, g, a, aggregation) for g, a in credit), np.zeros(1))
                true, length = task.true_gradient_D, float(np.linalg.norm(expected))
                norm = float(np.linalg.norm(true))
                error = float(np.linalg.norm(expected - true)) / norm
                cosine = float(expected @ true) / (norm * length) if length > 1e-12 else 0.0
                found.append((error, cosine, float(expected @ true) / norm**2, task, size))
    findings = _order(call, tasks(seeds[-1])[-1], max(group_sizes))
    error, _, _, task, size = max(found, key=lambda row: row[0])
    scales = min(row[2] for row in found), max(row[2] for row in found)
    cosine = min(row[1] for row in found)
    # a mean that holds the attempt itself shrinks by (G - 1) / G: one scale a group size is all that is asked
    top = {size: max(row[2] for row in found if row[4] == size) for size in group_sizes}
    turned = [row for row in found if row[1] < 1.0 - rounding or row[2] <= 0.0]
    uneven = [row for row in found if abs(row[2] - top[row[4]]) > rounding * abs(top[row[4]])]
    claim: Claim = "biased" if turned or uneven else "unbiased up to scale"
    if error <= rounding:
        claim = "unbiased"
    report = AdvantageReport(claim, error, cosine, scales, f"{task.name}, groups of {size}", findings)
    if claim == "biased":
        _, _, _, task, size = (turned or uneven)[0]
        report.counterexample = _table(call, task, size, aggregation)
    return report


@dataclass(frozen=True)
class _Group:
    attempts: tuple[Attempt, ...]
    weight: float


_Call = Callable[[Sequence[Attempt]], tuple[list[np.ndarray], float, list[str]]]


def _groups(task: Task, size: int) -> Iterator[_Group]:
    """Every unordered group with its probability."""
    for members in itertools.combinations_with_replacement(range(len(task.attempts)), size):
        ways = math.factorial(size) / math.prod(math.factorial(n) for n in Counter(members).values())
        attempts = tuple(task.attempts[i] for i in members)
        yield _Group(attempts, ways * math.prod(task.probability(a) for a in attempts))


def _credit(call: _Call, task: Task, size: int) -> tuple[list[tuple[_Group, list[np.ndarray]]], float]:
    out, rounding = [], 0.0
    for group in _groups(task, size):
        turns, tolerance, _ = call(group.attempts)
        out.append((group, turns))
        rounding = max(rounding, tolerance)
    return out, rounding


def _gradient(task: Task, group: _Group, advantages: list[np.ndarray], aggregation: Aggregation) -> np.ndarray:
    """Of the choice points, ``[D]``; ``advantages``: of every token of the policy, of each attempt."""
    tokens = [len(own) for own in advantages]
    mean = sum(tokens) / len(tokens)
    out = np.zeros(len(task.p_D))
    for attempt, own, n in zip(group.attempts, advantages, tokens, strict=True):
        by = {"constant": 1.0, "token-mean": mean, "sequence-mean": float(n)}[aggregation]
        out += own @ task.scores_KD(attempt) / by
    return out / len(group.attempts)


def _order(call: _Call, task: Task, size: int) -> list[str]:
    """Whether attempts get the same in another order, and nothing is paid outside the mask."""
    found: list[str] = []
    some = list(_groups(task, size))
    for group in some[:: max(1, len(some) // 20)]:
        first, tolerance, notes = call(group.attempts)
        turned, _, _ = call(group.attempts[::-1])
        near = 10 * max(tolerance, 1e-9)
        if any(not np.allclose(a, b, rtol=near, atol=near) for a, b in zip(first, turned[::-1], strict=True)):
            found.append("what an attempt gets depends on its place in the group")
            break
        found += [note for note in notes if note not in found]
    return found


# ----------------------------------------------------------------------------------------------- the three forms
def _caller(function: Callable[..., Any], form: Form, arrays: Callable[[np.ndarray], Any]) -> _Call:
    """Calls the function with one group; gives the advantage of each token, the rounding, and what else was seen."""
    if form not in ("verl", "trl", "verifiers"):
        raise BadInput("no such form", got=form, expected="verl, trl or verifiers", where=_WHERE)
    names = _arguments(function, form)

    def call(group: Sequence[Attempt]) -> tuple[list[np.ndarray], float, list[str]]:
        shown = _shown(group, form, arrays)
        raw = function(shown["inputs"]) if form == "verifiers" else function(**{name: shown[name] for name in names})
        return _turns(raw, group, form)

    return call


_GIVEN = {
    "verl": ("token_level_rewards", "response_mask", "index"),
    "trl": ("rewards", "num_generations", "completion_mask", "step_rewards"),
    "verifiers": ("inputs",),
}


def _arguments(function: Callable[..., Any], form: Form) -> list[str]:
    known, wanted, every = _GIVEN[form], [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            every = form == "verl"
        elif name in known:
            wanted.append(name)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            if form == "verifiers":  # the only argument, whatever its name
                continue
            raise BadInput(
                "an argument that nothing is known of",
                got=name,
                expected=f"of {form}: {', '.join(known)}; others with a default",
                where=f"{getattr(function, '__name__', 'function')}()",
            )
    return list(known) if every else wanted


def _shown(group: Sequence[Attempt], form: Form, arrays: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    length = max(sum(len(t.tokens) + 1 for t in a.turns) for a in group)
    rewards_BT, mask_BT = np.zeros((len(group), length)), np.zeros((len(group), length))
    steps_BS = np.full((len(group), max(len(a.turns) for a in group)), np.nan)
    for b, attempt in enumerate(group):
        at = 0
        for s, turn in enumerate(attempt.turns):
            n = len(turn.tokens)
            mask_BT[b, at : at + n] = 1.0
            rewards_BT[b, at + n - 1] = turn.reward
            steps_BS[b, s] = turn.reward
            at += n + 1
    if form == "verl":
        index = np.zeros(len(group), dtype=object)
        return {"token_level_rewards": arrays(rewards_BT), "response_mask": arrays(mask_BT), "index": index}
    if form == "trl":
        return {
            "rewards": arrays(rewards_BT.sum(1)),
            "num_generations": len(group),
            "completion_mask": arrays(mask_BT),
            "step_rewards": arrays(steps_BS),
        }
    rollouts = [
        {
            "reward": a.total,
            "trajectory": [{"reward": t.reward, "completion_ids": [option for _, option in t.tokens]} for t in a.turns],
        }
        for a in group
    ]
    return {"inputs": SimpleNamespace(rollouts=rollouts)}


def _turns(raw: Any, group: Sequence[Attempt], form: Form) -> tuple[list[np.ndarray], float, list[str]]:
    """The advantage of every token of the policy, of each attempt; the rounding; what else was seen."""
    if form == "verifiers":
        return _of_steps(getattr(raw, "advantages", raw), group)
    if isinstance(raw, tuple):
        raw = raw[0]
    array = np.asarray(raw.detach().cpu().numpy() if hasattr(raw, "detach") else raw)
    length = max(sum(len(t.tokens) + 1 for t in a.turns) for a in group)
    if array.shape == (len(group), 1) or (form == "trl" and array.shape == (len(group),)):
        array = np.repeat(array.reshape(-1, 1), length, axis=1)
        outside = True
    elif array.shape == (len(group), length):
        outside = False
    else:
        raise _wrong(f"an array of shape {list(array.shape)}", group, f"[{len(group)}, {length}]")
    out, notes = [], []
    for row, attempt in zip(array, group, strict=True):
        at, own = 0, []
        for turn in attempt.turns:
            own += row[at : at + len(turn.tokens)].tolist()
            at += len(turn.tokens)
            if not outside and row[at] != 0.0 and not notes:
                notes.append("a token of the environment is paid (mask 0): multiply by the mask")
            at += 1
        out.append(np.array(own))
    _finite(out, group)
    return out, _ROUNDING.get(array.dtype.itemsize, 1e-8), notes


def _of_steps(raw: Any, group: Sequence[Attempt]) -> tuple[list[np.ndarray], float, list[str]]:
    if hasattr(raw, "detach"):
        raw = raw.detach().cpu().numpy()
    rows = list(raw) if isinstance(raw, Sequence | np.ndarray) else [raw]
    size = getattr(getattr(raw, "dtype", None), "itemsize", 8)
    if len(rows) == 1 and len(group) > 1 and np.shape(rows[0]) == (len(group),):
        rows = list(rows[0])  # [problems, rollouts], one problem
    if len(rows) != len(group):
        raise _wrong(f"{len(rows)} advantages", group, "one an attempt")
    out = []
    for row, attempt in zip(rows, group, strict=True):
        own = np.asarray(row, np.float64)
        own = np.full(len(attempt.turns), float(own)) if own.ndim == 0 else own
        if own.shape != (len(attempt.turns),):
            raise _wrong(f"{own.shape[0]} steps", group, f"{len(attempt.turns)} of this attempt, or one number")
        out.append(np.repeat(own, [len(turn.tokens) for turn in attempt.turns]))
    _finite(out, group)
    return out, _ROUNDING.get(size, 1e-8), []


def _finite(out: list[np.ndarray], group: Sequence[Attempt]) -> None:
    for own in out:
        if not np.isfinite(own).all():
            raise _wrong(f"{own[~np.isfinite(own)][0]}", group, "finite numbers")


def _wrong(got: str, group: Sequence[Attempt], expected: str) -> BadInput:
    rewards = "; ".join(" ".join(f"{t.reward:.3g}" for t in a.turns) for a in group)
    return BadInput(
        "the advantage function returned something else",
        got=f"{got}, for attempts whose turns earned: {rewards}",
        expected=expected,
        where=_WHERE,
    )


# --------------------------------------------------------------------------------------------- the counterexample
def _table(call: _Call, task: Task, size: int, aggregation: Aggregation) -> str:
    """Every group of the task with its probability, advantages and part of the gradient where the error is largest."""
    rows, expected = [], np.zeros(len(task.p_D))
    credit, _ = _credit(call, task, size)
    for group, advantages in credit:
        expected += group.weight * _gradient(task, group, advantages, aggregation)
    true = task.true_gradient_D
    scale = float(expected @ true) / float(true @ true)
    at = int(np.argmax(np.abs(expected - scale * true if abs(scale) > 1e-9 else true)))
    if len(task.p_D) == 1:
        at = 0
    for group, advantages in credit:
        part = group.weight * float(_gradient(task, group, advantages, aggregation)[at])
        cells = [_described(a, own) for a, own in zip(group.attempts, advantages, strict=True)]
        rows.append([*cells, f"{group.weight:.4g}", f"{part:+.4g}"])
    head = [*(f"attempt {i + 1}" for i in range(size)), "probability", "its part"]
    wide = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, wide, strict=True)).rstrip() for row in [head, *rows]]
    p = ", ".join(f"{x:.3g}" for x in task.p_D)
    return "\n".join(
        [
            f"Smallest counterexample ({task.name}; at choice {at + 1}; P(b) at each choice: {p}).",
            "A turn reads: tokens, reward, advantage of each token. The score of b is 1 - P(b), of a -P(b).",
            *lines,
            f"Expected gradient {expected[at]:+.4g}, true {true[at]:+.4g}"
            + (f"; over all choices {_row(expected)} against {_row(true)}" if len(true) > 1 else ""),
        ]
    )


def _described(attempt: Attempt, advantages: np.ndarray) -> str:
    left, parts = advantages.tolist(), list[str]()
    for turn in attempt.turns:
        said = "".join("ab"[option] for _, option in turn.tokens)
        parts.append(f"{said}{turn.reward:+.3g}:" + ",".join(f"{left.pop(0):+.3g}" for _ in turn.tokens))
    return " ".join(parts)


def _row(x: np.ndarray) -> str:
    return "[" + ", ".join(f"{v:+.4g}" for v in x) + "]"
