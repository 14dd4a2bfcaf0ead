"""Members as A2A agents, both ways, by the official SDK ``a2a-sdk`` (1.x): Agent2Agent protocol 1.0 over JSON-RPC.

A server answers clients of 0.3 as well.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import get_data_parts, get_text_parts, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from pydantic import validate_call
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from evolvent.core.errors import EvolventError, ModelError
from evolvent.teams.answers import KEPT_S, KEY, Answer, Caller, bounded, failed, limited, log, read_limit, usage_of

_KEPT = 1000
"""Tasks that a server remembers."""


class Agent:
    """An A2A agent; a task whose answer nobody waits for any more is cancelled there."""

    def __init__(self, place: str, timeout_s: float, headers: Mapping[str, str]) -> None:
        self.name, self._timeout_s, self._place = f"a2a:{place}", timeout_s, place
        self._http = httpx.AsyncClient(
            headers=dict(headers),
            timeout=timeout_s,
            event_hooks={"response": [read_limit(httpx)]},
            limits=httpx.Limits(keepalive_expiry=KEPT_S),
        )
        self._client: Client | None = None

    async def call(self, asked: str | Mapping[str, Any]) -> Answer:
        """What the agent says, or the texts that it makes; named arguments are sent as data."""
        said = _Said()
        try:
            async with limited(self.name, self._timeout_s):
                self._client = self._client or await create_client(self._place, ClientConfig(httpx_client=self._http))
                async for event in self._client.send_message(_request(asked)):
                    said.hear(event)
        except (ModelError, asyncio.CancelledError):
            if self._client and said.task and said.state == TaskState.TASK_STATE_WORKING:
                with suppress(Exception):
                    cancel = self._client.cancel_task(CancelTaskRequest(id=said.task))
                    await asyncio.wait_for(cancel, min(self._timeout_s, 5.0))
            raise
        text = "\n".join(said.texts.values()) or said.status
        if said.state != TaskState.TASK_STATE_COMPLETED:
            raise failed(self.name, f"{TaskState.Name(said.state).removeprefix('TASK_STATE_').lower()}: {text}")
        return bounded(Answer(text, said.usage), self.name)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class _Said:
    """What a stream of events comes to."""

    def __init__(self) -> None:
        self.task, self.status, self.state = "", "", TaskState.TASK_STATE_UNSPECIFIED
        self.texts, self.usage = dict[str, str](), None

    def hear(self, event: StreamResponse) -> None:
        if event.HasField("message"):
            self.state, self.status = TaskState.TASK_STATE_COMPLETED, _text(event.message.parts)
            self._took(event.message.metadata)
        elif event.HasField("task"):
            self.task = event.task.id
            self._status(event.task.status)
            for artifact in event.task.artifacts:
                self.texts[artifact.artifact_id] = _text(artifact.parts)
                self._took(artifact.metadata)
        elif event.HasField("status_update"):
            self._status(event.status_update.status)
        elif event.HasField("artifact_update"):
            artifact = event.artifact_update.artifact
            before = self.texts.get(artifact.artifact_id, "") if event.artifact_update.append else ""
            self.texts[artifact.artifact_id] = before + _text(artifact.parts)
            self._took(artifact.metadata)

    def _status(self, status: TaskStatus) -> None:
        self.state, self.status = status.state, _text(status.message.parts)

    def _took(self, metadata: Any) -> None:
        self.usage = usage_of(MessageToDict(metadata).get(KEY)) or self.usage


def _text(parts: Any) -> str:
    return "".join(get_text_parts(parts))


def _request(asked: str | Mapping[str, Any]) -> SendMessageRequest:
    part = new_text_part(asked) if isinstance(asked, str) else Part(data=ParseDict(dict(asked), Value()))
    return SendMessageRequest(message=Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[part]))


# -------------------------------------------------------------------------------------------------------- the server
class _Executor(AgentExecutor):
    def __init__(self, member: Caller) -> None:
        self._member = member

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Ask the member. What it raises stays here, in the log; the other side reads one line."""
        assert context.message is not None and context.task_id is not None and context.context_id is not None
        task = Task(id=context.task_id, context_id=context.context_id)
        task.status.state = TaskState.TASK_STATE_WORKING
        await event_queue.enqueue_event(task)
        update = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            named = get_data_parts(context.message.parts)
            answer = await self._member.call(named[0] if named else context.get_user_input())
        except EvolventError as error:  # ``what`` holds no words of others
            log(error)
            await update.failed(update.new_agent_message([new_text_part(error.what)]))
            return
        metadata = {KEY: dict(answer.usage)} if answer.usage else None
        await update.add_artifact([new_text_part(answer.text)], metadata=metadata)
        await update.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """The SDK cancels ``execute``."""
        assert context.task_id is not None and context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class _Recent(InMemoryTaskStore):
    """Forgets the oldest tasks, and lists none: who asks without a name would read the answers of all others."""

    def __init__(self) -> None:
        super().__init__()
        self._order = dict[str, None]()

    async def save(self, task: Task, context: Any) -> None:
        await super().save(task, context)
        self._order[task.id] = None
        if len(self._order) > _KEPT:
            oldest = next(iter(self._order))
            del self._order[oldest]
            await self.delete(oldest, context)

    async def list(self, params: Any, context: Any) -> Any:
        raise UnsupportedOperationError


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which checks its arguments by their type hints: on this wire all numbers come as fractions."""
    return validate_call(function)


def app(member: Caller, url: str, hosts: list[str], name: str, about: str) -> Starlette:
    """An agent with one skill, at ``url``; requests that name a host other than ``hosts`` are refused."""
    card = AgentCard(
        name=name,
        description=about,
        version="1",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=number) for number in ("1.0", "0.3")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=name, name=name, description=about, tags=[name])],
    )
    handler = DefaultRequestHandler(_Executor(member), _Recent(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)])
