"""The part of an attempt that has a memory: recall before a decision, and settle and remember when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Completion, Engine, Env, Renderer, Request, Task, Turn
from evolvent.core.seeding import rng, seed_tree
from evolvent.formulas.returns import discounted
from evolvent.formulas.selection import softmax
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.recall import Recalled
from evolvent.play.by_value import choose_by_value, command_values
from evolvent.play.receipts import Decision, record, undecided

LESSONS = ("corrections", "successes", "failures", "procedures")
PROCEDURE = "The same in general terms, as three short steps that would solve similar questions:\n1."


@dataclass(frozen=True)
class Use:
    """How an agent uses its memory, and what it writes."""

    how: str = "context"
    """"context": shown memories are worked examples in the prompt; "values": their learned values choose among
    admissible commands together with the model's prior (PUCT); "both"; "none"; "auto": values where there are
    admissible commands, context where any text is an action."""
    lessons: tuple[str, ...] = ("corrections", "successes")
    """What is written: "corrections", "successes", "failures" (what to avoid), "procedures" (written by the model)."""
    prior_temperature: float = 6.0
    """Flattens the model's prior over commands when values choose (summed log-probabilities are peaked)."""
    exploration: float = 0.6
    """c of PUCT."""
    value_gate: float = 0.85
    """Similarity at which the kernels over situations and commands reach zero: a scale of the embedder's, this one
    suits all-MiniLM-L6-v2 (at .6 every situation of a small game is the same situation: LOG.md)."""
    value_start: float = 0.3
    """Value of a command without any experience, in units of reward."""
    discount: float = 0.9
    """Per step: a memory shown at step t earns the discounted reward from t on."""
    budget_chars: int = 6000
    """Characters of memory text allowed in a prompt; what does not fit is neither shown nor credited."""

    def __post_init__(self) -> None:
        if wrong := [word for word in self.lessons if word not in LESSONS]:
            expected = f"some of {', '.join(LESSONS)}"
            raise BadInput("no such kind of lesson", got=", ".join(wrong), expected=expected, where="--lessons")


class Recalls(Protocol):
    """The part of an attempt that recalls.

    ``Experience`` recalls by situation and learns, ``Answered`` has its memories in the task already; systems have
    their own: steps of an expert by thought (TRAD), texts of a guide by name (MUSE).
    """

    def recall(self, turn: Turn, key: str, seed: int, said: Mapping[str, str] | None) -> str:
        """What a member is shown before its situation.

        Args:
            turn: what is seen.
            key: the situation, in words.
            seed: of the draws.
            said: what the others said of it, to the one that acts; ``None`` = a member that does not act.
        """
        ...

    def choose(self, turn: Turn, answer: Completion, seed: int, episode: Episode) -> tuple[str, Completion]:
        """The action, and the completion that it came from; what was shown goes on record."""
        ...

    def stopped(self) -> None:
        """The last recall led to no decision."""
        ...

    def ended(self, turn: Turn) -> None:
        """Where the attempt ended."""
        ...


class Learns(Recalls, Protocol):
    """A part of an attempt that also says what it learned: what ``Agent.experience`` makes."""

    @property
    def steps(self) -> Sequence[Decision]:
        """Its decisions."""
        ...

    def reflect(self, episode: Episode, engine: Engine, renderer: Renderer) -> str:
        """Think of what to learn, without writing it; returns a word about the last lesson."""
        ...

    def learn(self) -> None:
        """Write it, and settle what was recalled: one transaction, in which no model is called."""
        ...


@dataclass
class _Step(Decision):
    listed: bool = False  # whether the action was one of a list
    earned: float | None = None  # once it is known
    lesson: dict[str, Any] | None = None  # what to remember of it


