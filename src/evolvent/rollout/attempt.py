"""One attempt at one task: recall → act → step → credit → learn, recorded as an ``Episode``."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Model, Task, Turn
from evolvent.core.seeding import rng, seed_tree
from evolvent.formulas.returns import discounted
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.memory.recall import Recall, Recalled
from evolvent.rollout.act import Chosen, choose_by_value, command_prior, command_values, write_answer
from evolvent.rollout.players import keep_call


@dataclass(frozen=True)
class Agent:
    """What acts and how it uses and writes memory."""

    model: Model | None
    """The language model; ``None`` is a uniform prior over admissible commands ("values without the model")."""
    use: str = "context"
    """"context": shown memories are worked examples in the prompt; "values": their learned values choose among
    admissible commands together with the model's prior (PUCT); "both"; "none"; "auto": values where there are
    admissible commands, context where any text is an action."""
    lessons: tuple[str, ...] = ("corrections", "successes")
    """What is written: "corrections", "successes", "failures" (what to avoid), "procedures" (written by the model)."""
    temperature: float = 0.0
    """Sampling temperature of free text and of the choice among commands when values do not choose."""
    prior_temperature: float = 6.0
    """Flattens the model's prior over commands when values choose (summed log-probabilities are peaked)."""
    exploration: float = 0.6
    """c of PUCT."""
    value_gate: float = 0.85
    """Similarity at which the kernels over situations and commands reach zero: a scale of the embedder's, this one
    suits all-MiniLM-L6-v2 (at .6 every situation of a small game is the same situation: LOG.md)."""
    value_start: float = 0.3
    """Value of a command that no experience speaks about, in units of reward."""
    discount: float = 0.9
    """Per step: a memory shown at step t earns the discounted reward from t on."""
    budget_chars: int = 6000
    """Characters of memory text allowed in a prompt; what does not fit is neither shown nor credited."""


@dataclass(frozen=True)
class Attempt:
    """What came of an attempt, for the stream's metrics and live line; ``situation`` is where it began."""

    episode: Episode
    success: bool
    reward: float
    valid: bool
    situation: str
    action: str
    shown: tuple[Recalled, ...]
    omitted: tuple[Recalled, ...]
    lesson: str
    prompt_tokens: int
    tokens: int
    seconds: float


@dataclass
class _Step:
    key: str
    chosen: Chosen
    recall: Recall | None


def attempt(
    env: Env, task: Task, agent: Agent, memory: Memory | None, *, seed: int, learn: bool = True, repeat: bool = False
) -> Attempt:
    """Try ``task`` once; with ``learn`` the outcome is settled and lessons are written.

    Args:
        env: the environment; its reward for the whole attempt lies in ``env.reward_range``.
        task: what to try.
        agent: model and settings.
        memory: where experiences are recalled from and written to; ``None`` acts without.
        seed: makes sampling, exploration and the reviewer reproducible.
        learn: ``False`` evaluates: no exploration, no omission, nothing settled or written.
        repeat: whether the agent met this very task before (recorded for reports).
    """
    started = time.perf_counter()
    episode = Episode(task.id, env=env.name, seed=seed, meta={"kind": task.kind, "split": task.split, "repeat": repeat})
    turn = env.reset(task, seed)
    if agent.use == "auto":
        agent = replace(agent, use="context" if turn.admissible is None else "values")
    steps: list[_Step] = []
    keep_call(episode, turn)
    while not turn.done:
        # ACT
        step = _act(env, turn, agent, memory, seed=seed_tree(seed, len(steps)), learn=learn)
        _record(episode, turn, step)
        steps.append(step)
        # STEP
        before, turn = turn, env.step(step.chosen.action)
        keep_call(episode, turn)
        if turn.follows:
            said = f"{before.observation}\n{env.labels[1]}: {step.chosen.action}"
            turn = replace(turn, observation=f"{said}\n{turn.observation}")
        episode.add_reward(turn.reward)
    episode.end(terminated=turn.terminated, truncated=turn.truncated, success=turn.success, valid=turn.valid)
    lesson = ""
    if learn and memory is not None and turn.valid and agent.use != "none":
        lesson = _learn(env, task, agent, memory, steps, turn, episode.rewards_T, seed)
    return _summarise(episode, turn, steps, lesson, time.perf_counter() - started)


