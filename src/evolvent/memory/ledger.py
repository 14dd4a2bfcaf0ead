"""The ledger of memories: from recorded episodes by the rule that settles, and from a store as it was settled.

``ledger_of`` calls a rule's ``credit`` with what the episodes say; ``settled`` reads the value events of receipts. Both
give (episode, memory) the change of value that the episode's outcomes caused. Ancestors that were not shown change too,
but have no address in the ledger of an episode in which they did not appear: ``changes_by`` tells every change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.episode import Episode, MemoryUse
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas.returns import discounted
from evolvent.formulas.values import ancestor_depths
from evolvent.memory import lift
from evolvent.memory.bank import Bank, parse_id
from evolvent.memory.events import COUNTS, Loaded, Value, apply
from evolvent.memory.external import NAME, own
from evolvent.memory.items import memory_id
from evolvent.memory.rule import Change, Policy, Settled, Shown, rule_of, start_value
from evolvent.memory.store.engine import among
from evolvent.memory.text import clean_word

Credit = Callable[[Any, Settled], list[Change]]


@dataclass(frozen=True)
class Known:
    """What a store knows beside the episodes."""

    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Values before the first episode; default: the policy's start."""
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Provenance: memory id to the ids it was made from."""
    created: Mapping[str, str] = field(default_factory=dict[str, str])
    """Episode id to the memory that was written from it."""
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts of the memories: how much of an action came from each; else their order in the episode tells."""
    reward_range: tuple[float, float] | None = None
    """Failure and success; default: 0 to 1, widened to the rewards that there are."""


