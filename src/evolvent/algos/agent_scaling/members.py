"""Who answers in a scaling study: ways to choose among functions with one frozen model, or models that write.

A member is a kind and a persona; kinds of choosers are three scores that one model gives each function ``f`` of a
request ``x``:

    direct      mean log p(name of f | all descriptions, x)      over the tokens of the name
    channel     log p(x | description of f)                      noisy channel
    pointwise   log p(description of f | x) - log p(description of f)

Kinds of writers are models. At temperature 0 a member says the same however often it is asked; above it a chooser draws
from the softmax of its scores over the temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Env, Model, Task
from evolvent.core.seeding import rng, seed_tree
from evolvent.play.renderers import Text

CHANNELS = ("direct", "channel", "pointwise")
TOPOLOGIES = ("mesh", "ring", "hub")
PERSONAS = {
    "": "",
    "verifier": "You are a verifier. You check every condition before you answer.\n",
    "explorer": "You are an explorer. You consider unusual readings of what is asked.\n",
    "formalist": "You are a formalist. You go by exact definitions.\n",
    "estimator": "You are an estimator. You answer by what is most likely.\n",
    "decomposer": "You are a decomposer. You split what is asked into parts.\n",
}
"""The first is none, shared by all; the paper has five others for each data set."""
MEMBERS = "members"
"""The arm of all different members, each once, at temperature 0."""
Team = list[tuple[str, str]]
"""Members: kind and persona."""
Key = tuple[str, str, float, int, tuple[str, ...]]


@dataclass
class Asked:
    """A task, and what was said of it: nobody is asked the same twice.

    Attributes:
        said: rows as ``teams.table.read`` takes them, without question and agent; ``text`` is what others read.
    """

    env: Env
    task: Task
    models: Sequence[Model]
    seed: int
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _known: dict[Key, int] = field(default_factory=dict[Key, int])
    _scores: dict[tuple[str, str], tuple[np.ndarray, int]] = field(default_factory=dict[Any, Any])

    def ask(self, kind: str, persona: str, temperature: float, draw: int, peers: tuple[str, ...] = ()) -> int:
        """The place in ``said`` of a member's answer; ``peers``: what it reads of the others, and last of itself."""
        key = (kind, persona, temperature, draw if temperature else 0, peers)
        if key not in self._known:
            answer = self._chosen if kind in CHANNELS else self._written
            self._known[key] = len(self.said)
            row = answer(kind, persona, temperature, draw, peers)
            self.said.append({"member": f"{kind} {persona}".strip(), **row})
        return self._known[key]

    def _written(
        self, kind: str, persona: str, temperature: float, draw: int, peers: tuple[str, ...]
    ) -> dict[str, Any]:
        (model,) = [one for one in self.models if one.name == kind]
        turn = self.env.reset(self.task, 0)
        whose = ["Another agent"] * (len(peers) - 1) + ["You"]
        read = "".join(f"{who} answered: {' '.join(text.split())}\n" for who, text in zip(whose, peers, strict=False))
        prompt = PERSONAS[persona] + Text().first(self.env, turn, read + "\n" if read else "")
        seed = seed_tree(self.seed, self.task.id, kind, persona, draw)
        stops = {"stop": self.env.stop, "max_tokens": self.env.max_tokens}
        found = model.generate(prompt, temperature=temperature, seed=seed, **stops)
        turn = self.env.step(found.text)
        row = {"answer": str(turn.info.get("action", found.text)), "right": bool(turn.success), "text": found.text}
        known = {"logprob": min(0.0, float(found.logp.sum()))} if len(found.logp) else {}
        return {**row, "tokens": found.prompt_tokens + (len(found.token_ids) or found.sampled), **known}

    def _chosen(self, kind: str, persona: str, temperature: float, draw: int, peers: tuple[str, ...]) -> dict[str, Any]:
        item: Any = self.env.item(self.task)  # pyright: ignore[reportAttributeAccessIssue]
        names = [tool["name"] for tool in item.tools]
        if (kind, persona) not in self._scores:
            self._scores[kind, persona] = scores(self.models[0], kind, PERSONAS[persona], item.question, item.tools)
        logp_N, tokens = self._scores[kind, persona]
        place = int(logp_N.argmax())
        if temperature:
            p_N = np.exp(_normalised(logp_N / temperature))
            place = int(rng(self.seed, self.task.id, kind, persona, draw).choice(len(names), p=p_N / p_N.sum()))
        right = names[place] in [name for call in item.gold for name in call]
        text = f"{names[place]}: {item.tools[place].get('description', '')}"
        known = dict(zip(names, logp_N.round(6).tolist(), strict=True))
        return {"answer": names[place], "right": right, "text": text, "tokens": tokens, "logprob": known}


