"""The two workflows whose slots are exchanged, and who is asked in them.

    plan = PLAN(task)
    up to steps times:
        thought = REASON(task, plan, history, reflection)
        act     = ACT(task, plan, history, thought)
        reflection = REFLECT(task, plan, history) where the act ended the task wrongly, which then begins again

What a history says of a wrong answer is that it was wrong, or the error that the environment reports; never the right
one. An implementation is looked up where it is used, so that a slot that no run gets to is known for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Completion, Env, Model, Task, Turn, distinct
from evolvent.memory import embedders
from evolvent.teams.spend import spent

WORKFLOW = ("plan", "reason", "act", "reflect")
ANALYST = {"memory": ("none", "lessons"), "schema": ("short", "full"), "repair": ("off", "on")}
CORRECTIONS = 60
CUES = {
    "plan": "Plan: to find the {answer},",
    "reason": "Thought: in this {question},",
    "reflect": "Reflection: it was wrong because",
}
"""How what is no answer begins: a model that continues texts writes it where a request would only be repeated."""
_LINE = ("\n",)


def comment(number: int) -> str:
    """A line that says nothing about any task."""
    return f"(Form {number}, page {1 + number * 7 % 5} of 6.)\n"


@dataclass
class Asked:
    """Models by name, none of which is asked the same twice; every answer is told to the study with its first cost."""

    models: dict[str, Model]
    _known: dict[Any, Completion] = field(default_factory=dict[Any, Completion])

    def __call__(self, model: str, prompt: str, max_tokens: int, stop: Sequence[str]) -> str:
        """The greedy answer, without blanks around it."""
        key = model, prompt, max_tokens, tuple(stop)
        saved_s = self._known[key].seconds if key in self._known else 0.0
        if key not in self._known:
            self._known[key] = self.models[model].generate(prompt, max_tokens=max_tokens, temperature=0.0, stop=stop)
        said = self._known[key]
        sampled = len(said.token_ids) or said.sampled
        spent(said.prompt_tokens + sampled if said.prompt_tokens else None, saved_s=saved_s)
        return said.text.strip()


def worked(
    env: Env, task: Task, parts: Mapping[str, Any], ask: Asked, weak: str, *, steps: int, oracle_stop: bool, line: int
) -> dict[str, Any]:
    """The published workflow on a task: what was said, and whether the last answer was right.

    ``line``: tokens of what is no answer; ``weak``: who speaks in a slot that is not exchanged.
    """
    turn, (question, answer) = env.reset(task, task.seed), env.labels
    head = f"{env.instructions}{parts.get('placebo') or ''}{question}: {turn.observation}\n"
    said: list[str] = []

    def says(slot: str, context: str) -> str:
        """What a slot says, begun by its cue; an act is begun as the examples are, by the situation."""
        cue, tokens, stop = f"\n{question}: {turn.observation}\n{answer}:", env.max_tokens, env.stop
        if slot != "act":
            cue, tokens, stop = CUES[slot].format(question=question.lower(), answer=answer.lower()), line, _LINE
        said.append(ask(parts.get(slot, weak), f"{head}{context}{cue}", tokens, stop))
        return f"{cue.splitlines()[-1]} {said[-1]}\n"

    history, reflection = says("plan", ""), ""
    for step in range(steps):
        thought = says("reason", history + reflection)
        history, reflection = history + says("act", history + thought), ""
        turn = _stepped(env, said[-1])
        error = str(turn.info.get("error") or "")
        history += f"{turn.observation if error or not turn.done else 'This is wrong.'}\n"
        if turn.done:
            if turn.success or not (oracle_stop or error) or step == steps - 1:
                break
            reflection = says("reflect", history)
            turn = env.reset(task, task.seed)
    return {"right": turn.success, "said": said}


def analysed(
    env: Any, task: Task, parts: Mapping[str, Any], ask: Asked, weak: str, known: Callable[[str], str] | None
) -> dict[str, Any]:
    """A query for a question, and another one where it failed and that is on; whether the last one was right."""
    model, (question, answer) = parts.get("model", weak), env.labels
    head = (env.schema() if parts.get("schema", "short") == "full" else "") + env.instructions
    head += known(task.text) if known and parts.get("memory", "none") == "lessons" else ""
    prompt = f"{head}{parts.get('placebo') or ''}{question}: {env.reset(task, task.seed).observation}\n{answer}:"
    said = [ask(model, prompt, env.max_tokens, env.stop)]
    turn = _stepped(env, said[0])
    if turn.info.get("error") and parts.get("repair", "off") == "on":
        env.reset(task, task.seed)
        said.append(ask(model, f"{prompt} {said[0]}\n{turn.observation}\n{answer}:", env.max_tokens, env.stop))
        turn = _stepped(env, said[1])
    return {"right": turn.success, "said": said}


def _stepped(env: Env, action: str) -> Turn:
    turn = env.step(action)
    if not turn.valid:  # nobody's fault: no outcome at all
        raise EnvError("the environment failed", got=turn.observation, where=env.name, do="--resume goes on")
    return turn


def lessons(env: Env, embedder: str, n: int, seed: int) -> Callable[[str], str]:
    """The ``n`` reviewed training questions nearest to a question, as examples, the nearest last."""
    question, answer = env.labels
    by, tasks = embedders.ready(embedder), distinct(env.tasks("train", CORRECTIONS, seed))
    reviewed = [(task.text, found.body) for task in tasks if (found := env.review(task, seed))]
    if not reviewed:
        raise BadInput("nobody corrects anything here", got=env.name, expected="a reviewer", where="slot memory")
    vec_ND = by.embed([text for text, _ in reviewed])

    def nearest(text: str) -> str:
        order = np.argsort(vec_ND @ by.embed([text])[0], kind="stable")[-n:]
        return "".join(f"{question}: {reviewed[i][0]}\n{answer}: {reviewed[i][1]}\n\n" for i in order)

    return nearest
