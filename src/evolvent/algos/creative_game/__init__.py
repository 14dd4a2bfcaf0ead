"""CreativeGame: lineages of small browser games; each version adds a mechanic, a browser plays it, memory learns.

Paper: arXiv 2604.19926 (code not released). A game is one page; a mechanic is a stable local change of its rules.
Lineages are distinguished; versions v1, v2, … of each are nodes of a tree:

    parent   a version of the same lineage, by the value of its memory (v1: none)
    plan     preserve the parent's mechanics, add one: an idea of the archive by similarity and value, or the model's;
             remove one that is over-used or discouraged; recombine: take one over from a version of another lineage
    stages   skeleton (v1: what the game is about) -> feature (the idea) -> visual (a look); one call each, and up to
             iterations - 1 repairs with the errors in words; each page passes the gates of ``envs/text/games``
    fallback what the model could not write is a template's, or is left out: the page that stands always plays
    reward   r = .25 structural + .20 realised + .20 novelty + .15 creativity + .10 runtime
                 - .15 cosmetic - .10 regression                                    (``formulas/creative.py``)
             x .25 where sanity < .6, x .5 where the run failed: on the positive part (``--gates all``: as published)
    memory   Q(m) <- Q(m) + .3 (r - Q(m))     parent, idea, what went, and the version that something was taken from,
             each in a stage of its own; advice with +1 or -1, by whether its page played

Sanity, runtime and the gates are of the page that the *model* wrote last for the feature: a template hides no failure.
Remembered are nodes (for their lineage alone), and for all: mechanics that played, failures in words, new ideas. The
record says who wrote what. ``games/N.html`` are the pages; ``report.html`` shows and plays them.

A small model is asked for a mechanic of a few lines, not for a page: blocks in a frame that runs are the default;
``--write page`` asks for whole pages (a larger model, also ``remote:NAME@URL``), and any model may answer with one.

Controls: ``--select none`` (changes by chance, no advice, the best parent), ``similar``, ``random``; ``--change add``
(plans that add alone); ``--no-fallback``.

Deviations: planner, evaluator and reflector are rules; ``--plan model`` asks the model for an idea, ``--judge`` for a
rating, whose term is 0 otherwise (then at most .75). What goes and what is taken over is one mechanic each, at most,
from the second version on, and costs no call: its text is left out or copied. A refinement repairs what failed; what
plays is left. How three signals become numbers is ours, so are the ninth static check, what counts as over-used and
discouraged (``change.py``), and memories of advice. Ideas begin at .6, above what a failure earns. v1..v4
are separate calls of theirs.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.algos.creative_game.change import recall
from evolvent.algos.creative_game.planning import Plan, changed, plan
from evolvent.algos.creative_game.session import Lineage, Node, Session, described, opened_session
from evolvent.algos.creative_game.summary import summarise, tell
from evolvent.core.config import at_least
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Model, Request, Task
from evolvent.core.seeding import seed_tree
from evolvent.envs.text.games import Verdict, lost
from evolvent.envs.text.games_mechanics import Mechanic
from evolvent.envs.text.games_page import blocks_of
from evolvent.evaluate.live import Live
from evolvent.formulas.creative import (
    Signals,
    creative_reward,
    creativity,
    realisation,
    relative_novelty,
    structural_change,
)
from evolvent.memory.items import Recall
from evolvent.play.answered import Answered
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.together import run_players
from evolvent.runs.memory import cursor
from evolvent.runs.shell import Shell

PAPER = "arXiv 2604.19926"
LEVELS = ("memory",)
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config:
    """Settings of CreativeGame."""

    KIND = "games"

    env: str = "games"
    """The world of games; games:browser=false judges pages by their text alone."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model: a name of `evolvent list models`, a GGUF file, remote:NAME@URL."""
    seed: int = 0
    """Random seed of ideas, exploration and sampling."""
    lineages: int = 3
    """Games that are begun with."""
    versions: int = 4
    """Nodes of each lineage."""
    iterations: int = 3
    """Calls for each stage: one, and repairs."""
    write: Literal["block", "page"] = "block"
    """What the model is asked for: a mechanic, or the whole page."""
    plan: Literal["memory", "model"] = "memory"
    """Who says what is added (and goes, and is taken over): the archive, or the model; its ideas are remembered."""
    change: Literal["all", "add"] = "all"
    """What a plan may do: add, remove and recombine, or add alone."""
    select: Literal["value", "similar", "random", "none"] = "value"
    """What chooses memories: similarity and value, similarity alone, chance; none = no memory."""
    fallback: bool = True
    """A template stands in for what the model could not write; otherwise it is left out."""
    judge: bool = False
    """The model rates each game for the term of creativity."""
    gates: Literal["positive", "all"] = "positive"
    """What the gates of the reward multiply: its positive part, or all of it (as published)."""
    alpha: float = 0.3
    """Learning rate of the values."""
    epsilon: float = 0.1
    """Exploration: probability of a random idea, parent or advice instead of the best."""
    chars: int = 800
    """Characters of advice in a prompt; what does not fit is neither shown nor credited."""
    temperature: float = 0.7
    """Sampling temperature; 0 = greedy."""
    tokens: int = 350
    """Largest number of tokens of an answer (a whole page wants 2,000 and more)."""

    def __post_init__(self) -> None:
        at_least(self, {"lineages": 1, "versions": 1, "iterations": 1, "tokens": 1})


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """All versions of all lineages; returns the summary. ``model``: one that is loaded, shared by several runs."""
    with opened_session(config, folder, live, resume, model) as session:
        memory, total = session.memory, config.lineages * config.versions
        shell = Shell(folder, live, total, resume=resume, unit="node")
        cursor.go_on(shell, memory)
        if resume:
            for row in folder.read_metrics():
                session.add(row)
        for number in shell.updates():
            lineage = session.lineages[number % config.lineages]
            if number % config.lineages == 0:
                live.phase(f"Version {number // config.lineages + 1} of {config.versions}")
            started = time.perf_counter()
            session.ask.reset()
            made = plan(config, session, lineage, number)
            row, written = _made(config, session, lineage, made, number, live)  # ACT, STEP
            _credit(config, session, made, row)
            row["seconds"] = round(time.perf_counter() - started, 3)
            with memory.transaction():  # LEARN
                _learn(session, lineage, made, row, [one for one, _ in written])
                for _, episode in written:
                    folder.episode(episode, step=number + 1)
                folder.log(**row)
                cursor.saved(memory, number + 1)
            session.add(row)
            tell(live, row, total)
            shell.update += 1
        rows = folder.read_metrics()
        browser = session.env.start().browser
        head = {"algo": "creative_game", "env": config.env, "model": session.model, "seed": config.seed}
        arm = {"select": config.select, "browser": browser.start() if browser else None}
        summary = head | arm | summarise(rows)
        folder.write_summary(summary)
    return summary


