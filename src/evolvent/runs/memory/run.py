"""What the memory systems of ``algos/`` share: their common settings, their stream and its evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from evolvent.core.config import at_least, from_json
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Env, Model, Task, distinct
from evolvent.core.seeding import seed_tree
from evolvent.envs.checked import CheckedEnv
from evolvent.evaluate.live import Live, count, interval
from evolvent.memory import embedders
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset_for
from evolvent.memory.rule import Policy, rule_of
from evolvent.play.experience import Use
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.workflow import SOLO, workflow
from evolvent.runs.memory.attempt import Agent, attempt
from evolvent.runs.memory.lifelong import Stream, run_stream, show, tasks_of
from evolvent.runs.memory.summary import rate
from evolvent.runs.opening import Wanted, answering, opened


@dataclass(frozen=True)
class Plan:
    """Settings of a run that do not belong to a memory system."""

    control: bool = True
    """Also measure a control: the stream's tasks once without memory."""
    agents: tuple[str, ...] = ()
    """Several agents on the same model, in speaking order, e.g. planner solver: NAME, or NAME<A+B to read only A and B;
    ": PROMPT" after it gives a prompt. The last one acts and has the memory. Empty = one agent."""
    transcript: bool = False
    """Agents also see the observations and answers of earlier turns."""
    answer: int = 0
    """Largest number of tokens of an answer; 0 = the environment's limit."""
    turns: int = 0
    """Largest number of turns of an attempt; 0 = the environment's limit."""
    tokens: int = 0
    """Largest number of sampled tokens of an attempt; 0 = no limit."""
    memory_chars: int = Use.budget_chars
    """Largest number of characters of memories in a prompt; what has no room is neither shown nor credited."""
    embedder: str = embedders.DEFAULT
    """What compares texts: all-MiniLM-L6-v2 (extra memory), hash (by words alone; nothing to install),
    openai:MODEL@URL, or a sentence-transformers model (extra lm)."""


@dataclass(frozen=True)
class MemoryConfig:
    """Settings that every memory system has; the defaults are the main job."""

    KIND = "memory"

    env: str = "analyst"
    """Environment with its options, e.g. analyst:reviewer_wrong=0.2,drift=0.5; see `evolvent list envs`. Or yours,
    file.py[:NAME], which `evolvent check env file.py` tries first."""
    model: str = "qwen2.5-coder-1.5b"
    """Language model: a name of `evolvent list models` or a GGUF file (for long prompts with ,n_ctx=8192 after it),
    remote:NAME@URL, train:NAME (in torch), a function of yours (file.py:answer), or none (admissible commands)."""
    seed: int = 0
    """Random seed of tasks, their order, reviewer, exploration and sampling."""
    passes: int = 2
    """Passes over the stream of training tasks."""
    train: int = 36
    """Training tasks in the stream."""
    heldout: int = 24
    """Held-out tasks, evaluated before and after learning and never learned from."""
    use: Literal["auto", "context", "values", "both", "none"] = "auto"
    """How memories act: context = worked examples in the prompt; values = action values (PUCT over admissible
    commands); both; auto = values where commands are listed, context elsewhere."""
    lessons: tuple[str, ...] = ("corrections", "successes")
    """What is written into the memory: corrections, successes, failures (what to avoid), procedures (in the model's
    words)."""
    temperature: float = 0.0
    """Sampling temperature of free text; 0 = greedy."""
    value_gate: float = 0.85
    """Cosine similarity above which experience from another state counts in action values; the scale depends on the
    embedder."""
    plan: Plan = Plan()


@dataclass(frozen=True)
class RankedConfig(MemoryConfig):
    """Settings of a memory that ranks the most similar items; the defaults are those of MemRL."""

    k: int = Policy.k
    """Memories retrieved into the prompt, at most (top k)."""
    pool: int = Policy.pool
    """Candidates kept by similarity before values rank them (k1)."""
    gate: float | None = Policy.gate
    """Cosine similarity that a candidate must exceed; the scale depends on the embedder."""


LEAST = {"train": 1, "passes": 1, "attempts": 1, "heldout": 0, "temperature": 0, "memory_chars": 0}
"""The least value of settings; a run with nothing to learn from, or to learn, has no result."""
C = TypeVar("C", bound=MemoryConfig)
Summary = Callable[..., dict[str, Any]]


