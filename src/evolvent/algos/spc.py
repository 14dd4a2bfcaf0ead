"""SPC: a sneaky generator makes right steps wrong, a critic finds out, and both learn from who won.

Paper: Chen et al. 2025, SPC: Evolving Self-Play Critic via Adversarial Games for LLM Reasoning (arXiv 2504.19162).

    sneaky:  question, right steps, a right step -> a step that is wrong and looks right
    critic:  question, right steps, a step       -> Correct | Incorrect
    game:    the winner has R = 1, the loser R = -1; as many right steps as wrong ones are shown to the critic
    first:   L = - mean_tokens log pi                  of steps whose truth is known             (``imitate`` updates)
    then:    L = - min(rho R, clip(rho, 1 +- .2) R) + .15 L_first          offline: games by the weights of this round
             rho = exp(mean_tokens log pi - mean_tokens log pi_old)        of a step;  pi / pi_old of a verdict

One update is one round: games by both as they are (what the log says), then training. A critic that says one word to
everything wins half of such games; its rewards by the kind of step, ``right_steps`` and ``wrong_steps``, show it, and
the run warns. Evaluations are the critic's: held-out steps, right and wrong ones by the world's own changes.

The critic is left in ``critic/``: ``evolvent run search --model train:MODEL --value DIR/critic``.

Published: two rounds after the first, batch 64, three epochs, clip .2, weight .15. Ours: 64 tasks x 4 games a round,
rates for LoRA, a larger one for the first round: raw +-1 unlearns quickly what large steps have moved.

Deviations: two adapters on one base instead of two models. The critic gives no analysis before its verdict, as nobody
here can write those that it would begin with; its verdict is one choice of two, so its ratio is that of the choice.
Steps come from the world (``line_labels``), and it says whether a sneaky step is wrong (published: samples from there
succeed less often); a step that is not wrong has lost, and is not shown to the critic. The released KL term is only
logged; here neither. A round goes on from the one before, with its own games (released: every round from the first
critic, with the games of all). L_first is a mean over tokens (released: of the means of sentences).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Completion, Env, Prompt, Renderer, Request, Task
from evolvent.core.reward_kinds import keep_reward, reward_total
from evolvent.core.seeding import rng, seed_tree
from evolvent.credit import step_return_to_go
from evolvent.evaluate.live import Live, percent
from evolvent.play.attempt import allowed
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import Player
from evolvent.play.workflow import Member, Workflow
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.system import (
    LanguageRun,
    Logged,
    Needs,
    PPOConfig,
    Rule,
    check_stages,
    evaluate_language,
    open_language,
)
from evolvent.runs.search.drawing import LINES
from evolvent.runs.search.step_critic import (
    CRITIC,
    VERDICTS,
    Judging,
    PromptHead,
    Step,
    StepCritic,
    labelled_steps,
    shown,
    verdict_rewards,
)

if TYPE_CHECKING:
    from evolvent.learn.tokens.objective import Objective

PAPER = "arXiv 2504.19162"
LEVELS = ("step",)
STATUS = "lightly tested"
AGENTS = ("critic", "sneaky")
SNEAKY = PromptHead("Change the last step so that it is wrong and looks right.\n\n", ("Solution", "Changed step"))
RULE = Rule.of(step_return_to_go, "game", "1 for the winner, -1 for the loser", step_return_to_go.Config(gamma=0.0))


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of SPC; ``prompts`` x ``group`` are the games of a round with a sneaky step."""

    env: str = "chain"
    """World with its options; it must label lines. A model must have seen the form of its answers."""
    updates: int = 3
    """Rounds: the first ones with labels, the others of self-play."""
    prompts: int = 64
    """Tasks a round."""
    epochs: int = 3
    """Epochs: passes over the games of a round."""
    minibatches: int = 8
    """Minibatches in an epoch: optimiser steps for each pass over the games."""
    imitate: int = 1
    """Updates at first in which both learn from steps whose truth is known."""
    imitate_lr: float = 5e-4
    """Learning rate of AdamW in these updates; ``lr`` is that of games."""
    anchor: float = 0.15
    """Weight of that loss afterwards."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    check_stages(config.updates, config.imitate, "--imitate", who="anything by games")
    at_least(config, {"anchor": 0})
    objective(config, AGENTS[0])
    if config.imitate < 1 or config.act != "trie":
        got, expected = (config.imitate, config.act), "--imitate 1 or more, --act trie"
        raise BadInput("games need a beginning, and verdicts token by token", got=got, expected=expected, where="spc")
    needs = Needs(labels=True, text=True, kinds=(LINES,), even=True)
    with open_language(config, folder, live, resume=resume, adapters=AGENTS, needs=needs) as run:
        run.attempt_settings = _settings(run.attempt_settings)
        critic = StepCritic(run.model, "critic", config.plan.style)
        for update in run.updates():
            games = _games(run, update)  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                ledger, (logged, accepted) = RULE.assign(games), _measured(games)
            with run.clock("learn"):  # LEARN
                first = update < config.imitate
                known = _examples(run, update if first else update % config.imitate, 1 if first else 2)
                metrics = [_improve(run, agent, games, known, ledger, first=first) for agent in AGENTS]
                both = {name: float(np.mean([one[name] for one in metrics if name in one])) for name in metrics[0]}
            critic.save(folder.path / "critic")
            live.note(_summary(update, logged))
            run.log(games, ledger, **both, **logged, **({} if first else {"accepted": accepted}))
        live.note(
            f"search with it: evolvent run search "
            f"{shlex.join(['--model', f'train:{config.model}', '--value', f'{folder.path}/critic'])}"
        )
        summary = run.finish("spc", RULE)
        last = {"update": config.updates, "accepted": summary["greedy"].get("reward_accepted_mean")}
        for sign in run.shell.signs(last):  # rounds show what was before their training
            live.note(f"! {sign}")
        return summary


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Judge held-out steps with the newest checkpoint, frozen."""
    return evaluate_language(
        Config, folder, live, episodes, env=env, attempts=attempts, adapters=AGENTS, settings=_settings
    )


