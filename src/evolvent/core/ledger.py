"""``Ledger``: credit addressed by level, arrays inside, and projections between levels that conserve the total.

A token belongs to a step and a step to an agent: upward credit is summed, downward it is spread over the parts.
Memories and components belong to the episode: what goes to them (or comes from them) is pooled per episode and spread.
Credit that finds no unit at the target level stays with its episode as *unassigned*; nothing is lost, nothing invented.

Not scored is different from ``0.0``: it is NaN in arrays and ``None`` as a single value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.branches import Branch, trees_of
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput

LEVELS = ("token", "step", "agent", "memory", "component")
_NESTED = ("token", "step", "agent")  # each belongs to exactly one of the next


class Address(NamedTuple):
    """Who earned it: ``unit`` is the index within the episode (token, step) or a name (agent, memory, component)."""

    level: str
    episode: int
    unit: int | str


class _Layout(NamedTuple):
    episode: np.ndarray  # int32 [N], ascending
    names: list[str] | None  # None where units are numbered
    parent: np.ndarray | None  # int32 [N]: step of a token, agent unit of a step


class Ledger:
    """Credit of a group of episodes at five levels; make one with ``Ledger.for_episodes``.

    Units stand episode by episode in order of occurrence. An agent is a unit once per episode in which it decided, a
    memory once per episode in which it was shown, a component once per episode in which it ran.
    """

    __slots__ = ("_layouts", "_lengths", "_loose", "_values", "episodes", "targets")

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self.episodes: tuple[Episode, ...] = tuple(episodes)
        # layouts are made when first asked for; the lengths notice an episode that grew in between
        self._lengths = [e.n_nodes for e in self.episodes]
        self._layouts: dict[str, _Layout] = {}
        self._values: dict[str, np.ndarray] = {}
        # what a critic should say of each unit, [N] by level, NaN = no target; set by rules that read one
        self.targets: dict[str, np.ndarray] = {}
        self._loose: dict[str, np.ndarray] = {}  # per episode [E]; NaN = nothing unassigned

    @classmethod
    def for_episodes(cls, episodes: Sequence[Episode]) -> Ledger:
        """A ledger with an address for every unit of ``episodes`` at every level, nothing scored.

        Raises:
            BadInput: a record of several attempts: rules score attempts one by one.
        """
        for episode in episodes:
            if len(episode.ends) > 1:
                raise BadInput(
                    "attempts that share a beginning are scored one by one",
                    got=f"{len(episode.ends)} in one record",
                    where=f"episode {episode.id}",
                    do="core.branches.linear(episodes), then Ledger.over_trees",
                )
        return cls(episodes)

    # ------------------------------------------------------------------------------------------------ addresses
    def size(self, level: str) -> int:
        """Number of units N at ``level``."""
        return len(self._layout(level).episode)

    def episode_index(self, level: str) -> np.ndarray:
        """Position in ``episodes`` of each unit: int32 ``[N]``, ascending."""
        return _read_only(self._layout(level).episode)

    def parent_index(self, child: str, parent: str) -> np.ndarray:
        """Unit of ``parent`` that each unit of ``child`` belongs to, int32 ``[N_child]`` (token ⊂ step ⊂ agent)."""
        if not _is_part(child, parent):
            raise BadInput("levels are not nested", got=f"{child} in {parent}", expected="token ⊂ step ⊂ agent")
        index = self._layout(child).parent
        assert index is not None
        if (child, parent) == ("token", "agent"):
            above = self._layout("step").parent
            assert above is not None
            index = above[index]
        return _read_only(index)

    def units(self, level: str) -> list[int] | list[str]:
        """Unit of each address: index within its episode, or its name."""
        layout = self._layout(level)
        if layout.names is not None:
            return list(layout.names)
        starts = np.searchsorted(layout.episode, layout.episode)
        return (np.arange(len(layout.episode)) - starts).tolist()

    def entries(self, level: str) -> Iterator[tuple[Address, float | None]]:
        """Every address of ``level`` with its credit, ``None`` where not scored."""
        where, values = self._layout(level).episode.tolist(), self.values(level).tolist()
        for episode, unit, value in zip(where, self.units(level), values, strict=True):
            yield Address(level, episode, unit), None if value != value else value

    # --------------------------------------------------------------------------------------------------- values
    def values(self, level: str) -> np.ndarray:
        """Credit of each unit: float64 ``[N]``, read-only, NaN where not scored."""
        stored = self._values.get(level)
        return _read_only(np.full(self.size(level), np.nan) if stored is None else stored)

    def set(self, level: str, values: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Score the units of ``level``.

        Args:
            level: one of ``LEVELS``.
            values: ``[N]`` or one number for all; NaN (or None) = not scored.
            mask: bool ``[N]``; where False the unit keeps what it had. Without a mask the level starts afresh.

        Raises:
            BadInput: wrong shape, or a value that is infinite.
        """
        n = self.size(level)
        new = _numbers(values, n, f"Ledger.set({level!r}, values)")
        if mask is None:
            self._values[level] = np.full(n, new, dtype=np.float64)
            self._loose.pop(level, None)
            return
        chosen = np.asarray(mask)
        if chosen.shape != (n,) or chosen.dtype != np.bool_:
            got = f"{chosen.dtype} {chosen.shape}"
            raise BadInput("mask does not fit", got=got, expected=f"bool ({n},)", where=f"Ledger.set({level!r})")
        self._values[level] = np.where(chosen, new, self.values(level))

    def followed_by(self, other: Ledger, level: str) -> Ledger:
        """Credit of both at ``level``, the episodes of this one first."""
        both = Ledger.for_episodes([*self.episodes, *other.episodes])
        both.set(level, np.concatenate([self.values(level), other.values(level)]))
        return both

    def get(self, level: str, *, episode: int, unit: int | str) -> float | None:
        """Credit of one unit (index within the episode, or name), ``None`` where not scored."""
        layout = self._layout(level)
        lo, hi = np.searchsorted(layout.episode, (episode, episode + 1)).tolist()
        at = -1
        if isinstance(unit, str):
            if layout.names is not None and unit in layout.names[lo:hi]:
                at = layout.names.index(unit, lo, hi)
        elif 0 <= unit < hi - lo:
            at = lo + unit
        if at < 0:
            known = hi - lo if layout.names is None else layout.names[lo:hi]
            raise BadInput("no such unit", got=unit, expected=known, where=f"Ledger.get({level!r}, episode={episode})")
        value = float(self.values(level)[at])
        return None if value != value else value

    def unassigned(self, level: str) -> np.ndarray:
        """Credit that reached ``level`` and found no unit there: float64 ``[E]``, 0.0 where there is none."""
        self._check(level)
        loose = self._loose.get(level)
        return np.zeros(len(self.episodes)) if loose is None else np.nan_to_num(loose, nan=0.0)

    def per_episode(self, level: str) -> np.ndarray:
        """Credit of each episode, the unassigned included: float64 ``[E]``, NaN where nothing is scored."""
        pooled = _sum_up(self.values(level), self._layout(level).episode, len(self.episodes))
        return _plus(pooled, self._loose.get(level))

    def total(self, level: str) -> float:
        """Credit of all episodes at ``level``, the unassigned included: what projections conserve."""
        return float(np.nansum(self.per_episode(level)))

    # ----------------------------------------------------------------------------------------------- projection
    def project(self, source: str, target: str, weights: ArrayLike | None = None) -> np.ndarray:
        """Carry the credit at ``source`` to ``target``, replacing what stood there.

        Upward (token → step → agent) it is summed over what is scored. Downward each unit's credit is spread over its
        parts, and between an episode's memories or components and any other level the episode's credit is pooled and
        spread: evenly, or by ``weights``. A unit below one that is not scored is not scored. ``per_episode`` and
        ``total`` are the same at both levels afterwards, up to rounding.

        Args:
            source: level that holds the credit.
            target: level that receives it.
            weights: ``[N_target]``, finite and ≥ 0, normalised here; all zero = nobody: the credit is unassigned.

        Returns:
            ``values(target)``, float64 ``[N_target]``.

        Raises:
            BadInput: unknown level, weights that do not fit, or weights for a sum.
        """
        self._check(source)
        self._check(target)
        upward = source == target or _is_part(source, target)
        if weights is not None:
            if upward:
                raise BadInput("a sum takes no weights", got=f"{source} → {target}", where="Ledger.project")
            weights = _numbers(weights, self.size(target), f"Ledger.project({source!r}, {target!r}, weights)")
            if not np.all(weights >= 0.0):
                raise BadInput("weights are negative or NaN", got=float(np.min(weights)), where="Ledger.project")
        values, n_episodes = self.values(source), len(self.episodes)
        loose = self._loose.get(source)
        if source == target:
            return values
        if upward:
            out = _sum_up(values, self.parent_index(source, target), self.size(target))
        elif _is_part(target, source):
            out, left = _spread(values, self.parent_index(target, source), weights)
            if left is not None:
                loose = _plus(_sum_up(left, self._layout(source).episode, n_episodes), loose)
        else:
            pooled = _sum_up(values, self._layout(source).episode, n_episodes)
            out, left = _spread(pooled, self._layout(target).episode, weights)
            loose = loose if left is None else _plus(left, loose)
        self._values[target] = out
        if loose is None:
            self._loose.pop(target, None)
        else:
            self._loose[target] = loose
        return _read_only(out)

    def over_trees(self, level: str) -> Ledger:
        """The credit of attempts, carried to the records that hold them: a unit that several share is paid once.

        A unit gets the mean credit over the attempts that go through it: each is an estimate of the same decision's
        worth. So the total is this ledger's, every unit weighted by one over the attempts in which it is scored. An
        agent, a memory or a component is one unit of the record, with the mean over the attempts in which it is scored.
        What is unassigned is summed. Episodes that are no branches stay as they are.

        Raises:
            BadInput: unknown level.
        """
        layout, values = self._layout(level), self.values(level)
        trees = trees_of(self.episodes)
        out = Ledger(trees)
        above, place = out._layout(level), {id(tree): i for i, tree in enumerate(trees)}
        owner = np.array([place[id(tree)] for e in self.episodes for tree in trees_of([e])], dtype=np.int32)
        if above.names is None or layout.names is None:
            starts = np.searchsorted(above.episode, owner)
            inside = [s + _place_in_tree(e, level) for s, e in zip(starts, self.episodes, strict=True)]
            to = np.concatenate([np.empty(0, np.int64), *inside])
        else:
            known = {key: i for i, key in enumerate(zip(above.episode.tolist(), above.names, strict=True))}
            to = np.array([known[key] for key in zip(owner[layout.episode].tolist(), layout.names, strict=True)])
        to = to.astype(np.intp)
        times = np.bincount(to[~np.isnan(values)], minlength=out.size(level))
        out.set(level, _sum_up(values, to, out.size(level)) / np.maximum(times, 1))
        if level in self._loose:
            out._loose[level] = _sum_up(self._loose[level], owner, len(trees))
        return out

    def _check(self, level: str) -> None:
        if level not in LEVELS:
            raise BadInput("unknown level", got=level, expected=LEVELS, where="Ledger")

    def _layout(self, level: str) -> _Layout:
        layout = self._layouts.get(level)
        if layout is None:
            self._check(level)
            if [e.n_nodes for e in self.episodes] != self._lengths:
                raise BadInput("an episode grew after its ledger was made", where="Ledger", do="make the ledger anew")
            layout = self._layouts[level] = self._make_layout(level)
        return layout

    def _make_layout(self, level: str) -> _Layout:
        if level == "token":
            steps = self._layout("step").episode
            counts = [e.tokens_per_step_T for e in self.episodes] or [np.zeros(0, np.int32)]
            parent = np.repeat(np.arange(len(steps), dtype=np.int32), np.concatenate(counts))
            return _Layout(steps[parent], None, parent)
        if level == "step":
            return self._step_layout()
        if level == "agent":
            rows = [list(dict.fromkeys(e.agents_T)) for e in self.episodes]
        elif level == "memory":
            rows = [e.shown_memories for e in self.episodes]
        else:
            rows = [e.components for e in self.episodes]
        return _Layout(_owners([len(row) for row in rows]), list(chain.from_iterable(rows)), None)

    def _step_layout(self) -> _Layout:
        parent: list[int] = []
        n_agents = 0
        for episode in self.episodes:
            code: dict[str, int] = {}
            parent += [code.setdefault(agent, n_agents + len(code)) for agent in episode.agents_T]
            n_agents += len(code)
        return _Layout(_owners([e.n_steps for e in self.episodes]), None, np.array(parent, dtype=np.int32))