def _act(env: Env, turn: Turn, agent: Agent, memory: Memory | None, *, seed: int, learn: bool) -> _Step:
    key = turn.key or turn.observation
    recall = None
    if memory is not None and agent.use != "none":
        policy = preset("neighbours", gate=agent.value_gate) if agent.use == "values" else None
        recall = memory.recall(key, policy=policy, seed=seed, frozen=not learn, is_test=not learn)
    items = recall.items if recall else ()
    if turn.admissible is None:
        if agent.model is None:
            raise BadInput(
                "this environment wants free text, which only a model can write",
                got="model none", expected="a language model", where=env.name, do="see `evolvent list models`",
            )  # fmt: skip
        context = items if agent.use in ("context", "both") else ()
        chosen = write_answer(
            env, agent.model, turn, context,
            budget_chars=agent.budget_chars, temperature=agent.temperature, seed=seed,
        )  # fmt: skip
    else:
        chosen = _choose_command(env, turn, agent, memory, items, seed=seed, learn=learn)
    if recall is not None and memory is not None:
        shown = chosen.shown if agent.use != "values" else _same_experience(items, chosen.action)
        memory.shown(recall, shown)
        chosen = Chosen(chosen.action, shown, chosen.completion, chosen.seconds)
    return _Step(key, chosen, recall)


def _choose_command(
    env: Env, turn: Turn, agent: Agent, memory: Memory | None, items: tuple[Recalled, ...], *, seed: int, learn: bool
) -> Chosen:
    started = time.perf_counter()
    commands = turn.admissible or ()
    draws = rng(seed, "command")
    by_value = agent.use in ("values", "both") and memory is not None
    context = items if agent.use in ("context", "both") else ()
    prior_N, shown = command_prior(
        env, agent.model, turn, context,
        budget_chars=agent.budget_chars, temperature=agent.prior_temperature if by_value else agent.temperature or 1.0,
    )  # fmt: skip
    if by_value and memory is not None:
        value_N, count_N = command_values(
            items, commands, memory.embedder, gate=agent.value_gate, start=agent.value_start
        )
        exploration = agent.exploration if learn else agent.exploration / 4
        index = choose_by_value(prior_N, value_N, count_N, exploration=exploration, rng=draws)
    else:
        index = int(draws.choice(len(commands), p=prior_N))
    return Chosen(commands[index], shown, None, time.perf_counter() - started)


def _same_experience(items: tuple[Recalled, ...], action: str) -> tuple[str, ...]:
    """The recalled experience of this very action in (nearly) this very situation, if there is one."""
    same = [item for item in items if item.body == action and item.similarity > 0.98]
    return (same[0].id,) if same else ()


def _record(episode: Episode, turn: Turn, step: _Step) -> None:
    episode.observe(turn.key or turn.observation)
    if step.recall is not None:
        omitted = [item.id for item in step.recall.omitted]
        selected = (*step.recall.items, *step.recall.omitted)
        known = {*step.chosen.shown, *omitted}
        chances = {item.id: item.propensity for item in selected if item.id in known and item.propensity > 0.0}
        episode.recall(step.recall.id, step.chosen.shown, omitted=omitted, propensity=chances)
    done = step.chosen.completion
    if done is None:
        episode.act(step.chosen.action)
    else:
        episode.act(step.chosen.action, token_ids=done.token_ids, logp=done.logp)


