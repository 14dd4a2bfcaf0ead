"""What a version of a game is to be: its parent, the idea that is added, and the stages of writing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evolvent.core.protocols import Request
from evolvent.core.seeding import rng, seed_tree
from evolvent.envs.text.games_mechanics import BY_NAME, GAMES, MECHANICS, Mechanic
from evolvent.envs.text.games_page import blocks_of
from evolvent.memory.items import Recall
from evolvent.memory.policies import preset
from evolvent.runs.games.seat import Lineage, Node, Seat, first_page, told

_IDEA = re.compile(r"^\W*(\w[\w-]{1,23})\W*:\s*(\S[^\n]{8,160})", re.M)


@dataclass
class Plan:
    """What a node is to be."""

    parent: Node | None
    page: str
    before: str
    """The page of the parent."""
    stages: list[tuple[str, Mechanic]]
    receipts: list[tuple[Recall, tuple[str, ...]]]
    idea: str
    """Memory of the idea; "" where there is none."""


def plan(config: Any, seat: Seat, lineage: Lineage, number: int) -> Plan:
    """A parent, an idea, and the stages: preserve what the parent has, add one mechanic and a look."""
    parent, receipts, game = None, list[tuple[Recall, tuple[str, ...]]](), lineage.game
    if lineage.nodes:
        parent = lineage.best
        if config.select != "none":
            found = recall(config, seat, f"a version of {game}", "parent", number, ["node"], {"lineage": game})
            parent = next(node for node in lineage.nodes if node.memory == found[0].id)
            receipts.append((found, (found[0].id,)))
    page = parent.page if parent else first_page(game, skeleton=True)
    have = {*blocks_of(page), "walk", *(() if parent else (GAMES[game],))}
    ideas = {m.body: m for m in seat.memory.items() if m.kind == "mechanic" and m.metadata["name"] not in have}
    idea, body = "", ""
    if config.plan == "model" and (own := own_idea(config, seat, game, page, have, list(ideas), number)):
        body = told(own)
        idea = ideas[body].id if body in ideas else ""
    elif ideas and config.select == "none":
        body = list(ideas)[int(rng(config.seed, "idea", number).integers(len(ideas)))]
        idea = ideas[body].id
    elif ideas:
        names = sorted(str(item.metadata["name"]) for item in ideas.values())
        found = recall(config, seat, f"{game}: {', '.join(sorted(have))}", "plan", number, ["mechanic"],
                        {"name": {"in": names}})  # fmt: skip
        idea, body = found[0].id, found[0].body
        receipts.append((found, (idea,)))
    stages = [] if parent else [("skeleton", BY_NAME[GAMES[game]])]
    if body:
        name, _, words = body.partition(": ")
        stages.append(("feature", BY_NAME.get(name, Mechanic(name, words, ""))))
    looks = [m for m in MECHANICS if m.look and m.name not in have]
    if looks:
        stages.append(("visual", looks[int(rng(config.seed, "look", number).integers(len(looks)))]))
    return Plan(parent, page, parent.page if parent else "", stages, receipts, idea)


def recall(
    config: Any, seat: Seat, key: str, stage: str, number: int, kinds: list[str], filter: dict[str, Any]
) -> Recall:
    """One memory, chosen as the run says (``--select``)."""
    name = {"value": "memrl", "similar": "rag", "random": "random"}[config.select]
    policy = preset(name, k=1, pool=200, gate=-1.0)
    if config.select == "value":
        policy = preset(name, k=1, pool=200, gate=-1.0, alpha=config.alpha, epsilon=config.epsilon)
    return seat.memory.recall(key, stage=stage, policy=policy, kinds=kinds, filter=filter,
                              seed=seed_tree(config.seed, stage, number))  # fmt: skip


def own_idea(
    config: Any, seat: Seat, game: str, page: str, have: set[str], known: list[str], number: int
) -> Mechanic | None:
    """What the model would add; None where it names nothing that is new to the game."""
    text = f"A game of the browser, {game}, has: {', '.join(blocks_of(page))}. Ideas so far:\n" + "\n".join(known[:8])
    text += "\nOne more rule that would make it new, in the same form (a name of one word, a colon, what happens):\n"
    (answer,) = seat.ask([Request(text, seed_tree(config.seed, "idea", number), 60, ("\n\n",))])
    found = _IDEA.search(answer.text)
    if found is None or found[1].lower() in have:
        return None
    name = found[1].lower()
    return BY_NAME[name] if name in BY_NAME else Mechanic(name, " ".join(found[2].split()), "")
