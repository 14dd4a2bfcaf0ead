"""What a version of a game is to be: its parent, what it keeps, loses, takes over and adds, and the stages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evolvent.algos.creative_game.change import Receipt, Taken, recall, recombination, removal
from evolvent.algos.creative_game.session import Lineage, Node, Session, described, first_page
from evolvent.core.protocols import Request
from evolvent.core.seeding import rng, seed_tree
from evolvent.envs.text.games_mechanics import BY_NAME, GAMES, MECHANICS, Mechanic
from evolvent.envs.text.games_page import added, blocks_of, without

_IDEA = re.compile(r"^\W*(\w[\w-]{1,23})\W*:\s*(\S[^\n]{8,160})", re.M)


@dataclass
class Plan:
    """What a node is to be."""

    parent: Node | None
    page: str
    before: str
    """The page of the parent."""
    stages: list[tuple[str, Mechanic]]
    receipts: list[Receipt]
    idea: str
    """Memory of the idea; "" where there is none."""
    remove: str = ""
    """The mechanic that is to go."""
    why: str = ""
    take: Taken | None = None
    """The mechanic of another lineage that is taken over."""

    @property
    def mechanics(self) -> dict[str, list[str]]:
        """The current mechanic set, as the paper calls it."""
        return {
            "preserve": [name for name in blocks_of(self.page) if name != self.remove],
            "add": [m.name for _, m in self.stages],
            "remove": [self.remove] if self.remove else [],
            "recombine": [self.take.name] if self.take else [],
        }


def plan(config: Any, session: Session, lineage: Lineage, number: int) -> Plan:
    """A parent, and what is made of it: one mechanic and a look are added; with ``--change all`` one may go, and one of
    another lineage may come.
    """
    parent, receipts, game = None, list[Receipt](), lineage.game
    if lineage.nodes:
        parent = lineage.best
        if config.select != "none":
            found = recall(config, session, f"a version of {game}", "parent", number, ["node"], {"lineage": game})
            parent = next(node for node in lineage.nodes if node.memory == found[0].id)
            receipts.append((found, (found[0].id,)))
    page = parent.page if parent else first_page(game)
    have = {*blocks_of(page), "walk", *(() if parent else (GAMES[game],))}
    made = Plan(parent, page, parent.page if parent else "", [], receipts, "")
    if parent and config.change == "all":
        made.remove, made.why, gone = removal(config, session, lineage, page, number)
        made.take, source = recombination(config, session, lineage, have, number)
        receipts += [receipt for receipt in (gone, source) if receipt]
        have |= {made.take.name} if made.take else set()
    made.idea, body = _idea(config, session, game, page, have, number, receipts)
    made.stages = [] if parent else [("skeleton", BY_NAME[GAMES[game]])]
    if body:
        name, _, description = body.partition(": ")
        made.stages.append(("feature", BY_NAME.get(name, Mechanic(name, description, ""))))
    looks = [m for m in MECHANICS if m.look and m.name not in have]
    if looks:
        made.stages.append(("visual", looks[int(rng(config.seed, "look", number).integers(len(looks)))]))
    return made


def _idea(
    config: Any, session: Session, game: str, page: str, have: set[str], number: int, receipts: list[Receipt]
) -> tuple[str, str]:
    """Memory and text of the mechanic that is added; "" where there is none."""
    ideas = {m.body: m for m in session.memory.items() if m.kind == "mechanic" and m.metadata["name"] not in have}
    if config.plan == "model" and (own := own_idea(config, session, game, page, have, list(ideas), number)):
        body = described(own)
        return (ideas[body].id if body in ideas else ""), body
    if ideas and config.select == "none":
        body = list(ideas)[int(rng(config.seed, "idea", number).integers(len(ideas)))]
        return ideas[body].id, body
    if ideas:
        names = sorted(str(item.metadata["name"]) for item in ideas.values())
        found = recall(
            config, session, f"{game}: {', '.join(sorted(have))}", "plan", number, ["mechanic"], {"name": {"in": names}}
        )
        receipts.append((found, (found[0].id,)))
        return found[0].id, found[0].body
    return "", ""


def own_idea(
    config: Any, session: Session, game: str, page: str, have: set[str], known: list[str], number: int
) -> Mechanic | None:
    """What the model would add; None where it names nothing that is new to the game."""
    text = f"A game of the browser, {game}, has: {', '.join(blocks_of(page))}. Ideas so far:\n" + "\n".join(known[:8])
    text += "\nOne more rule that would make it new, in the same form (a name of one word, a colon, what happens):\n"
    (answer,) = session.ask([Request(text, seed_tree(config.seed, "idea", number), 60, ("\n\n",))])
    found = _IDEA.search(answer.text)
    if found is None or found[1].lower() in have:
        return None
    name = found[1].lower()
    return BY_NAME[name] if name in BY_NAME else Mechanic(name, " ".join(found[2].split()), "")


def changed(session: Session, page: str, made: Plan) -> tuple[str, list[dict[str, Any]]]:
    """The page without what is to go and with what is taken over, and what became of each.

    A change after which the page does not play is not made.
    """
    steps: list[tuple[dict[str, Any], str]] = []
    if made.remove:
        steps.append(({"what": "remove", "mechanic": made.remove, "why": made.why}, ""))
    if take := made.take:
        version = (take.node.step - 1) // len(session.lineages) + 1
        origin = {"lineage": take.lineage, "step": take.node.step, "version": version}
        steps.append(({"what": "take", "mechanic": take.name, "from": origin}, take.code))
    changes = list[dict[str, Any]]()
    for one, code in steps:
        tried = added(page, one["mechanic"], code) if code else without(page, one["mechanic"])
        verdict = session.env.start().judge(tried, code)
        page = tried if verdict.playable else page
        changes.append(one | {"done": int(verdict.playable), "words": "" if verdict.playable else verdict.words})
    return page, changes