def _settings(settings: AttemptSettings) -> AttemptSettings:
    return replace(settings, team=Workflow((Member("critic"),)), world=lambda env: cast("Env", Judging(env)))


def objective(config: Config, agent: str) -> Objective:
    """The loss of games: the ratio is that of a whole verdict, or the geometric mean over the tokens of a step."""
    from evolvent.learn.tokens.objective import Objective

    ratio = "turn" if agent == "critic" else "seq_geo"
    return Objective(ratio=ratio, clip_low=config.clip, clip_high=config.clip, aggregate="seq_mean_token_mean")


# ------------------------------------------------------------------------------------------------ games
def _games(run: LanguageRun, update: int) -> list[Episode]:
    """A round: a sneaky step in every game, and as many games with right steps as sneaky steps that were wrong."""
    config: Any = run.config
    tasks = [task for task in run.tasks_of(update) for _ in range(config.group)]
    steps = _drawn(run, tasks, "games", update)
    sneaky = _play(run, tasks, [(step, True) for step in steps], f"{update}")
    n = sum("wrong_steps" in game.rewards_by_kind for game in sneaky)
    return sneaky + _play(run, tasks[:n], [(step, False) for step in steps[:n]], f"{update}.right")


def _drawn(run: LanguageRun, tasks: Sequence[Task], *path: str | int) -> list[Step]:
    """A step of each task."""
    known = {task_id: labelled_steps(run.env, task) for task_id, task in {t.id: t for t in tasks}.items()}
    draws = rng(run.config.seed, *path)
    return [known[task.id][int(draws.integers(len(known[task.id])))] for task in tasks]


def _play(run: LanguageRun, tasks: Sequence[Task], which: Sequence[tuple[Step, bool]], name: str) -> list[Episode]:
    config, jobs = run.config, list[tuple[Task, int, str]]()
    given = {f"{name}.{i}": one for i, one in enumerate(which)}
    for i, task in enumerate(tasks):
        jobs.append((task, seed_tree(config.seed, "game", name, i), f"{name}.{i}"))

    def player(env: Env, task: Task, seed: int, group: str) -> Player:
        step, sneaks = given[group]
        return game(env, task, step, run.attempt_settings.renderer, sneaks=sneaks, seed=seed, group=group)

    played = run.copies.play(jobs, run.acting, player)
    played.check(f"of round {run.update + 1}")
    run.shell.seconds["act"] += played.act_s
    run.shell.seconds["step"] += played.step_s
    return played.episodes


def game(env: Env, task: Task, step: Step, by: Renderer, *, sneaks: bool, seed: int = 0, group: str = "") -> Player:
    """One game about a step, as a coroutine: the sneaky generator changes it first (``sneaks``), or nobody does."""
    episode = Episode(task.id, env=env.name, seed=seed, group=group, meta={"kind": task.kind})
    last, before, changed = step.right, step.before, -1
    if sneaks:
        prompt = SNEAKY.asks(by, task.text, (*before, last))
        episode.observe(shown(task.text, (*before, last)), agent="sneaky", token_ids=_ids(prompt), parent=-1)
        answer = yield Request(prompt, seed_tree(seed, "sneaky"), env.max_tokens, ("\n",), adapter="sneaky")
        last = answer.text.strip()
        changed = _said(episode, "sneaky", last, answer)
        if not last or _is_right(env, task, before, last):
            episode.add_reward(-1.0, changed)
            keep_reward(episode, "fooled", 0.0)
            episode.end(terminated=True, success=False)
            return episode
    verdicts = allowed(by, VERDICTS)
    prompt = CRITIC.asks(by, task.text, (*before, last))
    episode.observe(shown(task.text, (*before, last)), agent="critic", token_ids=_ids(prompt), parent=-1)
    room = max(len(word) for word in verdicts)
    answer = yield Request(prompt, seed_tree(seed, "critic"), room, (), verdicts, "critic")
    rewards = verdict_rewards(answer.choice == 0, sneaks)
    right = rewards["wrong_steps" if sneaks else "right_steps"] == 1.0
    episode.add_reward(1.0 if right else -1.0, _said(episode, "critic", VERDICTS[answer.choice], answer, verdicts))
    if sneaks:
        episode.add_reward(-1.0 if right else 1.0, changed)
        rewards["fooled"] = float(not right)
    for kind, value in rewards.items():
        keep_reward(episode, kind, value)
    episode.end(terminated=True, success=right)
    return episode


