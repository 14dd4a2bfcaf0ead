"""MUSE: a guide that the model writes of what worked, read by name; what is checked and fails is tried once more.

Paper: arXiv 2510.08002 (ACL 2026 Findings). The model stays as it is; there are no embeddings and no values. Three
stores, all text:

    strategic    patterns of what got the agent out of trouble, at most 10; in every prompt
    procedural   application -> guide item -> how it is done; a prompt has the names, the text is fetched by exact name
    tool         tool -> instruction, which is appended to every result of that tool

    execute      read the guide (it must be consulted), act at temperature .5, checked by what the world says of it
    checked      right: write a guide item, an item of the same name of that application is overwritten
                 wrong: say why in a sentence, and try once more, at temperature 1.5 and without the guide;
                 if that is wrong too, a reviewer's answer, where there is one, makes the guide item
    after        what a second try solved is a pattern; a tool whose call failed gets an instruction

An application is a kind of task here (``Task.kind``). Guide items hold what was done with the model's steps. What was
read stands on receipts that are settled with the outcome, so `evolvent memory explain` tells it; no value moves.

Not repeated from the released code: stores are not rewritten as a whole by a model, which may lose entries (an item is
a version of a memory, the old one stays in the history); a write is a transaction; a damaged store is an error, not an
empty one; what an answer should have held and does not is not kept.

Deviations: a task of our worlds is one subtask, so nothing is planned or planned again, and a retry begins the task
anew. The check is the world's outcome and its words: the released code shows its reflecting agent the benchmark's score
too, where there is one, beside up to 8 actions of its own for each of 2, 4 or 6 checks. So only the stream has second
tries, and its success is that of two; a held-out task is tried once, with the guide. Guide items are read by a member
of its own before every decision, at most ``read`` of them; it and the one that writes see an example of ours. Patterns
and items are not merged by a model: of patterns the oldest makes room. Tool descriptions are those of the task's file;
instructions alone are learned. Settings that the paper does not have (sizes, lengths) are ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from evolvent.algos.muse.guided import PROCEDURE, STRATEGY, TEAM, TOOL, Analysis, Guided, Instructed, Reading
from evolvent.core.config import at_least, from_json
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Engine, Env, Model, Renderer, distinct
from evolvent.evaluate.live import Live
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.play.experience import Use
from evolvent.play.settings import AttemptSettings
from evolvent.play.workflow import SOLO
from evolvent.runs.memory.attempt import Agent, Attempt
from evolvent.runs.memory.lifelong import Item, Stream, run_stream
from evolvent.runs.memory.run import judged, tried
from evolvent.runs.opening import Wanted, answering, opened

PAPER = "arXiv 2510.08002"
LEVELS = ()
STATUS = "lightly tested"


@dataclass(frozen=True)
class Config:
    """Settings of MUSE; the temperatures and the single retry are the paper's."""

    KIND = "memory"

    env: str = "analyst"
    """Environment with its options; see `evolvent list envs`."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model, which acts, reads and writes the guide; see `evolvent list models`."""
    seed: int = 0
    """Random seed of tasks, their order and sampling."""
    passes: int = 2
    """Passes over the stream of training tasks."""
    train: int = 36
    """Training tasks in the stream."""
    heldout: int = 24
    """Held-out tasks, tried before and after learning, once each."""
    control: bool = True
    """Also try the stream's tasks once without memory."""
    temperature: float = 0.5
    """Sampling temperature of first tries; commands of a list are drawn at it."""
    retry: bool = True
    """Try a task of the stream once more where the check failed."""
    retry_temperature: float = 1.5
    """Sampling temperature of second tries, which have no guide."""
    read: int = 2
    """Guide items read before a decision, at most."""
    words: int = 100
    """Tokens of what is written into a store, at most."""
    chars: int = 4000
    """Characters of guide items in a prompt, at most; what does not fit is neither shown nor recorded."""

    def __post_init__(self) -> None:
        at_least(
            self,
            {
                "train": 1,
                "passes": 1,
                "heldout": 0,
                "read": 1,
                "words": 1,
                "chars": 0,
                "temperature": 0,
                "retry_temperature": 0,
            },
        )


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """Run the stream; returns the summary. ``model``: one that is loaded, shared by several runs."""
    stream = Stream("muse", config.seed, config.passes, config.train, config.heldout, config.control, 1 + config.retry)
    with _opened(config, folder, live, resume, model) as (env, muse, memory):
        summary = run_stream(
            stream, env, muse.agent(guide=False), memory, folder, live, resume=resume, chosen=muse.for_try
        )
        kinds = [item.kind for item in memory.items()]
        summary["stores"] = {kind: kinds.count(kind) for kind in (STRATEGY, PROCEDURE, TOOL)}
        folder.write_summary(summary)
    return summary


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
    """Held-out success with the guide of a finished run, frozen."""
    config = from_json(Config, folder.config)
    with _opened(config, folder, live, None, None) as (env, muse, memory):
        env.advance(config.passes)
        tasks = distinct(env.tasks("heldout", episodes or config.heldout, config.seed))
        return judged(env, muse.agent(guide=True), memory, tasks, config.seed, live)


@contextmanager
def _opened(
    config: Config, folder: RunFolder, live: Live, resume: bool | None, model: Model | None
) -> Iterator[tuple[Env, Muse, Memory]]:
    # nothing is compared: texts are fetched by name
    policy, writes = preset("rag", k=config.read), "the guide is written by a model"
    wanted = Wanted(policy, "hash", compares=False, writes=writes)
    opening = opened(config, folder, live, wanted, resume=resume, model=model, prepare=lambda env: tried(env, config))
    with opening as (env, model, memory, _):
        assert model is not None
        first, renderer = answering(model, config.temperature)
        again, _ = answering(model, config.retry_temperature)
        yield env, Muse(config, model.name, memory, first, again, renderer), memory


# ------------------------------------------------------------------------------------------------ who tries
@dataclass
class Muse:
    """The agents of a run: without memory, with the guide, and for a second try."""

    config: Config
    model: str
    memory: Memory
    first: Engine
    again: Engine
    renderer: Renderer
    analysis: Analysis = field(default_factory=Analysis)

    def for_try(self, place: Item, tries: Sequence[Attempt]) -> Agent:
        """The agent of the next try at a task of the stream, or of those held out."""
        return self.agent(guide=place.phase in ("stream", "after"), retry=bool(tries))

    def agent(self, *, guide: bool, retry: bool = False) -> Agent:
        """One that has the stores or not; a second try has patterns, instructions and the analysis, but no guide."""
        if not guide:
            return Agent(self.first, self.model, Use(how="none"), AttemptSettings(self.renderer, SOLO))
        if not retry:
            self.analysis.text = ""
        items = self.memory.items()
        tools = {item.key: item.body for item in items if item.kind == TOOL}
        # where nothing is written nobody reads
        team = TEAM if not retry and any(item.kind == PROCEDURE for item in items) else SOLO
        settings = AttemptSettings(self.renderer, team, world=lambda env: cast("Env", Instructed(env, tools)))
        how = Reading(self.config.read, self.config.chars, self.config.words)
        last = retry or not self.config.retry
        made = functools.partial(Guided, how=how, analysis=self.analysis, retry=retry, last=last)
        return Agent(self.again if retry else self.first, self.model, Use(), settings, made)
