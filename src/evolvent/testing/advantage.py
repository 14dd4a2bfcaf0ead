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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.testing.exact import GradientReport, Path, SmallTask, Step, all_groups

Form = Literal["verl", "trl", "verifiers"]
Aggregation = Literal["constant", "token-mean", "sequence-mean"]
Claim = Literal["unbiased", "unbiased up to scale", "biased"]
# relative errors below these are rounding: of 64-bit and of 32-bit numbers
_ROUNDING = {8: 1e-8, 4: 1e-4, 2: 3e-2}
_WHERE = "testing.advantage"


def tasks(seed: int) -> list[SmallTask]:
    """From the smallest on: one turn, turns of different number, chance in the environment, rewards all alike.

    One is long, with large rewards: there a return over a few turns, or a clipped one, is not the whole.
    """
    rng = np.random.default_rng([seed, 44])

    def odds() -> float:
        p = 0.5 if seed == 0 else float(rng.uniform(0.25, 0.75))
        return float(np.log(p / (1.0 - p)))

    def reward() -> float:
        return float(rng.integers(-1, 3)) if seed == 0 else float(rng.normal())

    def grow(turns: int, before: Path, logits: list[float], *, stops: bool, tokens: int, unit: float) -> list[Path]:
        """After ``before``: b ends the attempt where it ``stops``, a is said by so many tokens."""
        first, found = len(logits), list[Path]()
        logits += [odds() for _ in range(tokens)]
        says = [((first, 1),), *(((first, 0), *rest) for rest in _ways(range(first + 1, first + tokens)))]
        for said in says[::-1]:
            now = before.then(said, unit * reward())
            ends = len(now.steps) == turns or (stops and said[0][1] == 1)
            found += [now] if ends else grow(turns, now, logits, stops=stops, tokens=tokens, unit=unit)
        return found

    def task(name: str, turns: int, *, stops: bool = True, tokens: int = 1, unit: float = 1.0) -> SmallTask:
        logits: list[float] = []
        paths = grow(turns, Path(), logits, stops=stops, tokens=tokens, unit=unit)
        return SmallTask(seed, tuple(paths), np.array(logits), name)

    def lucky() -> SmallTask:
        """The first action costs; then the environment draws what comes of it, and whether there is a second turn."""
        logits, found = [odds(), odds()], list[Path]()
        for option, chance in itertools.product((0, 1), (0.25, 0.75)):
            first = Path(chance=chance).then(((0, option),), reward())
            found += [first] if chance < 0.5 else [first.then(((1, o),), reward()) for o in (0, 1)]
        return SmallTask(seed, tuple(found), np.array(logits), "chance in the environment")

    def sparse() -> SmallTask:
        """Rewards are 0 but for one attempt: most groups have no variance."""
        whole = task("most groups alike", 2)
        nothing = [replace(path, rewards=(0.0,) * len(path.rewards)) for path in whole.paths]
        last = replace(nothing[-1], rewards=(*nothing[-1].rewards[:-1], 1.0))
        return replace(whole, paths=(*nothing[:-1], last))

    return [
        task("one turn", 1),
        task("one or two turns", 2),
        task("two turns", 2, stops=False),
        sparse(),
        lucky(),
        task("turns of two tokens", 2, tokens=2),
        task("one to six turns, large rewards", 6, unit=10.0),
    ]