# ------------------------------------------------------------------------------------------------ a node
def _made(
    config: Config, session: Session, lineage: Lineage, planned: Plan, number: int, live: Live
) -> tuple[dict[str, Any], list[tuple[Answered, Any]]]:
    """All stages of a node; its line of the log as far as it is known, and every call with its episode."""
    env, page, calls, by = session.env, planned.page, list[dict[str, Any]](), dict[str, str]()
    written, last, picture = list[tuple[Answered, Any]](), None, b""
    env.mechanics.update({m.name: m for _, m in planned.stages})
    page, changes = changed(session, page, planned)
    for stage, mechanic in planned.stages:
        failed = source = ""
        for iteration in range(1, config.iterations + 1):
            live.status(f"{lineage.game}, {stage}: {mechanic.name}")
            text = env.asked(lineage.game, page, mechanic, failed=failed, source=source, whole=config.write == "page")
            one, episode = _call(
                config, session, text, mechanic, page, seed_tree(config.seed, number, stage, iteration)
            )
            assert one.last is not None
            written.append((one, episode))
            verdict: Verdict = env.last
            there = verdict.playable and env.there(verdict, mechanic.name)
            calls.append(_line(stage, iteration, mechanic, verdict, one, episode) | {"there": int(there)})
            failed, source = verdict.words, verdict.source
            if stage == "feature":
                last = verdict
            if there:
                page, by[mechanic.name], picture = verdict.page, "model", _picture(verdict, picture)
                break
            failed = "it changes nothing" if verdict.playable else failed
        if mechanic.name not in by and config.fallback and mechanic.code:
            verdict = env.judged(page, mechanic.name, f"```js\n{mechanic.code}\n```")
            if verdict.playable:
                page, by[mechanic.name], picture = verdict.page, "template", _picture(verdict, picture)
    if not picture:  # nothing was added: how the page looks that stands
        picture = _picture(env.start().judge(page, ""), picture)
    session.save(number + 1, page, picture)
    rating = _rating(config, session, lineage.game, page, number) if config.judge else None
    return {
        "step": number + 1,
        "phase": f"v{number // config.lineages + 1}",
        "lineage": lineage.game,
        "parent": planned.parent.step if planned.parent else None,
        "depth": planned.parent.depth + 1 if planned.parent else 1,
        "plan": planned.mechanics,
        "changes": changes,
        "added": by,
        "calls": calls,
        "ok": int(last is not None and last.playable),
        "sanity": last.sanity if last else 1.0,
        "runtime": last.score if last else 1.0,
        "rating": rating,
        "idea": planned.idea,
        "tokens": sum(call["tokens"] for call in calls) or session.ask.sampled,
        "prompt_tokens": session.ask.prompt_tokens,
    }, written


