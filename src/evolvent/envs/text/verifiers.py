"""Environments of ``verifiers`` (0.4 and later) by the name of their package: ``verifiers:my-env,max_turns=4``.

The package plays against an OpenAI-compatible endpoint; here the caller of ``step`` takes the agent's place, and the
environment's own code asks, answers and scores. Not supported, and refused: tools, containers, code that runs in a
sandbox, judges that are language models, environments of several agents, and packages written for versions before 0.4.
"""

from __future__ import annotations

import importlib
import math
import random
import zlib
from itertools import islice
from typing import Any

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn
from evolvent.core.rounding import inside, reaches
from evolvent.envs.text._settings import parse_settings
from evolvent.envs.text._text import TextEnv, check_request, need, playing

_WHERE = "envs.verifiers.make"


def make(
    variant: str, *, settings: str = "", max_turns: int = 8, max_tokens: int = 256, low: float = 0.0, high: float = 1.0
) -> Verifiers:
    """An installed environment of ``verifiers``.

    Args:
        variant: the environment's package, as ``verifiers`` names it.
        settings: settings of its taskset joined by "+", values written as in Python.
        max_turns: replies per attempt, after which it is truncated.
        max_tokens: longest reply.
        low: smallest reward an attempt can have.
        high: largest reward an attempt can have; an attempt that reaches it counts as success.

    Raises:
        BadInput: no such environment, a setting it refuses, or one that needs what is not supported.
        MissingExtra: the package is missing.
    """
    need("verifiers", "verifiers", "verifiers")
    if max_turns < 1 or max_tokens < 1 or not low < high:
        got, expected = (max_turns, max_tokens, low, high), "max_turns ≥ 1, max_tokens ≥ 1, low < high"
        raise BadInput("a limit is wrong", got=got, expected=expected, where=_WHERE)
    options = parse_settings(settings, None, f"{_WHERE}({variant!r}, settings=)")
    loaders = importlib.import_module("verifiers.v1.utils.loaders")
    narrow = importlib.import_module("verifiers.v1.utils.generic").concrete_type
    vf = importlib.import_module("verifiers.v1")
    try:
        kind = loaders.environment_class(variant)
        taskset = loaders.taskset_class(variant)
        asked = (narrow(taskset, vf.TasksetConfig) or vf.TasksetConfig).model_validate({"id": variant, **options})
        env = kind((narrow(kind, vf.EnvConfig, origin=vf.Env) or vf.EnvConfig).model_validate({"taskset": asked}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        do = "install its package; it must export a Taskset of verifiers 0.4 or later"
        raise BadInput("verifiers cannot load it", got=variant, expected=str(error), where=_WHERE, do=do) from error
    from evolvent.envs.text._verifiers_conversation import unsupported

    if needs := unsupported(env):
        expected = "an environment of texts alone, for one agent"
        raise BadInput(f"an environment that needs {needs}", got=variant, expected=expected, where=_WHERE)
    return Verifiers(variant, env, (max_turns, max_tokens), (low, high))


class Verifiers(TextEnv):
    """One environment. Its rewards are paid when the attempt ends; named scores are in the last turn's ``info``."""

    instructions = ""
    labels = ("User", "Assistant")
    stop = ("\nUser:",)
    conversation = True

    def __init__(self, name: str, env: Any, limits: tuple[int, int], reward_range: tuple[float, float]) -> None:
        self.name, self._env, self.reward_range = f"verifiers-{name}", env, reward_range
        self._max_turns, self.max_tokens = limits
        self._rows: list[Any] = list(islice(env.taskset, 2000))  # an endless taskset is cut here
        self._conversation: Any = None

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` of its first 2,000 tasks; distinguished by what they hold, 70 % are for training."""
        check_request(split, n, f"{self.name}.tasks")
        mine = {
            row.key: number
            for number, row in enumerate(self._rows)
            if (zlib.crc32((row.data.prompt_text + (row.data.name or "")).encode()) % 10 < 7) == (split == "train")
        }
        numbers = sorted(mine.values())
        random.Random(f"{self.name}/{split}/{seed}").shuffle(numbers)
        if n > len(numbers):
            raise BadInput("too many tasks", got=n, expected=f"at most {len(numbers)}", where=f"{self.name}.tasks")
        texts = [self._rows[i].data.prompt_text or self._rows[i].data.name or f"task {i}" for i in numbers[:n]]
        pairs = zip(numbers, texts, strict=False)
        return [Task(f"{self.name}/{i}", text, self.name, split, i) for i, text in pairs]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start the environment on ``task``; chance in it is the environment's own (``seed`` goes unused)."""
        from evolvent.envs.text._verifiers_conversation import Conversation

        self.close()
        self._conversation = Conversation(self._env, self._rows[task.seed], self._max_turns)
        self._run(self._conversation.start)
        if self._conversation.done:
            raise EnvError("the environment ended without asking anything", where=self.name)
        self._turn = Turn(self._conversation.question or task.text)
        return self._turn

    def step(self, action: str) -> Turn:
        """Reply to what was shown last."""
        playing(self._turn, self.name)
        conversation = self._conversation
        self._run(lambda: conversation.reply(action))
        if not conversation.done:
            self._turn = Turn(conversation.question or "(no text)")
            return self._turn
        reward, (low, high) = conversation.reward, self.reward_range
        if math.isnan(earned := inside(reward, low, high)):
            do = "say the true range with low= and high="
            raise EnvError(
                "a reward outside its range", got=reward, expected=f"{low} to {high}", where=self.name, do=do
            )
        self._turn = Turn(
            f"Score: {earned:g}.",
            reward=earned,
            terminated=not conversation.cut,
            truncated=conversation.cut,
            success=reaches(earned, high),
            info={"scores": conversation.scores},
        )
        return self._turn

    def close(self) -> None:
        """End the coroutine of an unfinished attempt."""
        if self._conversation is not None:
            self._conversation.close()
        self._conversation = self._turn = None

    def _run(self, go: Any) -> None:
        try:
            go()
        except (Exception, SystemExit) as error:  # code of others: whatever it raises is a failed environment
            raise EnvError("the environment failed", got=repr(error), where=self.name) from error