@dataclass
class Experience:
    """What one attempt recalls, and what comes of it; make a new one for each.

    Args:
        env: the environment of the attempt.
        task: what is attempted.
        memory: where experiences are recalled from and written to; ``None`` acts without.
        use: how.
        seed: of the attempt.
        learns: ``False`` evaluates: no exploration, no omission, nothing settled or written.

    Attributes:
        steps: what was recalled and done, decision by decision.
    """

    env: Env
    task: Task
    memory: Memory | None
    use: Use
    seed: int
    learns: bool = True
    steps: list[_Step] = field(default_factory=list["_Step"])
    _last: Turn | None = None

    # ------------------------------------------------------------------------------------------- while it goes on
    def recall(self, turn: Turn, key: str, seed: int, said: Mapping[str, str] | None) -> str:
        """To the one that acts memories as worked examples; "" where values use them, or there are none."""
        if said is None:
            return ""
        if self.use.how == "auto":
            self.use = replace(self.use, how="context" if turn.admissible is None else "values")
        step = _Step(key)
        self.steps.append(step)
        if self.memory is None or self.use.how == "none":
            return ""
        policy = preset("neighbours", gate=self.use.value_gate) if self.use.how == "values" else None
        frozen = not self.learns
        step.recall = self.memory.recall(key, policy=policy, seed=seed, frozen=frozen, is_test=frozen)
        if self.use.how == "values":
            return ""
        examples, step.shown = render(self.env, step.recall.items, self.use.budget_chars)
        return examples

    def choose(self, turn: Turn, answer: Completion, seed: int, episode: Episode) -> tuple[str, Completion]:
        """The action, and the completion that it came from: one without tokens where values overruled the model."""
        step = self.steps[-1]
        step.action, step.at = answer.text.strip(), episode.n_steps
        if turn.admissible is not None:
            step.listed = True
            index = self._by_value(turn.admissible, step, answer, seed)
            step.action = turn.admissible[index]
            if index != answer.choice:
                answer = Completion(step.action, np.zeros(0, np.int32), np.zeros(0, np.float32), choice=index)
        if step.recall is not None and self.memory is not None:
            if self.use.how == "values":
                step.shown = _same_experience(step.recall.items, step.action)
            self.memory.shown(step.recall, step.shown)
            record(episode, step.recall, step.shown)
        return step.action, answer

    def stopped(self) -> None:
        """The last recall led to no decision: nothing of it was used."""
        step = undecided(self.steps)
        if step and step.recall is not None and self.memory is not None:
            self.memory.shown(step.recall, ())

    def ended(self, turn: Turn) -> None:
        """Where the attempt ended."""
        self._last = turn

    def _by_value(self, commands: Sequence[str], step: _Step, answer: Completion, seed: int) -> int:
        if self.use.how not in ("values", "both") or self.memory is None:
            return answer.choice
        if answer.scores_N is None:
            raise BadInput(
                "values choose with the model's prior, and it does not tell one",
                got=f"use {self.use.how}",
                expected="context, or a model that scores commands",
                where="--use",
            )
        value_N, count_N = command_values(
            step.recall.items if step.recall else (),
            commands,
            self.memory.embedder,
            gate=self.use.value_gate,
            start=self.use.value_start,
        )
        exploration = self.use.exploration if self.learns else self.use.exploration / 4
        prior_N = softmax(answer.scores_N, self.use.prior_temperature)
        return choose_by_value(prior_N, value_N, count_N, exploration=exploration, rng=rng(seed, "command"))

    # ------------------------------------------------------------------------------------------- when it is over
    def reflect(self, episode: Episode, engine: Engine, renderer: Renderer) -> str:
        """Think of what to learn, without writing it; returns a word about the last lesson.

        Args:
            episode: the record of the attempt.
            engine: the model, which writes procedures where those are wanted.
            renderer: of its prompts.
        """
        turn = self._last
        if self.memory is None or turn is None or not (self.learns and turn.valid and self.steps):
            return ""
        if self.use.how == "none":
            return ""
        # CREDIT
        # a score that was gained may be lost again, so what is still to come can leave the range of a whole attempt
        returns_T = np.clip(discounted(episode.rewards_T, gamma=self.use.discount), *self.env.reward_range)
        word = ""
        for step in self.steps:
            step.earned = float(returns_T[step.at])
            step.lesson, word = self._lesson(step, turn, step.earned, engine, renderer)
        return word

    def learn(self) -> None:
        """Write the lessons and settle what was recalled: one transaction, in which no model is called."""
        if self.memory is None:
            return
        # LEARN
        with self.memory.transaction():
            steps = [step for step in self.steps if step.earned is not None]
            written = [None if step.lesson is None else self.memory.remember(**step.lesson) for step in steps]
            for step, child in zip(steps, written, strict=True):
                if step.recall is not None:
                    self.memory.settle(step.recall, step.earned, source="env", action=step.action, child=child)

    def _lesson(
        self, step: _Step, turn: Turn, value: float, engine: Engine, renderer: Renderer
    ) -> tuple[dict[str, Any] | None, str]:
        """What to remember of this step, as arguments of ``remember``, and a word for the live line."""
        lessons, row = self.use.lessons, {"key": step.key, "parents": step.shown}
        action = step.action if step.listed else str(turn.info.get("action", step.action))
        if self.use.how == "values" or (self.use.how == "both" and step.listed):
            if step.shown:  # a known experience: settling moves its value
                return None, ""
            polarity = "success" if turn.success else "neutral"
            return {**row, "body": action, "kind": "experience", "polarity": polarity, "value": value}, ""
        if turn.success and _is_known(step, action):
            return None, ""
        if turn.success and "procedures" in lessons:
            body = self._procedure(step, engine, renderer)
            return {**row, "body": body, "kind": "script", "polarity": "success"}, "procedure"
        if turn.success and "successes" in lessons and action:
            return {**row, "body": action, "polarity": "success", "source": "self"}, "success kept"
        if not turn.success and "corrections" in lessons:
            correction = self.env.review(self.task, seed_tree(self.seed, "review"))
            if correction is not None:
                return {**row, "body": correction.body, "source": correction.source}, "corrected"
        if not turn.success and "failures" in lessons and action:
            return {**row, "body": action, "polarity": "failure", "source": "self"}, "failure kept"
        return None, ""

    def _procedure(self, step: _Step, engine: Engine, renderer: Renderer) -> str:
        """A short procedure in the model's words, followed by the solution as it was (MemP: script and trajectory)."""
        question, answer = self.env.labels
        prompt = renderer.plain(f"{question}: {step.key}\n{answer}: {step.action}\n\n{PROCEDURE}")
        (done,) = engine([Request(prompt, 0, 80, ("\n\n", "\n4."))])
        return f"{step.action}\n-- steps: 1. {' '.join(done.text.split())}"


