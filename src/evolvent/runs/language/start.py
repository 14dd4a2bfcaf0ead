"""What a run is asked before its model is loaded: settings, tasks, and what its algorithm needs of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Task
from evolvent.core.seeding import rng
from evolvent.runs.language.baselines import random_command
from evolvent.runs.language.config import LanguageConfig, check
from evolvent.runs.language.tasks import heldout_tasks, run_tasks

EXECUTED = "executed"
CRITIC = "the critic reads its hidden states"
REFERENCE = "it is the reference that divergence is measured from"


@dataclass(frozen=True)
class Needs:
    """What an algorithm cannot do without."""

    base: str = ""
    """What it needs the frozen model for, beside the one that is trained; LoRA keeps both."""
    whole: bool = False
    """Allowed actions are chosen as wholes."""
    tokens: bool = False
    """Allowed actions are sampled token by token: each token has a log-probability and an entropy of its own."""
    text: bool = False
    """Answers are free text, not commands on a list."""
    kinds: tuple[str, ...] = ()
    """Rewards that the environment pays besides, ``Turn.info["rewards"]``."""
    training: bool = True
    """Tasks to learn from; a run that is judged alone has none."""
    compares: bool = False
    """Several attempts at a task: its rule knows an attempt by what others of its group earned, ``COMPARES``."""
    even: bool = False
    """As many attempts at each task: it distributes them by itself, or counts on it."""
    recorded: bool = False
    """What is learned from is given, examples or recorded attempts: no tasks are drawn."""
    labels: bool = False
    """The environment labels lines of answers, ``line_labels(task)``."""


def check_settings(config: LanguageConfig, adapters: Sequence[str], needs: Needs) -> None:
    """Check all that can be known without the environment.

    Raises:
        BadInput: settings that do not fit together.
    """
    check(config, adapters)
    _check_needs(config, needs)
    if config.plan.memory:
        from evolvent.memory import embedders
        from evolvent.runs.language.memory import chosen

        chosen(config.plan)
        embedders.ready(embedders.DEFAULT)


def tasks_of(
    config: LanguageConfig, env: Env, needs: Needs, note: Callable[[str], None]
) -> tuple[list[Task], list[Task]]:
    """The tasks of all updates and those that are held out; ``note`` hears of too few.

    Raises:
        BadInput: the environment is none for these settings.
    """
    if not config.env:
        return [], []
    tasks, heldout = run_tasks(env, config, note) if needs.training else ([], heldout_tasks(env, config, note))
    _check_env(config, needs, env, (tasks or heldout)[0])
    return tasks, heldout


def _check_needs(config: LanguageConfig, needs: Needs) -> None:
    if needs.base and config.plan.lora_rank < 1:
        raise BadInput(
            f"the frozen model is needed beside the trained one: {needs.base}",
            got="--lora-rank 0",
            expected=">= 1",
            where="--lora-rank",
        )
    if needs.compares and config.group < 2:
        raise BadInput(
            "an attempt alone is compared with nothing: there is no credit, and nothing is learned",
            got=f"--group {config.group}",
            expected=">= 2",
            where="--group",
            do="--group 4, or what learns from single attempts: reinforce, poad, kto",
        )
    if needs.recorded and (config.plan.curriculum, config.plan.allocation) != ("none", "even"):
        raise BadInput(
            "examples and recorded attempts are taken as they are: no tasks are drawn",
            got=f"--curriculum {config.plan.curriculum} --allocation {config.plan.allocation}",
            expected="none and even",
            where="--curriculum, --allocation",
        )
    if needs.even and config.plan.allocation != "even":
        raise BadInput(
            "this system distributes attempts by itself, or wants as many at each task",
            got=f"--allocation {config.plan.allocation}",
            expected="even",
            where="--allocation",
            do="leave it out, or take a system such as grpo",
        )
    if needs.whole and config.act == "trie":
        raise not_whole()


def not_whole() -> BadInput:
    """The error of whole actions that are to be trained where tokens were sampled."""
    return BadInput(
        "actions that were sampled token by token are not trained as wholes",
        got="--act trie",
        expected="word, token or sum",
        where="--act",
    )


def _check_env(config: LanguageConfig, needs: Needs, env: Env, task: Task) -> None:
    """Check the environment on its first task: by one observation, or by one attempt with random actions."""
    if needs.labels and not hasattr(env, "line_labels"):
        raise BadInput(
            "this environment does not label lines",
            got=config.env,
            expected="a method line_labels(task)",
            where="--env",
            do="take --env program:repair, or labels by samples (--labels hard)",
        )
    by_token = not needs.tokens or config.act == "trie"
    if by_token and not needs.kinds and not needs.text:
        return
    turn, draws, paid = env.reset(task, task.seed), rng(config.seed, "look"), dict[str, None]()
    if not by_token and turn.admissible is not None:
        raise BadInput(
            "the log-probability and entropy of every token are needed",
            got=f"--act {config.act}",
            where="--act",
            expected="trie, where commands are listed",
        )
    if needs.text and turn.admissible is not None:
        raise BadInput(
            "answers in words are needed",
            got=f"{config.env}, which lists commands",
            where="--env",
            expected="a world of free text, such as game24, chain or arithmetic:addition",
        )
    listed = True
    while needs.kinds and not turn.done:
        listed = listed and turn.admissible is not None
        turn = env.step(random_command(turn, draws))
        paid |= dict.fromkeys(turn.info.get("rewards", {}))
    if listed:  # what is on a list of commands can be carried out (algos.spa)
        paid.setdefault(EXECUTED)
    missing = [kind for kind in needs.kinds if kind not in paid]
    if missing:
        raise BadInput(
            "the environment does not pay this kind of reward",
            got=config.env,
            expected=", ".join(missing),
            where="--env",
            do=f"it pays {', '.join(paid) or 'none'}; environments report them in Turn.info['rewards']",
        )
