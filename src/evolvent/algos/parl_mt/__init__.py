"""PARL-MT: in long conversations with calls an agent writes what was done and what remains, and calls from that alone.

Paper: Chai et al. 2025, PARL-MT: Learning to Call Functions in Multi-Turn Conversation with Progress Awareness (arXiv
2509.23206).

    1  gold conversations; for each turn notes of two lines, "done" and "next" (64 tokens at most)
    2  a pair (notes, call) is kept where the model itself, from notes, request and functions alone, makes the gold call
    3  copies in another guise: names and order of functions, words of the request
    4  L = - mean_tokens log pi(notes | notes before, what came since) pi(call | notes, request)   (``imitate`` updates)
    5  A_i = (R_i - mean_j R_j) / (std_j R_j + eps) over conversations at one task, on the tokens of notes and calls;
       R = .1 structure + .3 calls + 1 success + .1 efficiency,  L = - mean min(r A, clip(r, 1 +- .2) A)

``--imitate`` as large as ``--updates`` is SFT alone; ``--sees history`` is SFT and GRPO on all that was said. In the
end held-out conversations are also held without notes and with notes out of what is true (``arms`` in the summary):
floor and ceiling. Only there, and in stage 1, are notes written from gold; stage 1 tells nothing about held-out tasks.

A world must have gold calls: ``orders``, ``bfcl_turns``; ``awareness`` says how.

Deviations, since the paper's weights, prompts and rates are not public: those of the rewards, the two lines, ``group``
8 and all rates are ours; notes are written from the notes before and what came since (published: not said), by a rule
(published: a large model); they are verified after some updates of imitation, which makes more of them pass; no KL.
LoRA by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from evolvent.algos.parl_mt import pag
from evolvent.algos.parl_mt.awareness import TOKENS, Aware, Sees
from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, lines, write_atomic
from evolvent.core.protocols import Env, Task, distinct
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_group_std
from evolvent.evaluate.live import Live, count
from evolvent.play.attempt import play
from evolvent.play.renderers import renderer
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import Player
from evolvent.runs.language.examples import ending
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.pairs import Recorded
from evolvent.runs.language.system import LanguageRun, Needs, PPOConfig, Rule, evaluate_language, open_language
from evolvent.runs.language.tasks import some_tasks
from evolvent.runs.language.tuning import lr_factor

PAPER = "arXiv 2509.23206"
LEVELS = ("step",)
STATUS = "lightly tested"
EXAMPLE = Rule("example", "step", "1 for notes and calls of an example", imitated)
RULE = Rule.of(step_group_std, "group_std", "the return against its group, over the group's spread")
FILE = "pag.jsonl"


@dataclass(frozen=True)
class Pag:
    """Settings of what is imitated first."""

    conversations: int = 200
    """Training tasks whose gold calls are carried out and noted."""
    generator: Literal["rules", "model"] = "rules"
    """Who writes the notes that are imitated: rules, from what results have shown; or the model itself."""
    verify: str = "target"
    """Who must make the gold call from notes alone: target, the model itself; none; or another model, by its name."""
    verify_after: int = 24
    """Updates that imitate all pairs before they are verified: a small model has to learn first what a call is; 0 = as
    published."""
    augment: float = 0.25
    """Share of the conversations that come a second time in another guise."""
    talks: int = 4
    """Conversations in an update of imitation."""
    imitate_lr: float = 1e-3
    """Learning rate of imitation, at its highest."""


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of PARL-MT."""

    env: str = "orders"
    """Environment of conversations with gold calls: orders, or bfcl_turns:CATEGORIES."""
    sees: Literal["awareness", "history"] = "awareness"
    """What a call is made from: awareness, notes of the agent's own; or history, all that was said."""
    imitate: int = 60
    """Updates at first that imitate gold conversations; the others are GRPO's."""
    prompts: int = 4
    """Tasks in an update of GRPO."""
    group: int = 8
    """Conversations at each task (G)."""
    pag: Pag = field(default_factory=Pag)
    """What is imitated: how many conversations, who writes and who verifies notes."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objective import Objective

    at_least(
        config,
        {"imitate": 0, "verify_after": 0, "conversations": 1, "augment": 0, "talks": 1, "imitate_lr": 0},
        {"augment": 1},
    )
    if config.pag.verify != "none" and 0 < config.imitate <= config.pag.verify_after:
        got, expected = f"--verify-after {config.pag.verify_after}", f"less than --imitate {config.imitate}"
        raise BadInput("the notes would never be verified", got=got, expected=expected, where="--verify-after")
    objective = Objective(clip_low=config.clip, clip_high=config.clip)
    with open_language(config, folder, live, resume=resume, needs=Needs(text=True, compares=True)) as run:
        if not hasattr(run.env, "gold"):
            expected = "a world with gold(task): orders, bfcl_turns"
            raise BadInput("nobody tells the right calls", got=config.env, expected=expected, where="--env")
        plain = run.attempt_settings
        run.attempt_settings = _settings(plain, config.sees)
        drawn, optimizer = None, run.optimizers["policy"]
        for update in run.updates():
            warm = update < config.imitate
            rate = config.pag.imitate_lr * lr_factor(update, config.imitate, 0.05, "cosine") if warm else config.lr
            for part in optimizer.param_groups:
                part["lr"] = rate
            if warm:
                if drawn is None or update == config.pag.verify_after:
                    verify = update >= config.pag.verify_after or config.pag.verify == "none"
                    train = _examples(run, plain, verify=verify)
                    drawn = Recorded([[one] for one in train], config.pag.talks, config.seed)
                _imitation(run, drawn(update)[0])
                continue
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                ledger = RULE.assign(episodes)
            with run.clock("learn"):  # LEARN
                metrics = run.improve(objective, ledger, level="step")
            run.log(episodes, ledger, **metrics)
        floor_and_ceiling: tuple[Sees, ...] = () if config.sees == "history" else ("empty", "gold")
        arms = {sees: figures(run, plain, sees, run.heldout) for sees in (config.sees, *floor_and_ceiling)}
        rule = RULE if config.updates > config.imitate else EXAMPLE
        pairs, asked = list(lines(folder.path / FILE)), config.pag.verify != "none"
        notes = pag.acceptance(pairs, verified=asked) if pairs else None
        return run.finish("parl_mt", rule) | {"arms": arms, "notes": notes}


def _examples(run: LanguageRun, plain: AttemptSettings, *, verify: bool) -> list[Episode]:
    """The conversations to imitate; pairs are verified once, and kept in ``DIR/pag.jsonl``.

    Raises:
        BadInput: no pair is kept.
    """
    config, by, env = cast("Config", run.config), plain.renderer, cast("Any", run.env)
    tasks = distinct(some_tasks(run.env, "train", config.pag.conversations, seed_tree(config.seed, "pag") % 2**31))

    def end(stop: Sequence[str]) -> np.ndarray:
        return ending(run.model, [], stop)("")

    if config.sees == "history":
        return pag.histories(env, tasks, plain, end)
    pairs, path = pag.conversations(env, tasks), run.folder.path / FILE
    if verify and (found := list(lines(path))):
        told = [{name: row[name] for name in ("notes", "said", "kept")} for row in found]
        pairs = [replace(pair, **one) for pair, one in zip(pairs, told, strict=True)]
    elif verify:
        judge = config.pag.verify
        run.live.status(f"{len(pairs):,} notes" + ("" if judge == "none" else f" to verify ({judge})"))
        pairs = _verified(run, pairs, plain)
        rows = [asdict(pair) | {"request": pair.now.request} for pair in pairs]
        for row in rows:
            del row["now"]
        write_atomic(path, "".join(dump(row) + "\n" for row in rows))
        passed = f"{np.mean([pair.kept for pair in pairs]):.0%} of {len(rows):,}"
        run.live.note(
            "notes: nobody verified them" if judge == "none" else f"the gold call is made from {passed} notes"
        )
    if not any(pair.kept for pair in pairs):
        do = "--verify-after 24, a stronger model by its name, or --verify none"
        raise BadInput("the gold call is made from no notes", got=f"--verify {config.pag.verify}", do=do)
    told = pag.examples(pairs, env, by, end)
    again = pag.examples(pag.varied(pairs, config.pag.augment, config.seed), env, by, end)
    long = sum(pair.kept for pair in pairs) - sum(episode.n_steps for episode in told) // 2
    if not told:
        do = "--generator rules, or a model that writes two lines"
        raise BadInput("all notes are too long to imitate", got=long, expected=f"less than {TOKENS} tokens", do=do)
    run.live.note(
        f"{count(len(told), 'conversation')} to imitate, {len(again)} of them in another guise; {long} notes too long"
    )
    return told + again


def _verified(run: LanguageRun, pairs: list[pag.Pair], plain: AttemptSettings) -> list[pag.Pair]:
    from evolvent.models.language import model as language
    from evolvent.models.language.acting import Acting

    config, env, by = cast("Config", run.config), cast("Any", run.env), plain.renderer
    target = Acting(run.model, config.act, 0.0)
    if config.pag.generator == "model":
        pairs = pag.generated(pairs, target, by)
    if config.pag.verify == "none":
        return pairs
    if config.pag.verify == "target":
        return pag.verified(pairs, env, target, by, "policy")
    judge = language.load(config.pag.verify, dtype=config.plan.dtype, device=config.plan.device)
    return pag.verified(pairs, env, Acting(judge, config.act, 0.0), renderer(config.plan.style, judge), None)


def _imitation(run: LanguageRun, episodes: Sequence[Episode]) -> None:
    """An update of stage 4."""
    with run.clock("credit"):  # CREDIT
        ledger = imitated(episodes)
    with run.clock("learn"):  # LEARN
        metrics = imitate(run, ledger, distance=False)
    run.attempts += len(episodes)
    run.logged({"examples": len(episodes)}, episodes, ledger, metrics)
    run.shell.tell([f"imitation, loss {metrics['loss']:.3g}"])


def figures(run: LanguageRun, plain: AttemptSettings, sees: Sees, tasks: Sequence[Task]) -> dict[str, Any]:
    """Conversations, held greedily from what is seen: success, calls right and tokens read.

    ``calls_by_turn`` counts requests, those that were never reached as wrong. ``prompt_tokens`` are of all prompts of
    an answer, ``call_tokens`` of the one that its call is made from.
    """
    from evolvent.models.language.acting import Acting

    worlds: dict[str, Aware] = {}

    def hold(env: Env, task: Task, seed: int, group: str) -> Player:
        world = worlds[task.id] = Aware(env, sees)
        settings = replace(plain, world=lambda _: cast("Env", world))
        return play(env, task, settings, seed=seed, group=group)

    jobs = [(task, seed_tree(run.config.seed, "eval", i), task.id) for i, task in enumerate(tasks)]
    played = run.copies.play(jobs, Acting(run.model, run.config.act, 0.0), hold)
    played.check(f"at held-out tasks of {run.config.env}")
    each = 2 if sees == "awareness" else 1
    sizes = [[len(e.context_ids(t)) for t in range(e.n_steps)] for e in played.episodes]
    right = [worlds[e.task_id].right for e in played.episodes]
    return {
        "n": len(right),
        "success": float(np.mean([bool(e.success) for e in played.episodes])),
        "calls": float(np.mean([np.mean(one) for one in right])),
        "calls_by_turn": [
            float(np.mean([one[t] for one in right if t < len(one)])) for t in range(max(map(len, right)))
        ],
        "prompt_tokens": float(np.mean([each * np.mean(one) for one in sizes])),
        "call_tokens": float(np.mean([np.mean(one[each - 1 :: each]) for one in sizes])),
    }


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Hold held-out conversations with the newest checkpoint, frozen, from what was seen in training."""
    sees: Sees = folder.config["sees"]
    return evaluate_language(
        Config, folder, live, episodes, env=env, attempts=attempts, settings=lambda s: _settings(s, sees)
    )


def _settings(settings: AttemptSettings, sees: Sees) -> AttemptSettings:
    return replace(settings, world=lambda env: cast("Env", Aware(env, sees)))