def _learn(
    env: Env, task: Task, agent: Agent, memory: Memory, steps: list[_Step], turn: Turn, rewards_T: np.ndarray, seed: int
) -> str:
    # CREDIT
    # a score that was gained may be lost again, so what is still to come can leave the range of a whole attempt
    returns_T = np.clip(discounted(rewards_T, gamma=agent.discount), *env.reward_range)
    # LEARN
    children = [
        _write(env, task, agent, memory, step, turn, float(g), seed) for step, g in zip(steps, returns_T, strict=True)
    ]
    for step, g, (child, _) in zip(steps, returns_T, children, strict=True):
        if step.recall is not None:
            memory.settle(step.recall, float(g), source="env", action=step.chosen.action, child=child)
    return children[-1][1] if children else ""


def _write(
    env: Env, task: Task, agent: Agent, memory: Memory, step: _Step, turn: Turn, value: float, seed: int
) -> tuple[str | None, str]:
    """Write what this step taught; returns the memory's id and a word for the live line."""
    parents = step.chosen.shown
    action = str(turn.info.get("action", step.chosen.action)) if turn.admissible is None else step.chosen.action
    if agent.use == "values" or (agent.use == "both" and turn.admissible is not None):
        if step.chosen.shown:  # a known experience: settling moves its value
            return None, ""
        polarity = "success" if turn.success else "neutral"
        return memory.remember(step.key, action, kind="experience", polarity=polarity, value=value, parents=parents), ""
    if turn.success and _is_known(step, action):
        return None, ""
    if turn.success and "procedures" in agent.lessons and agent.model is not None:
        body = _write_procedure(env, agent.model, step)
        return memory.remember(step.key, body, kind="script", polarity="success", parents=parents), "procedure"
    if turn.success and "successes" in agent.lessons and action:
        return memory.remember(step.key, action, polarity="success", source="self", parents=parents), "success kept"
    if not turn.success and "corrections" in agent.lessons:
        correction = env.review(task, seed_tree(seed, "review"))
        if correction is not None:
            new = memory.remember(
                step.key, correction.body, polarity="neutral", source=correction.source, parents=parents
            )
            return new, "corrected"
    if not turn.success and "failures" in agent.lessons and action:
        return memory.remember(step.key, action, polarity="failure", source="self", parents=parents), "failure kept"
    return None, ""


def _is_known(step: _Step, action: str) -> bool:
    """Whether a memory of this very question already holds this very answer: nothing new to keep."""
    items = step.recall.items if step.recall else ()
    return any(item.body == action and item.key == step.key for item in items)


def _write_procedure(env: Env, model: Model, step: _Step) -> str:
    """A short procedure in the model's words, followed by the solution as it was (MemP: script and trajectory)."""
    question, answer = env.labels
    prompt = (
        f"{question}: {step.key}\n{answer}: {step.chosen.action}\n\n"
        "The same in general terms, as three short steps that would solve similar questions:\n1."
    )
    done = model.generate(prompt, max_tokens=80, temperature=0.0, stop=("\n\n", "\n4."))
    return f"{step.chosen.action}\n-- steps: 1. {' '.join(done.text.split())}"


def _summarise(episode: Episode, turn: Turn, steps: list[_Step], lesson: str, seconds: float) -> Attempt:
    done = [step.chosen.completion for step in steps if step.chosen.completion is not None]
    last = steps[-1] if steps else None
    recall = last.recall if last else None
    by_id = {item.id: item for item in recall.items} if recall else {}
    return Attempt(
        episode=episode,
        success=turn.success,
        reward=episode.total_reward,
        valid=turn.valid,
        situation=steps[0].key if steps else "",
        action=last.chosen.action if last else "",
        shown=tuple(by_id[i] for i in (last.chosen.shown if last else ()) if i in by_id),
        omitted=recall.omitted if recall else (),
        lesson=lesson,
        prompt_tokens=sum(c.prompt_tokens for c in done),
        tokens=sum(len(c.token_ids) for c in done),
        seconds=seconds,
    )
