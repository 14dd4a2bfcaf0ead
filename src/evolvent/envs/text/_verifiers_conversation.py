"""A ``verifiers`` agent whose replies come from whoever calls ``step``: no endpoint, the same hooks and scores.

``Env.run(task, agents)`` of the package is a coroutine that asks its agent for replies. ``Conversation`` stands for
that agent: it hands each message to the caller and waits for the reply; the environment runs between two steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.graph import MessageNode
from verifiers.v1.trace import AgentInfo, Trace, TraceTask


def unsupported(env: Any) -> str:
    """What of ``env`` needs more than texts (a container, tools, judges, several agents), or "" where nothing does."""
    task = env.taskset.task_type()
    config = env.taskset.config
    scores = [fn for _, fn in inspect.getmembers(task, callable) if getattr(fn, "reward", getattr(fn, "metric", False))]
    needs = {
        "a container": task.NEEDS_CONTAINER,
        "tools": bool(task.toolsets(config.task) or env.taskset.toolsets(config)),
        "setup or finalize in a runtime": task.setup is not vf.Task.setup or task.finalize is not vf.Task.finalize,
        "rewards in a runtime": any("runtime" in inspect.signature(fn).parameters for fn in scores),
        "judges": bool(config.task.judges),
        "several agents": len(agent_names(env.config)) != 1,
    }
    return ", ".join(need for need, holds in needs.items() if holds)


def agent_names(config: Any) -> list[str]:
    """The names of the agents of an environment."""
    return [name for name, value in config if isinstance(value, AgentConfig)]


class Conversation:
    """One attempt: ``start`` and ``reply`` run the environment to its next question; ``done`` says that it ended."""

    def __init__(self, env: Any, task: Any, max_turns: int) -> None:
        self._env, self._task, self._max_turns = env, task, max_turns
        self._loop = asyncio.new_event_loop()
        self._asked = asyncio.Event()
        self._waiting: asyncio.Future[str] | None = None
        self._episode = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=_record(task))
        self._play: asyncio.Task[None] | None = None
        self.question, self.cut = "", False

    def start(self) -> None:
        """Run to the first question."""
        self._play = self._loop.create_task(self._run())
        self._advance()

    def reply(self, text: str) -> None:
        """Answer the question and run to the next one or to the end."""
        assert self._waiting is not None, "no question is open"
        self._asked.clear()
        self._waiting.set_result(text)
        self._advance()

    @property
    def done(self) -> bool:
        """Whether the environment has ended."""
        return self._play is not None and self._play.done()

    @property
    def reward(self) -> float:
        """The weighted sum of all rewards of the attempt."""
        return float(sum(trace.reward for trace in self._episode.traces))

    @property
    def scores(self) -> dict[str, float]:
        """Every named reward and metric."""
        named: dict[str, float] = {}
        for trace in self._episode.traces:
            named |= {name: float(reward.value) for name, reward in trace.rewards.items() if reward is not None}
            named |= {name: float(value) for name, value in trace.metrics.items() if value is not None}
        return named

    def close(self) -> None:
        """End an attempt, finished or not."""
        if self._play is not None and not self._play.done():
            self._play.cancel()
            self._loop.run_until_complete(asyncio.gather(self._play, return_exceptions=True))
        self._loop.close()

    def _advance(self) -> None:
        assert self._play is not None
        asked = self._loop.create_task(self._asked.wait())
        both = asyncio.wait({self._play, asked}, return_when=asyncio.FIRST_COMPLETED)
        self._loop.run_until_complete(both)
        if self._play.done():
            asked.cancel()
            self._loop.run_until_complete(asyncio.gather(asked, return_exceptions=True))
            self._play.result()  # raises what the environment raised

    async def _run(self) -> None:
        await self._env.setup(self)
        await self._env.run(self._task, self)
        await self._env.finalize(self._task, self._episode)

    def __getattr__(self, name: str) -> Conversation:
        """``agents.<name>`` of the package: there is one agent, this one."""
        if name not in agent_names(self._env.config):
            raise AttributeError(name)
        return self

    async def run(self, task: Any, **_: Any) -> Trace:
        """A whole attempt at ``task``: one reply to its prompt."""
        async with self.interaction(task) as talk:
            await talk.turn()
        return talk.trace

    @contextlib.asynccontextmanager
    async def interaction(self, task: Any, **_: Any) -> AsyncIterator[_Talk]:
        """A conversation; it is scored when the environment leaves it."""
        talk = _Talk(self, task)
        yield talk
        talk.trace.ok = talk.trace.is_completed = True
        await task.score(talk.trace)
        self._episode.traces.append(talk.trace)

    async def ask(self, question: str) -> str:
        """Show ``question`` to the caller and wait for the reply."""
        self.question, self._waiting = question, self._loop.create_future()
        self._asked.set()
        return await self._waiting


class _Talk:
    """``Interaction`` of the package: its trace, and ``turn`` for one message and one reply."""

    def __init__(self, conversation: Conversation, task: Any) -> None:
        self._conversation, self._task = conversation, task
        name = agent_names(conversation._env.config)[0]
        self.trace = Trace(
            task=_record(task), agent=AgentInfo(config=getattr(conversation._env.config, name), name=name)
        )
        if task.data.system_prompt:
            self._add(vf.SystemMessage(content=task.data.system_prompt))
        for message in _messages(task.data.prompt):
            self._add(message)

    async def turn(self, message: Any = None) -> vf.Segment:
        """Send ``message`` (nothing where the task's prompt opens) and take one reply."""
        if await self._stopped():
            return vf.Segment(messages=[], terminated=True)
        first = 0 if self.trace.num_turns == 0 else len(self.trace.nodes)
        for part in _messages(message):
            self._add(part)
        shown = [node.message for node in self.trace.nodes[first:]]
        text = await self._conversation.ask("\n\n".join(str(part.content) for part in shown))
        said = vf.AssistantMessage(content=text)
        self._add(said, sampled=True)
        return vf.Segment(messages=[said])

    async def _stopped(self) -> bool:
        if self.trace.num_turns and self.trace.num_turns >= self._conversation._max_turns:
            self._conversation.cut, self.trace.stop_condition = True, "max_turns"
            return True
        for stop in self._task.hooks("stop") if self.trace.num_turns else ():
            if await stop(self.trace):
                self.trace.stop_condition = stop.__name__
                return True
        return False

    def _add(self, message: Any, *, sampled: bool = False) -> None:
        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(MessageNode(parent=parent, message=message, sampled=sampled))


def _record(task: Any) -> TraceTask:
    return TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)


def _messages(prompt: Any) -> list[Any]:
    if prompt is None:
        return []
    return [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt)