def _call(
    config: Config, session: Session, text: str, mechanic: Mechanic, page: str, seed: int
) -> tuple[Answered, Any]:
    """One answer of the model, with the advice that fits, judged."""
    one = Answered()
    if config.select != "none":
        found = recall(config, session, described(mechanic), "write", seed % (1 << 31), ["code", "failure"], {})
        one.shown = [item for item in found if len(item.body) <= config.chars]
        ids = tuple(item.id for item in one.shown)
        session.memory.shown(found, ids)
        one.recalls.append((found, ids))
    for item in one.shown:
        text += f"\n{session.env.advice(item.kind, item.key, item.body)}"
    task = Task(f"games/{mechanic.name}#{seed}", text, mechanic.name, meta={"page": page})
    settings = AttemptSettings(Text(), budget=Budget(answer=config.tokens))
    player = play(session.env, task, settings, seed=seed, group=mechanic.name, experience=one)
    (episode,) = run_players([player], session.ask)
    if isinstance(episode, Exception):
        raise episode
    return one, episode


def _line(
    stage: str, iteration: int, mechanic: Mechanic, verdict: Verdict, one: Answered, episode: Any
) -> dict[str, Any]:
    seen = verdict.seen
    return {
        "stage": stage,
        "iteration": iteration,
        "mechanic": mechanic.name,
        "gate": verdict.gate,
        "words": verdict.words,
        "source": verdict.source,
        "errors": list(seen.errors) if seen else [],
        "moves": int(bool(seen and seen.changes)),
        "advice": [{"id": m.id, "kind": m.kind, "body": m.body[:200], "value": m.value} for m in one.shown],
        "tokens": episode.n_tokens,
    }


def _picture(verdict: Verdict, before: bytes) -> bytes:
    return verdict.seen.picture if verdict.seen and verdict.seen.picture else before