def ledger_of(credit: Credit, episodes: Sequence[Episode], config: Policy, known: Known) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward, the episodes in the order given.

    A receipt is settled with the undiscounted reward from the first decision that could depend on it.

    Raises:
        BadInput: a memory was left out without a logged propensity.
    """
    ledger = Ledger.for_episodes(episodes)
    moves: list[float] = []
    for episode, changes in zip(episodes, changes_by(credit, episodes, config, known), strict=True):
        moved: dict[str, float] = defaultdict(float)
        for c in changes:
            if c.rule == "shown":
                moved[c.memory] += c.q_after - c.q_before
        moves += [moved.get(m, math.nan) for m in episode.shown_memories]
    ledger.set("memory", moves)
    return ledger


def changes_by(
    credit: Credit, episodes: Sequence[Episode], config: Policy, known: Known = Known()
) -> list[list[Change]]:
    """What each episode changed, ancestors included, in order; nothing for an invalid one."""
    bounds = known.reward_range or _range(episodes)
    start = start_value(config, bounds)
    values: dict[str, Loaded] = {}

    def look(m: str) -> Loaded:
        if m not in values:
            values[m] = Loaded(Value(known.values.get(m, start)), start, m in known.values, "", "")
        return values[m]

    walk = rule_of(config).walk
    links = walk(config)[0] if walk is not None else 0
    out: list[list[Change]] = []
    for episode in episodes:
        out.append([])
        for items, step, reward in _receipts(episode) if episode.valid else ():
            used = [item.id for item in items if item.shown]
            depths = {m: ancestor_depths(known.parents, m, links) for m in used}
            credited = {item.id for item in items}.union(*depths.values())
            child = known.created.get(episode.id)
            new_q = look(child).value.q - bounds[0] if child is not None and child not in credited else 0.0
            settled = Settled(
                reward,
                items,
                {m: look(m) for m in credited},
                depths,
                new_q,
                _shares(used, known.bodies, _action(episode, step)),
                bounds,
            )
            for c in credit(config, settled):
                row = look(c.memory)
                values[c.memory] = row._replace(value=apply(row.value, c.event("", "", reward)))
                out[-1].append(c)
    return out


def _receipts(episode: Episode) -> list[tuple[list[Shown], int, float]]:
    """Of each recall that a decision followed: what it selected, that decision, and the reward from there on."""
    to_go = discounted(episode.rewards_T)
    by_receipt: dict[str, list[MemoryUse]] = defaultdict(list)
    for use in episode.memory_uses:
        if use.step < episode.n_steps:
            by_receipt[use.receipt].append(use)
    return [
        ([_shown(episode, use) for use in uses], uses[0].step, float(to_go[uses[0].step]))
        for uses in by_receipt.values()
    ]


def _shown(episode: Episode, use: MemoryUse) -> Shown:
    if not (use.shown or use.dropped) and (use.propensity is None or use.propensity >= 1.0):
        raise BadInput(
            "a memory was left out without a propensity",
            got=use.propensity,
            expected="the probability below 1 of showing it",
            where=f"episode {episode.id}, receipt {use.receipt}, memory {use.id}",
            do="log it: Episode.recall(…, propensity={id: p})",
            code="bad_record",
        )
    return Shown(use.id, use.shown, 1.0 if use.propensity is None else use.propensity, use.dropped)


def _range(episodes: Sequence[Episode]) -> tuple[float, float]:
    rewards = [reward for e in episodes if e.valid for _, _, reward in _receipts(e)]
    return min(0.0, *rewards, 1.0), max(1.0, *rewards, 0.0)


def _action(episode: Episode, step: int) -> str:
    wanted = int(episode.step_nodes_T[step])
    return next(node.text for node in episode.nodes if node.index == wanted)


def _shares(used: Sequence[str], bodies: Mapping[str, str], action: str) -> dict[str, float]:
    text = action if all(m in bodies for m in used) else None
    return dict(zip(used, lift.use_weights([bodies.get(m, "") for m in used], text), strict=True))


# ---------------------------------------------------------------------------------------------------- as it was settled
def settled(bank: Bank, episodes: Sequence[Episode], objective: str) -> Ledger:
    """Credit of the memories shown in episodes as their receipts were settled; not scored where none was."""
    clean_word(objective, what="an objective", where="credit")
    for other in (each for each in episodes if not isinstance(each, Episode)):
        do = "explain(id) tells what one memory earned"
        raise BadInput(
            "this is not an Episode", got=other, expected="recorded episodes", where="credit", do=do, code="wrong_type"
        )
    numbers = {
        parse_id(use.receipt, "r", "receipt", f"credit, episode {episode.id}")
        for episode in episodes
        for use in episode.memory_uses
    }
    moved: dict[tuple[str, str], float] = defaultdict(float)
    with bank.store.session() as db, bank.store.translated("reading"):
        known = among(db, "SELECT seq FROM recall WHERE scope_id = ? AND seq IN ({})", numbers, bank.scope_id)
        rows = among(
            db,
            f"SELECT e.recall_id, e.memory_id, {NAME}, e.q_after - e.q_before FROM value_event e "
            f"JOIN memory m ON m.seq = e.memory_id WHERE e.rule = 'shown' AND e.objective = ? AND {COUNTS} "
            "AND e.recall_id IN ({}) ORDER BY e.seq",
            numbers,
            objective,
        )
        shown = {
            parse_id(m, "m", "memory", "credit") if own(m) else bank.memory_seq(m, "credit")
            for episode in episodes
            for m in episode.shown_memories
        }
        first = {
            memory_id(child): memory_id(parent)
            for child, parent in among(
                db, "SELECT child, parent FROM provenance WHERE relation = 'updated' AND child IN ({})", shown
            )
        }
        missing = numbers - {seq for (seq,) in known}
        for number, memory, name, change in rows:
            moved[f"r{number}", memory_id(memory, name)] += change
    if missing:
        bank.receipt_seq(f"r{min(missing)}", "credit")
    ledger, moves = Ledger.for_episodes(episodes), []
    for episode in episodes:
        receipts = dict.fromkeys(use.receipt for use in episode.memory_uses)
        for m in episode.shown_memories:
            value = first.get(m, m)  # it has the value of its first version
            parts = [moved[r, value] for r in receipts if (r, value) in moved]
            moves.append(sum(parts) if parts else np.nan)
    ledger.set("memory", moves)
    return ledger
