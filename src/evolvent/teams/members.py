"""Members of a workflow over the wire: a tool of an MCP server or an A2A agent in the place of a model.

    engine = Several({"planner": Served(model), "solver": Wired(caller("mcp:python tools.py", tool="solve"))})

Extra ``protocols``; ``evolvent teams serve`` is the other direction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import urlsplit

import numpy as np

from evolvent.core.calls import on_loop
from evolvent.core.errors import BadInput, EnvError, ModelError, optional
from evolvent.core.protocols import Completion, Engine, Env, Renderer, Request, Task, Turn, cut
from evolvent.play.attempt import play
from evolvent.play.settings import AttemptSettings
from evolvent.play.together import run_players
from evolvent.play.workflow import Member, Workflow
from evolvent.teams.answers import TIMEOUT_S, Answer, Caller

_WHERE = "teams.members.caller"


def caller(
    address: str,
    *,
    tool: str = "",
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Caller:
    """The member at an address; nothing is opened yet.

    Args:
        address: ``mcp:URL``, ``mcp:COMMAND …`` (a server that speaks on standard input and output) or ``a2a:URL``.
        tool: of an MCP server; may be left out where it has one.
        timeout_s: seconds for an answer, opening the connection included.
        headers: of every HTTP request, such as ``Authorization``.
        env: variables for COMMAND; of this process's own it gets no more than ``PATH``, ``HOME`` and the like.

    Raises:
        BadInput: another address.
        MissingExtra: the SDK is not installed.
    """
    kind, _, place = address.partition(":")
    url, words = urlsplit(place), place.split()
    web = url.scheme in ("http", "https") and bool(url.hostname) and not (url.username or url.password)
    if kind == "a2a" and web:
        optional("a2a", "protocols", _WHERE)
        from evolvent.teams.over_a2a import Agent

        return Agent(place, timeout_s, headers or {})
    if kind == "mcp" and (web or (words and "://" not in words[0])):
        optional("mcp", "protocols", _WHERE)
        from evolvent.teams.over_mcp import Tool

        return Tool(place, tool, timeout_s, headers or {}, env or {})
    expected = "mcp:http(s)://…, mcp:COMMAND … or a2a:http(s)://…, passwords in headers= alone"
    raise BadInput("not the address of a member", got=f"{kind}:…", expected=expected, where=_WHERE)


class Wired:
    """A member as an engine (``models.served.several``): all that is asked at once goes out at once.

    It reads prompts as text. Where actions are on a list it is shown the list, and must say one of them.
    """

    def __init__(self, member: Caller) -> None:
        self._member = member

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """The answers in order.

        Raises:
            ModelError: one of them failed.
        """
        calls = [on_loop(self._asked(request)) for request in requests]
        try:
            return [call.result() for call in calls]
        finally:
            for call in calls:
                call.cancel()

    async def _asked(self, request: Request) -> Completion:
        if not isinstance(request.prompt, str):
            raise BadInput(
                "this member reads text", got="tokens", expected="prompts of play.renderers.Text", where="Wired"
            )
        began, choices = time.perf_counter(), [str(choice).strip() for choice in request.choices]
        listed = "\n".join(["", "One of these, as it stands:", *choices]) if choices else ""
        answer = await self._member.call(request.prompt + listed)
        text, stopped = cut(answer.text, request.stop)
        if choices and text.strip() not in choices:
            raise ModelError("a member said what is not allowed", got=text, expected=choices, where=self._member.name)
        took = {name: int((answer.usage or {}).get(name, 0)) for name in ("prompt", "cached", "completion")}
        return Completion(
            text,
            np.zeros(0, np.int32),
            np.zeros(0, np.float32),
            took["prompt"],
            took["cached"],
            time.perf_counter() - began,
            stopped=stopped,
            choice=choices.index(text.strip()) if choices else -1,
            sampled=took["completion"],
        )

    def close(self) -> None:
        """Release what the member holds."""
        on_loop(self._member.close()).result()


# ------------------------------------------------------------------------------------------- a workflow as a function
@dataclass(frozen=True)
class _Asked:
    """One question, which any text answers."""

    name: str = "asked"
    instructions: str = ""
    labels: tuple[str, str] = ("Task", "Answer")
    stop: tuple[str, ...] = ()
    max_tokens: int = 512
    reward_range: tuple[float, float] = (0.0, 0.0)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        return Turn(task.text)

    def step(self, action: str) -> Turn:
        return Turn("", terminated=True)


def asking(team: Workflow | Member, engine: Engine, renderer: Renderer) -> Callable[[str], Answer]:
    """A workflow, or one of its members alone, as a function of a text: what its last member says, and what it took."""
    whole = team if isinstance(team, Workflow) else Workflow((replace(team, reads=()),))
    settings, alone = AttemptSettings(renderer, team=whole, accounts=True), threading.Lock()

    def answer(text: str) -> Answer:
        env = cast("Env", _Asked())  # of an environment, what one attempt needs
        with alone:  # a model answers one thread at a time
            episode = run_players([play(env, Task("asked", text), settings, seed=0)], engine)[0]
        if isinstance(episode, EnvError):
            raise episode
        return Answer(str(episode.answer), {k: v for k, v in episode.usage.items() if v is not None} or None)

    return answer
