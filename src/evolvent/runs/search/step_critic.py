"""A critic of steps: it reads a question, the steps so far and a last one, and says whether that one is correct (SPC).

    p(t) = P("Correct" | question, steps 1 … t)          between the two words, token by token
    V(s) = prod_t p(t)                                   all steps are right: each is judged given those before it

``StepCritic`` is the value of a search (``--value FOLDER``). ``Judging`` is the world in which it is trained and tried:
steps whose truth the world below knows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evolvent.core.errors import BadInput, ModelError
from evolvent.core.protocols import Env, Prompt, Renderer, Request, Task, Turn
from evolvent.core.seeding import rng
from evolvent.play.attempt import allowed
from evolvent.play.renderers import renderer
from evolvent.search.search import State

if TYPE_CHECKING:
    from evolvent.models.language.model import LanguageModel

VERDICTS = ("Correct", "Incorrect")
NOTE, KIND = "value.json", "step_critic"


@dataclass(frozen=True)
class PromptHead:
    """What the head of a prompt is made of."""

    instructions: str
    labels: tuple[str, str]

    def asks(self, by: Renderer, question: str, steps: Sequence[str]) -> Prompt:
        """The prompt about some steps."""
        return by.first(cast("Env", self), Turn(shown(question, steps)))


CRITIC = PromptHead("Is the last step of a solution correct?\n\n", ("Solution", "Verdict"))


@dataclass(frozen=True)
class Step:
    """A right step behind right ones, and wrong ones in its place."""

    before: tuple[str, ...]
    right: str
    wrong: tuple[str, ...]


def shown(question: str, steps: Sequence[str]) -> str:
    """A question and steps, a line each."""
    return "\n".join((question, *steps))


def labelled_steps(env: Any, task: Task) -> list[Step]:
    """The right steps of a task for which the world knows wrong ones, too (``env.line_labels``).

    Raises:
        BadInput: there is none.
    """
    right, wrong = dict[tuple[str, ...], str](), dict[tuple[str, ...], dict[str, None]]()
    for text, number, label in env.line_labels(task):
        *before, last = [line.strip() for line in text.splitlines() if line.strip()][: number + 1]
        if label:
            right.setdefault(tuple(before), last)
        else:
            wrong.setdefault(tuple(before), {})[last] = None
    found = [Step(before, last, tuple(wrong[before])) for before, last in right.items() if before in wrong]
    if not found:
        raise BadInput("no step of this task is known right and wrong", got=task.id, where=env.name)
    return found


class Judging:
    """A world of steps to be judged, made of one that labels lines: each task shows one step of its own, about every
    second time a wrong one. Pays 1 for the right verdict and -1 for the other.
    """

    instructions, labels, reward_range = CRITIC.instructions, CRITIC.labels, (-1.0, 1.0)

    def __init__(self, env: Env) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """A step of the task, which the task alone determines."""
        draws, steps = rng(0, "judging", task.id), labelled_steps(self._env, task)
        one = steps[int(draws.integers(len(steps)))]
        self._wrong = bool(draws.integers(2))
        last = one.wrong[int(draws.integers(len(one.wrong)))] if self._wrong else one.right
        return Turn(shown(task.text, (*one.before, last)), VERDICTS)

    def step(self, action: str) -> Turn:
        """Take the verdict."""
        rewards = verdict_rewards(action == VERDICTS[0], self._wrong)
        right = rewards["wrong_steps" if self._wrong else "right_steps"] == 1.0
        return Turn("", reward=1.0 if right else -1.0, terminated=True, success=right, info={"rewards": rewards})


def verdict_rewards(accepted: bool, wrong: bool) -> dict[str, float]:
    """Kinds of reward of a verdict: whether it was right, by the kind of step, so that one word for all is seen."""
    return {"wrong_steps" if wrong else "right_steps": float(accepted != wrong), "accepted": float(accepted)}


class StepCritic:
    """What a critic thinks of states: the value of a search. ``style`` is that of the prompts it was trained on."""

    kind = "process"

    def __init__(self, model: LanguageModel, adapter: str = "critic", style: str = "plain") -> None:
        from evolvent.models.language.acting import Known

        self.model, self.adapter, self.style = model, adapter, style
        self._renderer = renderer(style, model)
        self._verdicts = allowed(self._renderer, VERDICTS)
        self._known, self._judged = Known(model), dict[tuple[str, ...], float]()

    def __call__(self, states: Sequence[State]) -> np.ndarray:
        """How likely all steps of each state are right, float64 ``[N]``; 1 where there is none."""
        keys = [_beginnings(state) for state in states]
        new = [key for key in dict.fromkeys(key for mine in keys for key in mine) if key not in self._judged]
        said = self.judge([(question, steps) for question, *steps in new])
        self._judged |= dict(zip(new, said.tolist(), strict=True))
        return np.array([np.prod([self._judged[key] for key in mine]) for mine in keys], np.float64)

    def judge(self, asked: Sequence[tuple[str, Sequence[str]]]) -> np.ndarray:
        """How likely the last step is right where those before it are: of a question and steps, float64 ``[N]``."""
        if not asked:
            return np.zeros(0)
        prompts = [CRITIC.asks(self._renderer, question, steps) for question, steps in asked]
        requests = [Request(prompt, 0, 1, (), self._verdicts, self.adapter) for prompt in prompts]
        opinions_of = self._known.opinions(requests, 1.0, inside=True)
        return np.exp([opinions[0].logp_K.sum(dtype=np.float64) for opinions in opinions_of])

    def forget(self) -> None:
        """Drop what was judged; call it whenever the weights have changed."""
        self._known.forget()
        self._judged.clear()

    def save(self, folder: str | Path) -> None:
        """Write a folder: the adapter as peft writes it, and ``value.json``, which says what it is."""
        from evolvent.models.language.load import write_whole

        to = Path(folder)
        note = {"kind": KIND, "adapter": self.adapter, "style": self.style, "base": self.model.name}
        write_whole(to, lambda hidden: _write(hidden / NOTE, note))
        self.model.save(to / "adapter", self.adapter)

    @classmethod
    def load(cls, model: LanguageModel, folder: str | Path) -> StepCritic:
        """The critic that ``save`` wrote, on the model that it was trained on.

        Raises:
            ModelError: it belongs to another base, or cannot be read.
        """
        at = Path(folder).expanduser()
        try:
            note = json.loads((at / NOTE).read_text(encoding="utf-8"))
            name, style = str(note["adapter"]), str(note["style"])
        except (OSError, ValueError, KeyError) as error:
            raise ModelError("a critic that cannot be read", got=str(error), where=str(at)) from error
        model.load_adapter(at / "adapter", name)
        return cls(model, name, style)


def is_critic(folder: str | Path) -> bool:
    """Whether a folder with ``value.json`` holds a critic of steps."""
    try:
        return json.loads((Path(folder).expanduser() / NOTE).read_text(encoding="utf-8")).get("kind") == KIND
    except (OSError, ValueError):
        return False


def _beginnings(state: State) -> list[tuple[str, ...]]:
    """The question with the first line, with the first two, …; a move may be a line or an answer of several."""
    lines = [line.strip() for step in state.steps for line in step.splitlines() if line.strip()]
    return [(state.question, *lines[: t + 1]) for t in range(len(lines))]


def _write(at: Path, note: dict[str, Any]) -> None:
    at.write_text(json.dumps(note, indent=1), encoding="utf-8")