def scores(model: Any, kind: str, persona: str, request: str, tools: Sequence[Any]) -> tuple[np.ndarray, int]:
    """The log-softmax ``[N]`` of what a kind of chooser makes of each function, and the tokens that it took."""
    if not hasattr(model, "tokenize"):
        expected = "a model of llama.cpp in the process, such as smollm2-135m"
        raise BadInput("functions are scored by their tokens", got=model.name, expected=expected, where="--model")
    pairs = [(tool["name"], tool.get("description", "")) for tool in tools]
    length: Callable[[str], int] = lambda text: len(model.tokenize(text, special=False))  # noqa: E731
    if kind == "direct":
        listed = "\n".join(f"- {name}: {text}" for name, text in pairs)
        prompt = f"{persona}Functions:\n{listed}\n\nRequest: {request}\nThe function that serves this request is called"
        ends = [f" {name}" for name, _ in pairs]
        lengths = [length(end) for end in ends]
        return _normalised(model.score(prompt, ends) / np.array(lengths)), length(prompt) + sum(lengths)
    if kind == "channel":
        prompts = [f"{persona}A function, {name}: {text}\nA user who needs this function asks:" for name, text in pairs]
        found = np.array([model.score(prompt, [f" {request}"])[0] for prompt in prompts])
        return _normalised(found), sum(map(length, prompts)) + len(prompts) * length(request)
    ends, alone = [f" {text}" for _, text in pairs], f"{persona}The function that serves this request:"
    prompt = f"{persona}Request: {request}\nThe function that serves this request:"
    tokens = length(prompt) + length(alone) + 2 * sum(map(length, ends))
    return _normalised(model.score(prompt, ends) - model.score(alone, ends)), tokens


def _normalised(score_N: np.ndarray) -> np.ndarray:
    return score_N - score_N.max() - np.log(np.exp(score_N - score_N.max()).sum())


def teams(kinds: Sequence[str], n: int) -> dict[str, Team]:
    """The teams of n of each level, and the different members of all, the first of which is the single agent."""
    personas = [name for name in PERSONAS if name]
    found = {
        "L1": [(kinds[0], "")] * n,
        "L2": [(kinds[0], personas[i % len(personas)]) for i in range(n)],
        "L3": [(kinds[i % len(kinds)], "") for i in range(n)],
        "L4": [(kinds[i % len(kinds)], personas[i % len(personas)]) for i in range(n)],
    }
    found = {level: team for level, team in found.items() if len(kinds) > 1 or level in ("L1", "L2")}
    return found | {MEMBERS: list(dict.fromkeys(member for team in found.values() for member in team))}


def debated(asked: Asked, team: Team, temperature: float, rounds: int, topology: str) -> tuple[list[int], int]:
    """What a team says in the last round of a debate, of a hub only what its centre says; and the tokens of all rounds.

    In each round a member reads the latest texts of those it is connected with, and its own last: all (mesh), the one
    before and the one after it (ring), or the centre, member 0, who reads all (hub).
    """
    latest = [asked.ask(*member, temperature, i) for i, member in enumerate(team)]
    tokens = sum(asked.said[at]["tokens"] for at in latest)
    for number in range(1, rounds + 1):
        texts = [str(asked.said[at]["text"]) for at in latest]
        latest = [
            asked.ask(*one, temperature, number * len(team) + i, tuple(texts[j] for j in reads(topology, i, len(team))))
            for i, one in enumerate(team)
        ]
        tokens += sum(asked.said[at]["tokens"] for at in latest)
    return latest[:1] if topology == "hub" else latest, tokens


def reads(topology: str, i: int, n: int) -> list[int]:
    """Whose texts member ``i`` of ``n`` reads, its own last."""
    of = {"mesh": range(n), "ring": ((i - 1) % n, (i + 1) % n), "hub": range(n) if i == 0 else (0,)}[topology]
    return [*dict.fromkeys(j for j in of if j != i), i]
