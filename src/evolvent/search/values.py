"""What states are worth, for any search: likelihood, a process reward model, a verifier, the model's word, rollouts.

Each is a function of states (``search.search.Value``) that one can write oneself; ``mixture`` adds some up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.errors import BadInput, EnvError, EvolventError
from evolvent.core.protocols import Engine, Prompt, Request
from evolvent.core.seeding import seed_tree
from evolvent.formulas.process_supervision import samples_at
from evolvent.formulas.selection import softmax
from evolvent.search.best_of_n import chains
from evolvent.search.budget import prompt_tokens
from evolvent.search.search import Search, State, Value, judged

MOST = 100_000
"""Samples of one state."""


def likelihood(states: Sequence[State]) -> np.ndarray:
    """``exp`` of the mean log-probability a token, every move counted once, float64 ``[N]`` in 0..1.

    Raises:
        BadInput: the model gives no log-probabilities.
    """
    means = np.array([np.mean(s.logps) if s.logps else 0.0 for s in states])
    if np.isnan(means).any():
        raise BadInput(
            "the model gives no log-probabilities",
            where="value likelihood",
            do="take another value (--value judge, --value flat), or a model in this process",
        )
    return np.exp(means)


def reward(states: Sequence[State], bounds: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    """The environment's own reward of attempts that have ended: as a verifier of a search an oracle.

    Args:
        states: attempts that have ended.
        bounds: the environment's ``reward_range``; what is returned is the place in it, 0 to 1, so that weights of
            exploration mean the same in every world.

    Raises:
        EnvError: none is known.
    """
    paid = np.array([s.reward for s in states], np.float64)
    if np.isnan(paid).any():
        raise EnvError("no reward is known at the end of an attempt", where="search.values.reward")
    return _place(paid, bounds)


def _place(paid: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    low, high = bounds
    return (paid - low) / (high - low)


def shown(states: Sequence[State]) -> np.ndarray:
    """The share of the tests in the question that attempts which have ended passed: a verifier, and no oracle.

    Raises:
        BadInput: the world does not say it.
    """
    passed = np.array([s.shown for s in states], np.float64)
    if np.isnan(passed).any():
        raise BadInput(
            "no tests stand in the questions of this world",
            where="value shown",
            expected='a world that pays the kind of reward "shown", such as program:told',
            do="take another value",
        )
    return passed


def guess(states: Sequence[State]) -> np.ndarray:
    """``likelihood`` where it is known, otherwise 0, float64 ``[N]``: where nothing better is known yet."""
    known = [not np.isnan(s.logps).any() for s in states]
    return np.array([likelihood([s])[0] if k else 0.0 for s, k in zip(states, known, strict=True)], np.float64)


def process(scores: Callable[[str, Sequence[str]], ArrayLike]) -> Value:
    """A process reward model: ``scores(question, steps)`` is one number a step, of which the last counts.

    Aggregators see the scores of all steps of a path: each was the last one once.

    Raises:
        BadInput: another number of scores than steps.
    """

    def value(states: Sequence[State]) -> np.ndarray:
        out = np.zeros(len(states))
        for i, state in enumerate(states):
            judged = np.asarray(scores(state.question, state.steps), np.float64)
            if judged.shape != (len(state.steps),):
                raise BadInput(
                    "a process reward model must score every step",
                    got=f"{judged.shape} scores",
                    expected=f"{len(state.steps)} steps",
                    where=getattr(scores, "__name__", "process"),
                )
            out[i] = judged[-1] if len(judged) else 0.0
        return out

    value.__name__ = f"process({getattr(scores, '__name__', 'model')})"
    return value


def verifier(check: Callable[[str, str], float]) -> Value:
    """``check(question, text)``, for ``Search.verifier``."""

    def value(states: Sequence[State]) -> np.ndarray:
        return np.array([_checked(check, s) for s in states], np.float64)

    value.__name__ = f"verifier({getattr(check, '__name__', 'check')})"
    return value


def _checked(check: Callable[[str, str], float], state: State) -> float:
    try:
        return float(check(state.question, "\n".join(state.steps)))
    except EvolventError:
        raise
    except Exception as error:
        raise EnvError(
            "the verifier failed",
            got=f"{type(error).__name__}: {error}",
            where=f"on {' '.join(state.steps)[-80:]!r}",
            do="a verifier returns a number for any text, 0 for one that it cannot read",
        ) from error


@dataclass
class Judge:
    """The model's own word: the probability of "yes" against "no" behind a question about each state.

    What it reads counts in the budget of each task (``Meter.judge``).
    """

    engine: Engine
    plain: Callable[[str], Prompt]
    """A text as a prompt (``Renderer.plain``)."""
    command: Callable[[str], Prompt]
    """A word as a continuation (``Renderer.command``)."""
    words: str = "{question}\n{steps}\nIs everything up to here right, and on the way to the answer? Answer yes or no:"
    search: Search | None = field(default=None, init=False)

    def begin(self, search: Search) -> None:
        """Whose budget it reads on."""
        self.search = search

    def __call__(self, states: Sequence[State]) -> np.ndarray:
        """Float64 ``[N]`` in 0..1."""
        choices = (self.command("yes"), self.command("no"))
        room = max(len(c) for c in choices)
        texts = [self.words.format(question=s.question, steps="\n".join(s.steps)) for s in states]
        requests = [Request(self.plain(text), seed_tree(0, "judge"), room, choices=choices) for text in texts]
        answers = self.engine(requests)
        if self.search is not None:
            read = [prompt_tokens(r.prompt) for r in requests]
            np.add.at(self.search.meter.judge, [s.task for s in states], read)
        scores = [a.scores_N for a in answers]
        if any(s is None for s in scores):
            raise BadInput("the model cannot score words", where="value judge", do="take another value")
        return softmax(np.array(scores), axis=-1)[:, 0]


@dataclass
class Rollouts:
    """The mean reward of ``n`` samples from each state to the end: an oracle, for labels and for measuring others."""

    n: int = 4
    """Samples of a state; at the question, where they get fewer below."""
    least: int = 0
    """MedS3's schedule: ``max(n // (depth + 1), least)`` samples of a state (published: 20 and 5); 0 = ``n`` of all."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The environment's ``reward_range``; a reward counts as its place in it, 0 to 1 (``reward``)."""
    search: Search | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MOST or not 0 <= self.least <= self.n:
            got, expected = f"n={self.n}, least={self.least}", f"n in 1..{MOST:,}, least in 0..n"
            raise BadInput("samples of a state", got=got, expected=expected, where="--value rollouts")

    def begin(self, search: Search) -> None:
        """What it samples in; the samples count as the search's tokens."""
        self.search = search

    def __call__(self, states: Sequence[State]) -> np.ndarray:
        """Float64 ``[N]``; a sample that the budget cuts off, or that the world broke, earns the least: 0."""
        search = self.search
        if search is None:
            raise BadInput("rollouts without a search", where="search.values.Rollouts", do="give it to Search(value=…)")
        depths = [int(search.tree.depth[s.node]) for s in states]
        counts = [samples_at(d, most=self.n, least=self.least) if self.least else self.n for d in depths]
        nodes = [s.node for s, count in zip(states, counts, strict=True) for _ in range(count)]
        ends = chains(search, nodes, judge=False)
        paid = np.array([search.tree.reward[end] if end >= 0 else self.bounds[0] for end in ends], np.float64)
        placed = _place(paid, self.bounds)
        return np.array([mine.mean() for mine in np.split(placed, np.cumsum(counts)[:-1])]) if states else np.zeros(0)


def mixture(*parts: tuple[float, Value]) -> Value:
    """A weighted sum of values."""

    def value(states: Sequence[State]) -> np.ndarray:
        return np.sum([weight * judged(part, states) for weight, part in parts], axis=0)

    def begin(search: Search) -> None:
        for _, part in parts:
            if (begins := getattr(part, "begin", None)) is not None:
                begins(search)

    value.__name__ = " + ".join(f"{weight:g} {getattr(v, '__name__', type(v).__name__)}" for weight, v in parts)
    value.begin = begin  # pyright: ignore[reportFunctionMemberAccess]
    return value