def memory_system(
    name: str, kind: type[C], *, rule: str | Callable[[C], str] = "", attempts: Callable[[C], int] = lambda config: 1
) -> tuple[Summary, Summary]:
    """``run`` and ``evaluate`` of a memory system of ``algos/``.

    Settings that a policy has too are the policy's. ``rule`` is that of the memory (``memory/rules``), where it is not
    called as the system; "none" acts without. ``attempts`` are independent ones per task (pass@k).
    """

    def policy(config: C) -> Policy:
        return preset_for((rule(config) if callable(rule) else rule) or name, config)

    def run(
        config: C, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
    ) -> dict[str, Any]:
        """Run the stream and return the summary; a ``model`` that is loaded may be shared by several runs."""
        with _opened(config, policy(config), folder, live, resume, model) as (env, agent, memory):
            stream = Stream(
                algo=name,
                seed=config.seed,
                passes=config.passes,
                train=config.train,
                heldout=config.heldout,
                control=config.plan.control and agent.use.how != "none",
                attempts=attempts(config),
            )
            return run_stream(stream, env, agent, memory, folder, live, resume=resume)

    def evaluate(folder: RunFolder, live: Live, episodes: int | None = None) -> dict[str, Any]:
        """Held-out success of what a finished run learned, its memory frozen.

        The first tasks are those of the run's own evaluation; further ones are new.
        """
        config = from_json(kind, folder.config)
        with _opened(config, policy(config), folder, live, None, None) as (env, agent, memory):
            env.advance(config.passes)
            tasks = distinct(env.tasks("heldout", episodes or config.heldout, config.seed))
            return judged(env, agent, memory, tasks, config.seed, live, attempts(config))

    return run, evaluate


def judged(
    env: Env, agent: Agent, memory: Memory, tasks: Sequence[Task], seed: int, live: Live, attempts: int = 1
) -> dict[str, Any]:
    """Success at tasks, in any of some attempts, with a memory that is frozen: nothing explored, left out, learned."""
    live.phase(f"Held-out tasks, memory frozen ({len(tasks)})")
    rows: list[dict[str, Any]] = []
    for index, task in enumerate(tasks):
        done = attempt(env, task, agent, memory, seed=seed_tree(seed, "eval", task.id), learn=False)
        for k in range(1, attempts):
            if done.success:
                break
            again = attempt(env, task, agent, memory, seed=seed_tree(seed, "eval", task.id, k), learn=False)
            done = again if again.error is None else done  # what broke takes nothing from what was judged
        rows.append(
            {"task": task.id, "kind": task.kind, "success": int(done.success), "valid": int(done.episode.valid)}
        )
        show(live, index + 1, len(tasks), task, done)
    result = {"name": "held-out success", **rate(rows), "tasks": rows}
    if broken := len(rows) - result["n"]:
        live.note(f"{count(broken, 'attempt')} broke, not counted")
    live.note(f"held-out success: {result['successes']} of {result['n']}, {interval(result['rate'], result['ci95'])}")
    return result


@contextmanager
def _opened(
    config: MemoryConfig, policy: Policy, folder: RunFolder, live: Live, resume: bool | None, model: Model | None
) -> Iterator[tuple[Env, Agent, Memory]]:
    plan = config.plan
    # all of it before the model is loaded
    at_least(config, LEAST)
    team = workflow(plan.agents) if plan.agents else SOLO
    budget = Budget(turns=plan.turns, tokens=plan.tokens, answer=plan.answer)
    how = "none" if rule_of(policy).candidates == "none" else config.use
    if config.model == "none" and model is None and how == "both":  # nobody reads
        how = "values"
    use = Use(how=how, lessons=config.lessons, value_gate=config.value_gate, budget_chars=plan.memory_chars)
    wanted = Wanted(policy, plan.embedder, compares=how != "none")
    opening = opened(config, folder, live, wanted, resume=resume, model=model, prepare=lambda env: tried(env, config))
    with opening as (env, model, memory, _):
        engine, renderer = answering(model, config.temperature)
        settings = AttemptSettings(renderer, team, budget, plan.transcript)
        agent = Agent(engine, "none" if model is None else model.name, use, settings)
        yield env, agent, memory


def tried(env: Env, config: Any) -> None:
    """Of an environment of yours: its tasks, and how the first one begins; before a model is loaded."""
    if isinstance(env, CheckedEnv):
        train, _ = tasks_of(cast("Env", env), config.train, config.heldout, config.seed)
        env.reset(train[0], train[0].seed)
