"""Satori-SWE (EvoScale): a model learns to answer again, better than before, with its earlier answers in sight.

Paper: Zeng et al. 2025, Satori-SWE: Evolutionary Test-Time Scaling for Sample-Efficient Software Engineering (arXiv
2505.23604).

    a_t ~ pi(. | question, a_{t-shown} … a_{t-1}),   t = 0 … rounds
    r_t = s(a_t) - s(a_{t-1}),  s(a_{-1}) = 0           the potential is the world's reward of an answer
    first:  L = - mean_tokens max(r_t, 0) log pi(a_t)                                       (``imitate`` updates)
    then:   A_t = (r_t - mean r) / std r over the group,  or the sum of these from t on      (``horizon``)
            L   = - mean_tokens min(r A, clip(r, 1 +- .2) A)

The rewards of an attempt add up to what its last answer is worth. Nothing judges answers while they are improved, so
the trained model evolves its answers without a verifier: ``success`` and ``return`` are those of the last answer,
``reward_first_mean`` and ``reward_best_mean`` what the first and the best one were worth.

Published: five earlier answers in sight, two stages of imitation ahead of RL. Ours: three rounds, ten updates of
imitation, rates for LoRA.

Deviations: written after the abstract and the page of the repository. Both stages of imitation are one, of the model's
own answers that were right at once or better than the one before (published: a larger model's). Earlier answers are the
attempt's own, all of them (published: samples of a generation). The estimator of RL is not known: GRPO's with process
rewards, PPO's clip, no KL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Env, Task, Turn
from evolvent.credit import step_process_std, step_return_to_go
from evolvent.evaluate.live import Live
from evolvent.play.settings import AttemptSettings
from evolvent.runs.language.imitation import imitate
from evolvent.runs.language.system import Needs, PPOConfig, Rule, check_stages, evaluate_language, open_language

PAPER = "arXiv 2505.23604"
LEVELS = ("step",)
STATUS = "lightly tested"
BETTER = "{question}\nAnswers so far, the last one last:\n{answers}\nGive a better one in the same form."
GAIN = step_return_to_go.Config(gamma=0.0)  # what an answer itself was paid


@dataclass(frozen=True)
class Config(PPOConfig):
    """Settings of Satori."""

    rounds: int = 3
    """Better answers that are asked for, one after another."""
    shown: int = 5
    """Earlier answers in sight, at most."""
    imitate: int = 10
    """Updates at first in which answers that are better than the one before are imitated; 0 = none."""
    horizon: Literal["next", "end"] = "next"
    """What an answer is paid for: its own gain (as published), or all gains from it on."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.tokens.objective import Objective

    check_stages(config.updates, config.imitate, "--imitate")
    gains = step_process_std.Config(to_go=config.horizon == "end")
    objective = Objective(clip_low=config.clip, clip_high=config.clip)
    with open_language(config, folder, live, resume=resume, needs=Needs(text=True)) as run:
        run.attempt_settings = _settings(run.attempt_settings, config)

        def assign(episodes: Sequence[Episode]) -> Ledger:
            if run.update >= config.imitate:
                return step_process_std.assign(episodes, gains)
            ledger = step_return_to_go.assign(episodes, GAIN)
            ledger.set("step", np.maximum(ledger.values("step"), 0.0))
            return ledger

        rule = Rule("gain", "step", "what an answer is worth beyond the one before it", assign)
        for update in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                ledger = rule.assign(episodes)
            with run.clock("learn"):  # LEARN
                if update < config.imitate:
                    metrics = imitate(run, ledger, epochs=config.epochs, minibatches=config.minibatches)
                else:
                    metrics = run.improve(objective, ledger, level="step")
            run.log(episodes, ledger, **metrics)
        return run.finish("satori", rule)


def evaluate(
    folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "", attempts: int = 0
) -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen, as many rounds as in training."""
    config = Config(rounds=int(folder.config["rounds"]), shown=int(folder.config["shown"]))
    return evaluate_language(
        Config, folder, live, episodes, env=env, attempts=attempts, settings=lambda s: _settings(s, config)
    )


def _settings(settings: AttemptSettings, config: Config) -> AttemptSettings:
    return replace(settings, world=lambda env: cast("Env", _Evolving(env, config.rounds, config.shown)))


class _Evolving:
    """A world of one answer, as one that asks for better ones and pays what each is worth beyond the one before."""

    def __init__(self, env: Env, rounds: int, shown: int) -> None:
        self._env, self._rounds, self._shown = env, rounds, shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The question."""
        self._task, self._seed = task, seed
        self._answers, self._worth = list[str](), list[float]()
        self._question = self._env.reset(task, seed)
        return self._question

    def step(self, action: str) -> Turn:
        """Take an answer, and ask for a better one."""
        turn = self._env.step(action)
        if not turn.done or self._question.admissible is not None:
            raise BadInput(
                "whole answers are improved",
                got=f"{self._env.name}, which goes on or lists commands",
                expected="a world of one free answer",
                where="--env",
            )
        gain = turn.reward - (self._worth[-1] if self._worth else 0.0)
        self._answers.append(action)
        self._worth.append(turn.reward)
        if len(self._answers) > self._rounds or not turn.valid:
            paid = {"first": self._worth[0], "best": max(self._worth)}
            return replace(turn, reward=gain, info={**turn.info, "rewards": {**turn.info.get("rewards", {}), **paid}})
        self._env.reset(self._task, self._seed)
        answers = "\n".join(self._answers[-self._shown :])
        text = BETTER.format(question=self._question.observation, answers=answers)
        return Turn(text, reward=gain, success=turn.success, info=turn.info)