def _said(episode: Episode, agent: str, text: str, answer: Completion, verdicts: Sequence[Any] = ()) -> int:
    return episode.act(
        text,
        agent=agent,
        token_ids=answer.token_ids,
        logp=answer.logp,
        finish=answer.finish,
        choices=[] if any(isinstance(word, str) for word in verdicts) else list(verdicts),
    )


def _ids(prompt: Prompt) -> np.ndarray:
    return np.zeros(0, np.int32) if isinstance(prompt, str) else prompt


def _is_right(env: Env, task: Task, before: Sequence[str], last: str) -> bool:
    """Whether the world takes a step that follows right ones for a right one."""
    env.reset(task, task.seed)
    right = env.step("\n".join((*before, last))).info["rewards"][LINES]
    return bool(right > len(before))


# ------------------------------------------------------------------------------------------------ learning
def _examples(run: LanguageRun, update: int, times: int) -> list[Episode]:
    """Games as they should go with labelled steps of an update: a known wrong step that is found, a right one that is
    accepted; ``times`` less of them than there are games.
    """
    config: Any = run.config
    by, out = run.attempt_settings.renderer, list[Episode]()
    tasks = [task for task in run.tasks_of(update) for _ in range(config.group)][:: max(times, 1)]
    draws = rng(config.seed, "examples", run.update)
    for task, step in zip(tasks, _drawn(run, tasks, "examples", run.update), strict=True):
        wrong = step.wrong[int(draws.integers(len(step.wrong)))]
        for sneaks in (True, False):
            asks = game(run.env, task, step, by, sneaks=sneaks)
            request = next(asks)
            try:
                if sneaks:
                    request = asks.send(_given(np.asarray(by.command(f"{wrong}\n")), wrong))
                verdict = int(sneaks)
                asks.send(_given(request.choice_tokens[verdict], VERDICTS[verdict], verdict))
            except StopIteration as done:
                out.append(done.value)
    return out


def _given(ids: np.ndarray, text: str, choice: int = -1) -> Completion:
    return Completion(text, ids, np.zeros(0, np.float32), choice=choice)


def _improve(
    run: LanguageRun, agent: str, games: list[Episode], known: list[Episode], ledger: Ledger, *, first: bool
) -> dict[str, float]:
    """Train one of the two: by examples alone, or by games with examples beside them."""
    from evolvent.learn.tokens.imitation import WithReplay
    from evolvent.learn.tokens.objectives_of_papers import REINFORCE

    config: Any = run.config
    for part in run.optimizers[agent].param_groups:
        part["lr"] = config.imitate_lr if first else config.lr
    examples = imitated(known)
    if first:
        return imitate(run, examples, adapter=agent, epochs=config.epochs, minibatches=config.minibatches)
    whole = Ledger.for_episodes([*games, *known])
    whole.set("step", np.concatenate([ledger.values("step"), examples.values("step")]))
    loss = WithReplay(objective(config, agent), REINFORCE, len(games), config.anchor)
    return run.improve(loss, whole, level="step", adapter=agent, replayed=len(known))


def _measured(games: Sequence[Episode]) -> tuple[Logged, float]:
    """What a round came to, where it had such games, and the share of steps that the critic accepted."""
    kinds = ("fooled", "right_steps", "wrong_steps", "accepted")
    said = {kind: [reward_total(g, kind) for g in games if kind in g.rewards_by_kind] for kind in kinds}
    accepted = said.pop("accepted")
    logged = {kind: float(np.mean(values)) for kind, values in said.items() if values}
    logged |= {"sneaky_wrong": len(said["wrong_steps"]) / max(len(said["fooled"]), 1)}
    return logged, float(np.mean(accepted)) if accepted else 0.5


def _summary(update: int, logged: Logged) -> str:
    said = {name: percent(logged.get(name)) for name in ("sneaky_wrong", "fooled", "right_steps", "wrong_steps")}
    return (
        f"round {update + 1}: {said['sneaky_wrong']} of the sneaky steps were wrong, {said['fooled']} won; the critic "
        f"accepted {said['right_steps']} of the right steps and found {said['wrong_steps']} of the wrong ones"
    )