def _ways(points: Sequence[int]) -> Iterator[Step]:
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
        BadInput: the function fails, returns NaN, infinite numbers or another shape, or gives the same group something
            else the second time.
    """
    call = _caller(function, form, arrays)
    found: list[tuple[GradientReport, SmallTask]] = []
    rounding, findings = 0.0, list[str]()
    for size in group_sizes:
        findings += [finding for finding in _order(call, tasks(seeds[-1])[-2], size) if finding not in findings]
    ordered = _PLACE in findings
    for seed in seeds:
        for task, size in itertools.product(tasks(seed), group_sizes):
            credit = _credit(call, task, size, aggregation, ordered)
            rounding = max(rounding, credit.rounding)
            true_D = task.true_gradient_D
            found.append((GradientReport.of(seed, size, credit.gradient_ND, credit.weight_N, true_D), task))
    reports = [report for report, _ in found]
    worst, task = max(found, key=lambda one: one[0].relative_error)
    # a mean that holds the attempt itself shrinks by (G - 1) / G: one scale a group size is all that is asked
    top = {size: max(r.scale for r in reports if r.group_size == size) for size in group_sizes}
    turned = [one for one in found if one[0].cosine < 1.0 - rounding or one[0].scale <= 0.0]
    uneven = [one for one in found if abs(one[0].scale - (most := top[one[0].group_size])) > rounding * abs(most)]
    claim: Claim = "biased" if turned or uneven else "unbiased up to scale"
    if worst.relative_error <= rounding:
        claim = "unbiased"
    report = AdvantageReport(
        claim,
        worst.relative_error,
        cosine=min(r.cosine for r in reports),
        scales=(min(r.scale for r in reports), max(r.scale for r in reports)),
        worst=f"{task.name}, groups of {worst.group_size}",
        findings=findings,
    )
    if claim == "biased":
        first, task = (turned or uneven)[0]
        report.counterexample = _table(
            task, first.group_size, _credit(call, task, first.group_size, aggregation, ordered)
        )
    return report


_Call = Callable[[Sequence[Path]], tuple[list[np.ndarray], float, list[str]]]


class _Credit(NamedTuple):
    """What a function gives to every group of a task, and the gradient that comes of it."""

    groups: list[list[Path]]
    weight_N: np.ndarray
    advantages: list[list[np.ndarray]]
    """Of every token of the policy, of each attempt of each group."""
    gradient_ND: np.ndarray
    rounding: float


def _credit(call: _Call, task: SmallTask, size: int, aggregation: Aggregation, ordered: bool) -> _Credit:
    groups, weight_N = all_groups(task, size)
    if ordered:  # where the place matters, a group is another one in another order
        groups = list(itertools.product(range(len(task.paths)), repeat=size))
        weight_N = task.probability_N[np.array(groups)].prod(1)
    scores = [task.scores_KD(n) for n in range(len(task.paths))]
    shown = [[task.paths[n] for n in group] for group in groups]
    advantages, rounding = list[list[np.ndarray]](), 0.0
    gradient_ND = np.zeros((len(groups), len(task.logit_D)))
    for group, paths, gradient_D in zip(groups, shown, gradient_ND, strict=True):
        given, tolerance, _ = call(paths)
        mean = sum(map(len, given)) / size
        for n, own in zip(group, given, strict=True):
            by = {"constant": 1.0, "token-mean": mean, "sequence-mean": float(len(own))}[aggregation]
            gradient_D += own @ scores[n] / by / size
        advantages.append(given)
        rounding = max(rounding, tolerance)
    return _Credit(shown, weight_N, advantages, gradient_ND, rounding)


_PLACE = "what an attempt gets depends on its place in the group"


def _order(call: _Call, task: SmallTask, size: int) -> list[str]:
    """Whether attempts get the same in another order, and nothing is paid outside the mask; some groups, each twice."""
    found: list[str] = []
    groups, _ = all_groups(task, size)
    for members in groups[:: max(1, len(groups) // 20)]:
        group = [task.paths[n] for n in members]
        first, tolerance, notes = call(group)
        near = 10 * max(tolerance, 1e-9)
        found += [note for note in notes if note not in found]
        for place in itertools.permutations(range(size)):
            again, _, _ = call([group[i] for i in place])
            same = all(np.allclose(first[i], own, rtol=near, atol=near) for i, own in zip(place, again, strict=True))
            if not same and place == tuple(range(size)):
                raise _wrong(
                    "something else at the second call",
                    group,
                    "the same whenever it is called",
                    "fix its seed, and what it remembers from call to call",
                )
            if not same and _PLACE not in found:
                found.append(_PLACE)
    return found


# ----------------------------------------------------------------------------------------------- the three forms
def _caller(function: Callable[..., Any], form: Form, arrays: Callable[[np.ndarray], Any]) -> _Call:
    """Calls the function with one group; gives the advantage of each token, the rounding, and what else was seen."""
    if form not in ("verl", "trl", "verifiers"):
        raise BadInput("no such form", got=form, expected="verl, trl or verifiers", where=_WHERE)
    names = _arguments(function, form)

    def call(group: Sequence[Path]) -> tuple[list[np.ndarray], float, list[str]]:
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


def _positions(group: Sequence[Path]) -> np.ndarray:
    """Of each position ``[B, T]``: 1 a token of the policy, 0 one of the environment, -1 behind the attempt's end."""
    rows = [[kind for step in path.steps for kind in (*[1] * len(step), 0)] for path in group]
    length = max(map(len, rows))
    return np.array([row + [-1] * (length - len(row)) for row in rows])