def _place_in_tree(episode: Episode, level: str) -> np.ndarray:
    if isinstance(episode, Branch):
        return episode.steps if level == "step" else episode.tokens
    return np.arange(episode.n_steps if level == "step" else episode.n_tokens)


def _is_part(child: str, parent: str) -> bool:
    return child in _NESTED and parent in _NESTED and _NESTED.index(child) < _NESTED.index(parent)


def _owners(counts: list[int]) -> np.ndarray:
    """Position repeated by count: int32 ``[sum(counts)]``."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), np.array(counts, dtype=np.intp))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _numbers(values: ArrayLike, n: int, where: str) -> np.ndarray:
    """Float64 ``[n]`` (one number is repeated); NaN passes, infinity does not."""
    try:
        new = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise BadInput("not numbers", got=values, expected=f"{n} numbers", where=where) from err
    if new.shape not in ((), (n,)):
        raise BadInput("wrong number of values", got=new.shape, expected=f"({n},) or one number", where=where)
    if np.isinf(new).any():
        raise BadInput("value is infinite", got=float(new[np.isinf(new)][0]), expected="finite, or NaN", where=where)
    return new


def _sum_up(values: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    """Sum of the scored values of each group, NaN for a group without any: float64 ``[n_groups]``."""
    scored = ~np.isnan(values)
    if not scored.all():
        values, group = values[scored], group[scored]
    sums = np.bincount(group, values, n_groups).astype(np.float64, copy=False)  # int where there is nothing to add
    sums[np.bincount(group, minlength=n_groups) == 0] = np.nan
    return sums


def _spread(values: np.ndarray, group: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Spread one value per group over its units; also what found no unit, per group (``None`` if everything did)."""
    room = np.bincount(group, weights, len(values))
    empty = room == 0.0
    lost: np.ndarray | None = None
    if empty.any():
        lost = np.where(empty, values, np.nan)
        values, room = np.where(empty, np.nan, values), np.where(empty, 1.0, room)
    if weights is None:
        return (values / room)[group], lost
    share = weights / room[group]
    return values[group] * share, lost


def _plus(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Sum in which NaN is "nothing", and only nothing plus nothing is nothing."""
    if b is None:
        return a
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, a + b))