def _rating(config: Config, session: Session, game: str, page: str, number: int) -> float | None:
    """What the model gives the game, 1..10; None where it gives no number."""
    rules = "\n".join(described(m) for name in blocks_of(page) if (m := session.env.mechanics.get(name)))
    text = f"Rules of the game {game}:\n{rules}\n\nHow creative is this game, from 1 (a copy) to 10 (new)? Rating:"
    (answer,) = session.ask([Request(text, seed_tree(config.seed, "rating", number), 8, ("\n",))])
    found = re.search(r"\d+(?:\.\d+)?", answer.text)
    return min(10.0, max(1.0, float(found[0]))) if found else None


def _credit(config: Config, session: Session, planned: Plan, row: dict[str, Any]) -> None:
    """The proxy reward of the page that stands, gated by how the model's own went."""  # CREDIT
    page = (session.folder.path / "games" / f"{row['step']}.html").read_text(encoding="utf-8")
    node = Node(row["step"], row["depth"], page, 0.0, "")
    before = replace(node, page=planned.before).core
    old, new, aim = blocks_of(planned.before), blocks_of(page), row["plan"]
    modified = [name for name in old if name in new and old[name] != new[name] and name in before]
    change = structural_change(before, node.core, modified)
    x = Signals(
        structural=change,
        realised=realisation([*aim["preserve"], *aim["add"], *aim["recombine"]], list(new), aim["remove"]),
        novelty=relative_novelty(node.core, [other.core for other in session.nodes]),
        creativity=creativity(row["rating"]),
        playable=row["runtime"],
        cosmetic=float(change == 0.0 and page != planned.before),
        regression=lost(page),
        sanity=row["sanity"],
        runtime_ok=bool(row["ok"]),
    )
    row["signals"] = {name: round(float(value), 4) for name, value in vars(x).items()}
    row["mechanics"], row["reward"] = list(new), creative_reward(x, config.gates)


def _learn(session: Session, lineage: Lineage, planned: Plan, row: dict[str, Any], written: list[Answered]) -> None:
    """Settle what was recalled, and remember the node, what worked and what did not: one transaction."""
    memory, reward = session.memory, row["reward"]
    about: dict[str, Any] = {"lineage": lineage.game, "step": row["step"]}
    row["values"] = {}

    def settle(receipt: tuple[Recall, tuple[str, ...]], r: float, action: str | None = None) -> None:
        changes = memory.settle(receipt[0], r, source="proxy" if action is None else "tests", action=action or None)
        row["values"] |= {change.id: round(change.q_after, 4) for change in changes if change.id in receipt[1]}

    for receipt in planned.receipts:
        settle(receipt, reward)
    for one, call in zip(written, row["calls"], strict=True):
        for receipt in one.recalls:
            settle(receipt, 1.0 if call["there"] else -1.0, call["source"])
        if call["there"] or call["gate"] in ("static", "browser"):
            kind, body = ("code", call["source"]) if call["there"] else ("failure", call["words"])
            memory.remember(
                described(session.env.mechanics[call["mechanic"]]),
                body,
                kind=kind,
                source="tests",
                metadata=about,
                polarity="success" if call["there"] else "failure",
                parents=[item.id for item in one.shown],
            )
    taken = [
        planned.take.node.memory for one in row["changes"] if planned.take and one["what"] == "take" and one["done"]
    ]
    parents = [*([planned.parent.memory] if planned.parent else []), *([planned.idea] if planned.idea else []), *taken]
    feature = next((m for stage, m in planned.stages if stage == "feature"), None)
    if feature is not None and not planned.idea:  # the model's own: from now on in the archive
        memory.remember(
            feature.description,
            described(feature),
            kind="mechanic",
            value=reward,
            parents=parents,
            metadata={"name": feature.name, "lineage": lineage.game},
        )
    row["memory"] = memory.remember(
        f"a version of {lineage.game} with {', '.join(row['mechanics'])}",
        f"reward {reward:.2f}, version {row['step']}",
        kind="node",
        value=reward,
        parents=parents,
        metadata=about,
        merge=None,
    )
