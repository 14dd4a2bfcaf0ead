"""What all searches share: making moves, judging them, entering states, counting, and the paths that were found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.config import at_least
from evolvent.core.errors import BadInput, EvolventError
from evolvent.core.protocols import Prompt
from evolvent.search.budget import Budget, Meter
from evolvent.search.tree import Tree

# counts and weights of searches, with the least that can be searched with
LEAST = {
    **dict.fromkeys(("paths", "parallel", "simulations", "keep", "depth", "searches", "rollouts", "population"), 1),
    **dict.fromkeys(("c", "weight", "temperature"), 0),
}


@dataclass(frozen=True)
class Settings:
    """What the settings of every search are: numbers that could not be searched with are refused."""

    def __post_init__(self) -> None:
        at_least(self, LEAST)


@dataclass(frozen=True)
class Moves:
    """What can follow one node: ``prior`` float64 ``[N]`` (sums to 1) and ``tokens`` int ``[N]`` of each move.

    None (``N = 0``): no move could be made, the attempt is lost there.
    """

    prior: np.ndarray
    tokens: np.ndarray


@dataclass(frozen=True)
class State:
    """A node as a value judges it.

    ``steps`` are the moves from the root as text, ``logps`` their mean log-probabilities a token (NaN = not known);
    ``ended``, ``reward`` and ``right`` (the world's word; ``None`` where it says none) are what is known of the end
    once a state was entered; a value that reads them is an oracle; ``shown`` is its share of the tests that stood in
    the question (kind of reward "shown"), which is none.
    ``context`` is what the model would read next, for learned heads; ``None`` where there is no such thing.
    """

    node: int
    task: int
    question: str
    steps: tuple[str, ...]
    logps: tuple[float, ...] = ()
    ended: bool = False
    reward: float = math.nan
    context: Prompt | None = None
    shown: float = math.nan
    right: bool | None = None


class Space(Protocol):
    """What a tree is grown over; asked about many nodes at once, so that a model answers them as one batch."""

    def propose(self, nodes: Sequence[int], widths: Sequence[int], meter: Meter) -> list[Moves | None]:
        """The moves that can follow each node, at most its width; ``None`` where the budget does not allow any.

        Counts what it costs.
        """
        ...

    def made(self, parent: int, children: np.ndarray) -> None:
        """The moves that were proposed for ``parent`` last are these nodes now."""
        ...

    def twin(self, node: int, new: int) -> None:
        """``new`` stands where ``node`` does, and goes on by itself."""
        ...

    def enter(self, nodes: Sequence[int]) -> list[float | None]:
        """Make the last move of each node: ``None`` where the attempt goes on, or its reward (NaN: not known)."""
        ...

    def state(self, node: int) -> State:
        """A node for a value."""
        ...

    def key(self, node: int) -> str | None:
        """What is equal for equal states of one depth; ``None`` where states cannot be compared."""
        ...


Value = Callable[[Sequence[State]], ArrayLike]
"""What states are worth, ``[N]``: a learned head, a process reward model, rollouts, a verifier, memory values, ….
``search.values`` has some, and makes one of several. ``begin(search)``, where it is there, is called first."""


def flat(states: Sequence[State]) -> np.ndarray:
    """All states are worth the same, 0: the priors decide."""
    return np.zeros(len(states))


@dataclass(frozen=True)
class Path:
    """A path that was found: its last node, what that was worth, and the tokens that its tree had cost by then.

    ``ended`` is false for the best unfinished one, where no path had reached an end within the budget.
    """

    task: int
    leaf: int
    value: float
    tokens: int
    ended: bool = True


@dataclass
class Search:
    """A tree with what it is grown over; each function of ``search/`` grows it.

    Attributes:
        paths: what was found, in order.
        notes: what a reader must know, each once.
    """

    tree: Tree
    space: Space
    value: Value = flat
    widths: tuple[int, ...] = (8,)
    """Moves that are asked for at each depth; the last number holds for all below."""
    budget: Budget = field(default_factory=Budget)
    verifier: Value | None = None
    """What attempts that have ended are worth; ``None`` leaves them what ``value`` said. The environment's own reward
    (``values.reward``) is an oracle to whoever looks for the answer."""

    meter: Meter = field(init=False)
    entered: np.ndarray = field(init=False)
    """States of each task that were entered, int64."""
    paths: list[Path] = field(default_factory=list[Path], init=False)
    notes: list[str] = field(default_factory=list[str], init=False)
    _known: dict[tuple[int, int, str], int] = field(default_factory=dict[tuple[int, int, str], int], init=False)

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise BadInput("no moves are asked for", got=self.widths, expected="numbers of at least 1", where="widths")
        self.meter = Meter(len(self.tree.roots), self.budget)
        self.entered = np.zeros(len(self.tree.roots), np.int64)
        begin = getattr(self.value, "begin", None)
        if begin is not None:
            begin(self)
        self.enter(self.tree.roots.tolist())

    # ------------------------------------------------------------------------------------------------ growing
    def open(self, node: int) -> bool:
        """Whether the budget of its task allows more."""
        return self.meter.left(int(self.tree.task[node]))

    def enter(self, nodes: ArrayLike) -> None:
        """Make the last move of each node ``[N]``, once; says of each whether its attempt has ended there."""
        at = np.asarray(nodes, np.int64)
        new = list(dict.fromkeys(at[~self.tree.entered[at]].tolist()))
        if not new:
            return
        np.add.at(self.entered, self.tree.task[new], 1)
        for node, reward in zip(new, self.space.enter(new), strict=True):
            self.tree.entered[node] = True
            if reward is not None:
                self.tree.terminal[node], self.tree.reward[node] = True, reward
        ended = [n for n in new if self.tree.terminal[n] and not self.tree.dead[n]]
        if ended and self.verifier:
            self._judge(np.array(ended), self.verifier, "verifier")
        for node in new:
            self._compare(node)

    def expand(self, nodes: ArrayLike, width: int = 0, *, judge: bool = True, depth: int | None = None) -> None:
        """Make and judge the children of nodes, once; those that have ended, or whose budget is spent, get none.

        Args:
            nodes: ``[N]``, of any tasks.
            width: moves that are asked for; 0 = ``widths`` of their depth.
            judge: False leaves the children's value at 0.
            depth: of the tree at most: nodes there are entered, in case their attempt ends, and get no children.
        """
        tree = self.tree
        at = tree.state[np.asarray(nodes, np.int64)]
        self.enter(at)
        at = tree.state[at]  # one that was entered now may stand for another's state
        if depth is not None:
            at = at[tree.depth[at] < depth]
        wanted = list(dict.fromkeys(at[~tree.terminal[at] & (tree.first[at] < 0)].tolist()))
        if not wanted:
            return
        widths = [width or self.widths[min(int(tree.depth[n]), len(self.widths) - 1)] for n in wanted]
        proposed = self.space.propose(wanted, widths, self.meter)
        found = [(n, moves) for n, moves in zip(wanted, proposed, strict=True) if moves is not None]
        if not found:
            return
        counts = [len(moves.prior) for _, moves in found]
        prior, tokens = (np.concatenate([getattr(m, name) for _, m in found]) for name in ("prior", "tokens"))
        new = tree.add([n for n, _ in found], counts, prior, tokens)
        for (node, _), children in zip(found, np.split(new, np.cumsum(counts)[:-1]), strict=True):
            self.space.made(node, children)
            if not len(children):
                tree.terminal[node] = tree.dead[node] = True
                tree.reward[node], tree.value[node] = 0.0, self.worth(node)
                self.note("a state from which the model made no move counts as lost")
        if judge:
            self._judge(new, self.value)

    def again(self, nodes: Sequence[int]) -> list[int]:
        """New nodes that stand where these do: to try from there once more."""
        new = self.tree.twin(nodes).tolist()
        for node, other in zip(nodes, new, strict=True):
            self.space.twin(node, other)
            self.tree.entered[other] = True
            for column in (self.tree.terminal, self.tree.reward, self.tree.dead):
                column[other] = column[node]
        return new

    def reach(self, node: int) -> None:
        """Note that a path has come to an end at ``node``."""
        task = int(self.tree.task[node])
        self.paths.append(Path(task, int(node), self.worth(node), int(self.meter.tokens[task])))

    def worth(self, node: int) -> float:
        """What it is worth to stop at ``node``; where an attempt is lost, the least of its task's values, at most 0.

        With a fixed 0 a lost state would be the best one wherever values are negative.
        """
        at = self.tree.state[node]
        return float(self.tree.least[self.tree.task[at]] if self.tree.dead[at] else self.tree.value[at])

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    def of(self, task: int) -> list[Path]:
        """The paths of one task. Where the budget ended before any was taken: the best end that was met on the way, or
        else the best unfinished path, the deepest, then of highest value.
        """
        found = [path for path in self.paths if path.task == task]
        if found:
            return found
        tree = self.tree
        inside = tree.inside(task)
        alive = inside[~tree.dead[inside]]
        ends = alive[tree.terminal[alive]]
        at = ends if len(ends) else alive if len(alive) else inside
        best = int(at[np.lexsort((tree.q(at), tree.depth[at] * (len(ends) == 0)))[-1]])
        if not len(ends):
            self.note("no path came to an end within the budget: the best unfinished one is given")
        return [Path(task, best, float(tree.q(best)), int(self.meter.tokens[task]), ended=bool(len(ends)))]

    # ------------------------------------------------------------------------------------------------ inside
    def _judge(self, nodes: np.ndarray, value: Value, what: str = "value") -> None:
        if not len(nodes):
            return
        started = self.meter.elapsed
        states = [self.space.state(int(node)) for node in nodes]
        worth = judged(value, states, what)
        self.meter.value_s += self.meter.elapsed - started
        np.add.at(self.meter.judged, self.tree.task[nodes], 1)
        self.tree.value[nodes] = worth
        np.minimum.at(self.tree.least, self.tree.task[nodes], worth)

    def _compare(self, node: int) -> None:
        """Join a node to one that stands for the same state."""
        key = self.space.key(node)
        if key is None or self.tree.expanded(node):
            return
        slot = (int(self.tree.task[node]), int(self.tree.depth[node]), key)
        other = self._known.setdefault(slot, node)
        if other != node and not self.tree.visits[node] and self.tree.state[node] == node:
            self.tree.join(node, other)


def judged(value: Value, states: Sequence[State], what: str = "value") -> np.ndarray:
    """What ``value`` says of states, float64 ``[N]``, checked.

    Raises:
        BadInput: another number of values, or one that is not finite; or what the value raised, said where.
    """
    name = getattr(value, "__name__", type(value).__name__)
    try:
        given = np.asarray(value(states))
        if np.iscomplexobj(given):  # numpy would drop a part of each with a mere warning
            raise TypeError("complex numbers")
        worth = given.astype(np.float64)
    except EvolventError:
        raise
    except Exception as error:
        raise BadInput(
            f"the {what} of a search failed",
            got=f"{type(error).__name__}: {error}",
            where=f"{what} {name}",
            do="it is called with a list of search.State and returns one number each",
        ) from error
    if worth.shape != (len(states),):
        raise BadInput(
            "the value judged another number of states", got=worth.shape, expected=(len(states),), where=name
        )
    if not np.isfinite(worth).all():
        bad = states[int(np.flatnonzero(~np.isfinite(worth))[0])]
        got = f"{worth[~np.isfinite(worth)][0]} for {' '.join(bad.steps)[-80:]!r}"
        raise BadInput("the value of a state is not finite", got=got, expected="a finite number", where=name)
    return worth
