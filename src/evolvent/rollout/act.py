"""How a model and a memory choose an action: in context, by likelihood of admissible commands, or by learned values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.protocols import Completion, Embedder, Env, Model, Turn
from evolvent.formulas.selection import puct, softmax
from evolvent.memory.recall import Recalled


@dataclass(frozen=True)
class Chosen:
    """An action with what led to it: ``shown`` are the ids of the memories that were really in the prompt."""

    action: str
    shown: tuple[str, ...] = ()
    completion: Completion | None = None
    seconds: float = 0.0


def render(env: Env, items: Sequence[Recalled], budget_chars: int) -> tuple[str, tuple[str, ...]]:
    """The memories as worked examples, best last (nearest to the question), within a character budget.

    Returns the text and the ids that survived the budget. Memory text is data: it is quoted as an example of the
    environment's own form, never placed among the instructions.
    """
    question, answer = env.labels
    kept: list[str] = []
    blocks: list[str] = []
    left = budget_chars
    for item in items:
        label = f"{answer} (wrong, avoid)" if item.polarity == "failure" else answer
        block = f"{question}: {item.key}\n{label}: {item.body}\n\n"
        if len(block) > left:
            continue
        left -= len(block)
        kept.append(item.id)
        blocks.append(block)
    return "".join(reversed(blocks)), tuple(kept)


def write_answer(
    env: Env, model: Model, turn: Turn, items: Sequence[Recalled], *, budget_chars: int, temperature: float, seed: int
) -> Chosen:
    """Free text: the model completes the prompt after the shown memories."""
    examples, shown = render(env, items, budget_chars)
    question, answer = env.labels
    prompt = f"{env.instructions}{examples}{question}: {turn.observation}\n{answer}:"
    done = model.generate(prompt, max_tokens=env.max_tokens, temperature=temperature, seed=seed, stop=env.stop)
    return Chosen(done.text.strip(), shown, done, done.seconds)


def command_prior(
    env: Env, model: Model | None, turn: Turn, items: Sequence[Recalled], *, budget_chars: int, temperature: float
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The model's distribution over the admissible commands, float64 ``[N]``; uniform where there is no model."""
    commands = _admissible(turn)
    if model is None:
        return np.full(len(commands), 1.0 / len(commands)), ()
    examples, shown = render(env, items, budget_chars)
    question, answer = env.labels
    prompt = f"{env.instructions}{examples}{question}: {turn.key or turn.observation}\n{answer}:"
    logp = model.score(prompt, [f" {command}\n" for command in commands])
    return softmax(logp, temperature), shown


def command_values(
    items: Sequence[Recalled], commands: Sequence[str], embedder: Embedder, *, gate: float, start: float
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel-averaged value and visit count of each command from experiences of similar situations.

    The weight of an experience is the product of two kernels, over the situation and over the command's text, times
    its number of visits: q = Σ w q_i / Σ w, shrunk to ``start`` by half a visit (Memento's estimator, Eq. of Q_EC, with
    a product kernel). Returns float64 ``[N]`` twice.
    """
    value_N = np.full(len(commands), start)
    count_N = np.zeros(len(commands))
    if not items:
        return value_N, count_N
    commands_ND = embedder.embed(list(commands))
    bodies_MD = embedder.embed([item.body for item in items])
    kernel_M = _kernel(np.array([item.similarity for item in items]), gate)
    visits_M = np.array([max(1, item.n) for item in items], dtype=float)
    weight_NM = _kernel(commands_ND @ bodies_MD.T, gate) * (kernel_M * visits_M)
    count_N = weight_NM.sum(1)
    value_N = (weight_NM @ np.array([item.value for item in items]) + 0.5 * start) / (count_N + 0.5)
    return value_N, count_N


def choose_by_value(
    prior_N: np.ndarray, value_N: np.ndarray, count_N: np.ndarray, *, exploration: float, rng: np.random.Generator
) -> int:
    """PUCT over learned values with the model's prior, mixed with 10 % uniform so that nothing is ruled out."""
    prior_N = 0.9 * prior_N + 0.1 / len(prior_N)
    score_N = puct(value_N, prior_N, count_N, exploration)
    return int(np.argmax(score_N + 1e-6 * rng.random(len(prior_N))))


def _admissible(turn: Turn) -> tuple[str, ...]:
    return turn.admissible or ()


def _kernel(similarity: np.ndarray, gate: float) -> np.ndarray:
    return np.maximum(0.0, (similarity - gate) / (1.0 - gate)) ** 2
