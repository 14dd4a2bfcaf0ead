"""What a version of a game loses and what it takes from another lineage, as memory, the model or chance says.

A mechanic is *worn* where it is over-used (more than half of the lineages had it, and at least two) or discouraged
(tried, and its value as an idea is below the mean of those that were tried). A worn one may go; one of another lineage
that is not worn may be taken, as it is written there. Walking, and what the game is about, stay.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from evolvent.algos.creative_game.session import Lineage, Node, Session
from evolvent.core.protocols import Request
from evolvent.core.seeding import rng, seed_tree
from evolvent.envs.text.games_mechanics import GAMES
from evolvent.envs.text.games_page import blocks_of, real
from evolvent.memory.items import Recall
from evolvent.memory.policies import preset

Receipt = tuple[Recall, tuple[str, ...]]
_POOL: dict[str, Any] = {"pool": 200, "gate": -1.0}


@dataclass(frozen=True)
class Taken:
    """A mechanic of a version of another lineage."""

    name: str
    code: str
    lineage: str
    node: Node


def recall(
    config: Any, session: Session, key: str, stage: str, number: int, kinds: list[str], filter: dict[str, Any]
) -> Recall:
    """One memory, chosen as the run says (``--select``)."""
    name = {"value": "memrl", "similar": "rag", "random": "random"}[config.select]
    policy = preset(name, k=1, **_POOL)
    if config.select == "value":
        policy = preset(name, k=1, **_POOL, alpha=config.alpha, epsilon=config.epsilon)
    return session.memory.recall(
        key, stage=stage, policy=policy, kinds=kinds, filter=filter, seed=seed_tree(config.seed, stage, number)
    )


# ------------------------------------------------------------------------------------------------ the archive
def values(session: Session) -> dict[str, tuple[float, int]]:
    """Value and number of outcomes of each mechanic as an idea."""
    found = session.memory.search("mechanics", k=200, stage="plan", policy=preset("memrl", **_POOL), kinds=["mechanic"])
    return {str(item.metadata["name"]): (item.value, item.n) for item in found}


def worn(session: Session) -> dict[str, str]:
    """Mechanics that are ``over-used`` or ``discouraged``, and which of both."""
    known = values(session)
    tried = [value for value, n in known.values() if n]
    mean = sum(tried) / len(tried) if tried else 0.0
    found = {name: "discouraged" for name, (value, n) in known.items() if n and value < mean}
    had = Counter(name for one in session.lineages for name in {name for node in one.nodes for name in node.core})
    return found | {name: "over-used" for name, n in had.items() if n > max(1.0, len(session.lineages) / 2)}


# ------------------------------------------------------------------------------------------------ what to change
def removal(config: Any, session: Session, lineage: Lineage, page: str, number: int) -> tuple[str, str, Receipt | None]:
    """The mechanic that is to go, why, and the receipt of its memory; "" where none is."""
    own = sorted(
        name for name, code in blocks_of(page).items() if real(code) and name not in ("walk", GAMES[lineage.game])
    )
    if not own:
        return "", "", None
    if config.plan == "model":
        return _named(config, session, f"Which of these rules should {lineage.game} lose", own, number), "model", None
    if config.select == "none":
        at = int(rng(config.seed, "remove", number).integers(len(own) + 1))
        return ["", *own][at], "chance", None
    why = {name: reason for name, reason in worn(session).items() if name in own}
    if not why:
        return "", "", None
    found = recall(
        config,
        session,
        f"{lineage.game} without one of {', '.join(sorted(why))}",
        "remove",
        number,
        ["mechanic"],
        {"name": {"in": sorted(why)}},
    )
    if not found:  # what a whole page of the model calls its own is in no archive
        return "", "", None
    name = str(found[0].metadata["name"])
    return name, why[name], (found, (found[0].id,))


def recombination(
    config: Any, session: Session, lineage: Lineage, have: set[str], number: int
) -> tuple[Taken | None, Receipt | None]:
    """What is to be taken from a version of another lineage, and the receipt of that version's memory."""
    tired = worn(session) if config.plan == "memory" and config.select != "none" else {}
    offers = {
        node.step: [
            Taken(name, code, other.game, node)
            for name, code in blocks_of(node.page).items()
            if real(code) and name not in have and name not in tired
        ]
        for other in session.lineages
        if other is not lineage
        for node in other.nodes
    }
    offers = {step: sorted(offer, key=lambda one: one.name) for step, offer in offers.items() if offer}
    if not offers:
        return None, None
    if config.plan == "model" or config.select == "none":
        newest = {one.name: one for step in sorted(offers) for one in offers[step]}
        names = sorted(newest)
        if config.plan == "model":
            name = _named(config, session, f"Which rule of other games should {lineage.game} take over", names, number)
        else:
            name = ["", *names][int(rng(config.seed, "recombine", number).integers(len(names) + 1))]
        return newest.get(name), None
    found = recall(
        config,
        session,
        f"a rule for {lineage.game} with {', '.join(sorted(have))}",
        "recombine",
        number,
        ["node"],
        {"step": {"in": sorted(offers)}},
    )
    known = values(session)
    best = max(offers[int(found[0].metadata["step"])], key=lambda one: known.get(one.name, (0.0, 0))[0])
    return best, (found, (found[0].id,))


def _named(config: Any, session: Session, question: str, names: list[str], number: int) -> str:
    """Which of the names the model says first; "" where it says none."""
    text = f"{question}: {', '.join(names)}? One of these names, or none:"
    (answer,) = session.ask([Request(text, seed_tree(config.seed, question, number), 8, ("\n",))])
    found = re.search(rf"\b(?:{'|'.join(map(re.escape, names))})\b", answer.text)
    return found[0] if found else ""