def render(env: Env, items: Sequence[Recalled], budget_chars: int) -> tuple[str, tuple[str, ...]]:
    """The memories as worked examples, best last (nearest to the question), within a character budget.

    Returns the text and the ids that survived the budget. Memory text is data: it is quoted as an example of the
    environment's own form, never placed among the instructions.
    """
    question, answer = env.labels
    shown: list[str] = []
    blocks: list[str] = []
    left = budget_chars
    for item in items:
        label = f"{answer} (wrong, avoid)" if item.polarity == "failure" else answer
        block = f"{question}: {item.key}\n{label}: {item.body}\n\n"
        if len(block) > left:
            continue
        left -= len(block)
        shown.append(item.id)
        blocks.append(block)
    return "".join(reversed(blocks)), tuple(shown)


def _same_experience(items: tuple[Recalled, ...], action: str) -> tuple[str, ...]:
    """The recalled experience of this very action in (nearly) this very situation, if there is one."""
    same = [item for item in items if item.body == action and item.similarity > 0.98]
    return (same[0].id,) if same else ()


def _is_known(step: _Step, action: str) -> bool:
    """Whether a memory of this very question already holds this very answer: nothing new to keep."""
    items = step.recall.items if step.recall else ()
    return any(item.body == action and item.key == step.key for item in items)
