"""One attempt with a memory that learns from it at once, and its metrics: one step of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evolvent.core.episode import Episode
from evolvent.core.errors import EnvError
from evolvent.core.protocols import Completion, Engine, Env, Request, Task
from evolvent.memory.memory import Memory
from evolvent.memory.recall import Recalled
from evolvent.play.attempt import play
from evolvent.play.experience import Experience, Learns, Use
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players


@dataclass(frozen=True)
class Agent:
    """What acts, how attempts go, and how it uses and writes memory."""

    engine: Engine
    """Answers requests: ``models.served.acting`` makes one of any model, ``models.language.acting`` of one in torch."""
    name: str = "none"
    """Of the model, for reports."""
    use: Use = field(default_factory=Use)
    """Of the memory."""
    settings: AttemptSettings = field(default_factory=lambda: AttemptSettings(Text()))
    """How attempts go: prompts in a form that the engine reads, one agent or several, limits."""
    experience: Callable[..., Learns] = Experience
    """Makes the part of an attempt that recalls and learns: ``Experience``, or what is called as it is."""


@dataclass(frozen=True)
class Attempt:
    """What came of an attempt, for the stream's metrics and live line; ``situation`` is where it began.

    ``learn`` settles what was recalled and writes the lessons (one transaction); until then the memory has the
    receipts of the attempt and nothing else of it.
    """

    episode: Episode
    learn: Callable[[], None]
    situation: str
    action: str
    shown: tuple[Recalled, ...]
    recalled: int
    """Memories found for the last decision; what is too long for a prompt is not shown."""
    omitted: tuple[Recalled, ...]
    lesson: str
    tokens: int
    prompt_tokens: int
    seconds: float
    error: EnvError | None = None
    """The world broke, and not the agent: the attempt does not count, and nothing is learned from it."""

    @property
    def success(self) -> bool:
        """Whether the environment called it one."""
        return bool(self.episode.success)


def attempt(env: Env, task: Task, agent: Agent, memory: Memory | None, *, seed: int, learn: bool = True) -> Attempt:
    """Try ``task`` once; what was learned is written by ``learn`` of what is returned.

    Without a memory it acts without. The seed is that of environment, sampling, exploration and reviewer. Not to
    ``learn`` evaluates: no exploration, no omission, nothing to settle or write.
    """
    started, counted = time.perf_counter(), Counting(agent.engine)
    experience = agent.experience(env, task, memory, agent.use, seed=seed, learns=learn)
    player = play(env, task, agent.settings, seed=seed, group=task.id, world=seed, experience=experience)
    try:
        (episode,) = run_players([player], counted)
    except EnvError as broke:  # what answers may be a world of its own
        episode = broke
    error = episode if isinstance(episode, EnvError) else None
    if isinstance(episode, EnvError):
        episode = Episode(task.id, env=env.name, seed=seed, group=task.id, meta={"kind": task.kind})
        episode.end(truncated=True, valid=False, stop="broken")
    lesson = "" if error else experience.reflect(episode, agent.engine, agent.settings.renderer)
    steps = experience.steps
    last = steps[-1] if steps else None
    recall = last.recall if last else None
    by_id = {item.id: item for item in recall} if recall else {}
    return Attempt(
        episode=episode,
        learn=experience.learn,
        situation=steps[0].key if steps else "",
        action=last.action if last else "",
        shown=tuple(by_id[i] for i in (last.shown if last else ()) if i in by_id),
        recalled=len(by_id),
        omitted=() if recall is None else recall.omitted,
        lesson=lesson,
        tokens=episode.n_tokens or counted.sampled,
        prompt_tokens=counted.prompt_tokens,
        seconds=time.perf_counter() - started,
        error=error,
    )


@dataclass
class Counting:
    """An engine whose prompt tokens, and sampled tokens without ids, are counted."""

    engine: Engine
    prompt_tokens: int = 0
    sampled: int = 0

    def reset(self) -> None:
        """Count anew."""
        self.prompt_tokens = self.sampled = 0

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask it."""
        answers = self.engine(requests)
        self.prompt_tokens += sum(answer.prompt_tokens for answer in answers)
        self.sampled += sum(answer.sampled for answer in answers)
        return answers