def _shown(group: Sequence[Path], form: Form, arrays: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    if form == "verifiers":
        rollouts = [
            {
                "reward": path.total,
                "trajectory": [
                    {"reward": reward, "completion_ids": [option for _, option in step]}
                    for step, reward in zip(path.steps, path.rewards, strict=True)
                ],
            }
            for path in group
        ]
        return {"inputs": SimpleNamespace(rollouts=rollouts)}
    position_BT = _positions(group)
    mask_BT, rewards_BT = (position_BT == 1).astype(np.float64), np.zeros(position_BT.shape)
    steps_BS = np.full((len(group), max(len(path.steps) for path in group)), np.nan)
    for b, path in enumerate(group):
        steps_BS[b, : len(path.steps)] = path.rewards
        rewards_BT[b, np.flatnonzero(position_BT[b] == 0) - 1] = path.rewards
    if form == "verl":
        index = np.zeros(len(group), dtype=object)
        return {"token_level_rewards": arrays(rewards_BT), "response_mask": arrays(mask_BT), "index": index}
    return {
        "rewards": arrays(rewards_BT.sum(1)),
        "num_generations": len(group),
        "completion_mask": arrays(mask_BT),
        "step_rewards": arrays(steps_BS),
    }


def _turns(raw: Any, group: Sequence[Path], form: Form) -> tuple[list[np.ndarray], float, list[str]]:
    """The advantage of every token of the policy, of each attempt; the rounding; what else was seen."""
    if form == "verifiers":
        return _of_steps(getattr(raw, "advantages", raw), group)
    if isinstance(raw, tuple):
        raw = raw[0]
    position_BT, notes = _positions(group), list[str]()
    array = _numbers(raw, group)
    if array.shape == (len(group), 1) or (form == "trl" and array.shape == (len(group),)):
        array = np.broadcast_to(array.reshape(-1, 1), position_BT.shape)
    elif array.shape != position_BT.shape:
        got = repr(raw) if np.isscalar(raw) or raw is None else f"an array of shape {list(array.shape)}"
        one_each = f"[{len(group)}] or " if form == "trl" else ""
        raise _wrong(got, group, f"shape {one_each}{list(position_BT.shape)}")
    elif (array[position_BT == 0] != 0.0).any():
        notes.append("a token of the environment is paid (mask 0): multiply by the mask")
    out = [row[position == 1].astype(np.float64) for row, position in zip(array, position_BT, strict=True)]
    _finite(out, group)
    return out, _ROUNDING.get(array.dtype.itemsize, 1e-8), notes


def _of_steps(raw: Any, group: Sequence[Path]) -> tuple[list[np.ndarray], float, list[str]]:
    raw = _numbers(raw, group) if hasattr(raw, "detach") else raw
    rows = list(raw) if isinstance(raw, Sequence | np.ndarray) else [raw]
    size = getattr(getattr(raw, "dtype", None), "itemsize", 8)
    if len(rows) == 1 and len(group) > 1 and np.shape(rows[0]) == (len(group),):
        rows = list(rows[0])  # [problems, rollouts], one problem
    if len(rows) != len(group):
        raise _wrong(f"{len(rows)} advantages", group, "one an attempt")
    out = []
    for row, path in zip(rows, group, strict=True):
        own = _numbers(row, group).astype(np.float64)
        own = np.full(len(path.steps), float(own)) if own.ndim == 0 else own
        if own.shape != (len(path.steps),):
            raise _wrong(f"{own.shape[0]} steps", group, f"{len(path.steps)} of this attempt, or one number")
        out.append(np.repeat(own, [len(step) for step in path.steps]))
    _finite(out, group)
    return out, _ROUNDING.get(size, 1e-8), []


def _numbers(raw: Any, group: Sequence[Path]) -> np.ndarray:
    """As a real array; what is none is an error that shows the group."""
    try:
        array = np.asarray(raw.detach().cpu().numpy() if hasattr(raw, "detach") else raw)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise _wrong(repr(raw)[:80], group, "an array of numbers") from None
    if array.dtype.kind not in "biuf":
        raise _wrong(
            f"{array.dtype.name} numbers" if array.dtype.kind == "c" else repr(raw)[:80], group, "real numbers"
        )
    return array


def _finite(out: list[np.ndarray], group: Sequence[Path]) -> None:
    for own in out:
        if not np.isfinite(own).all():
            raise _wrong(f"{own[~np.isfinite(own)][0]}", group, "finite numbers")


def _wrong(got: str, group: Sequence[Path], expected: str, do: str = "") -> BadInput:
    rewards = "; ".join(" ".join(f"{reward:.3g}" for reward in path.rewards) for path in group)
    return BadInput(
        "the advantage function returned something else",
        got=f"{got}, for attempts whose turns earned: {rewards}",
        expected=expected,
        where=_WHERE,
        do=do,
    )


# --------------------------------------------------------------------------------------------- the counterexample
def _table(task: SmallTask, size: int, credit: _Credit) -> str:
    """Every group of the task with its probability, advantages and part of the gradient where the error is largest."""
    true, expected = task.true_gradient_D, credit.weight_N @ credit.gradient_ND
    scale = float(expected @ true) / float(true @ true)
    at = int(np.argmax(np.abs(expected - scale * true if abs(scale) > 1e-9 else true)))
    rows: list[list[str]] = []
    parts = credit.weight_N * credit.gradient_ND[:, at]
    for group, advantages, weight, part in zip(credit.groups, credit.advantages, credit.weight_N, parts, strict=True):
        cells = [_described(path, own) for path, own in zip(group, advantages, strict=True)]
        rows.append([*cells, f"{weight:.4g}", f"{part:+.4g}"])
    head = [*(f"attempt {i + 1}" for i in range(size)), "probability", "its part"]
    wide = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, wide, strict=True)).rstrip() for row in [head, *rows]]
    p = ", ".join(f"{x:.3g}" for x in task.odds_D)
    return "\n".join(
        [
            f"Smallest counterexample ({task.name}; at choice {at + 1}; P(b) at each choice: {p}).",
            "A turn reads: tokens, reward, advantage of each token. The score of b is 1 - P(b), of a -P(b).",
            *lines,
            f"Expected gradient {expected[at]:+.4g}, true {true[at]:+.4g}"
            + (f"; over all choices {_row(expected)} against {_row(true)}" if len(true) > 1 else ""),
        ]
    )


def _described(path: Path, advantages: np.ndarray) -> str:
    left, parts = advantages.tolist(), list[str]()
    for step, reward in zip(path.steps, path.rewards, strict=True):
        said = "".join("ab"[option] for _, option in step)
        parts.append(f"{said}{reward:+.3g}:" + ",".join(f"{left.pop(0):+.3g}" for _ in step))
    return " ".join(parts)


def _row(x: np.ndarray) -> str:
    return "[" + ", ".join(f"{v:+.4g}" for v in x) + "]"
