"""Members as tools of MCP servers, both ways, by the official SDK ``mcp`` (2.x): Model Context Protocol 2026-07-28.

Where the other side is older the SDK falls back to what it knows (2024-11-05 to 2025-11-25).
"""

from __future__ import annotations

import asyncio
import functools
import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, CallToolResult, TextContent

from evolvent.core.errors import BadInput, EvolventError, ModelError
from evolvent.teams.answers import KEPT_S, KEY, Answer, Caller, bounded, failed, limited, log, read_limit, usage_of

_LOST = (CONNECTION_CLOSED, INVALID_REQUEST)
"""Codes of a connection that is gone, and of a session that the server has forgotten."""


class _Link:
    """A connection, held by a task of its own: it is closed where it was opened."""

    def __init__(self, hold: Callable[[asyncio.Future[Any], asyncio.Event], Coroutine[Any, Any, None]]) -> None:
        self.calls, self.done = 0, asyncio.Event()
        self._ready = asyncio.get_running_loop().create_future()
        self.held = asyncio.create_task(hold(self._ready, self.done))
        self.held.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # who waited was told

    async def opened(self) -> tuple[Client, str, str]:
        """The client, the name of the tool, and of its argument that takes a text."""
        await asyncio.wait([self.held, self._ready], return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            await self.held  # raises why
        return self._ready.result()


class Tool:
    """A tool of an MCP server, at a URL or of a command that speaks on standard input and output."""

    def __init__(
        self, place: str, tool: str, timeout_s: float, headers: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        self._place, self._tool, self._timeout_s, self._headers, self._env = place, tool, timeout_s, headers, env
        self.name = f"mcp:{place}" if "://" in place else f"mcp:{shlex.split(place)[0]}"
        self._link: _Link | None = None

    async def call(self, asked: str | Mapping[str, Any]) -> Answer:
        """What the tool returns, its texts."""
        link = self._link = self._link if self._link and not self._link.held.done() else _Link(self._hold)
        link.calls += 1
        try:
            async with limited(self.name, self._timeout_s):
                client, name, takes = await link.opened()
                result = await client.call_tool(name, {takes: asked} if isinstance(asked, str) else dict(asked))
        except ModelError as error:
            lost = isinstance(error.__cause__, MCPError) and error.__cause__.code in _LOST
            if lost and self._link is link:  # the next call opens a new one; this one ends when nobody waits for it
                self._link = None
            raise
        finally:
            link.calls -= 1
            if not link.calls and link is not self._link:
                link.done.set()
        text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
        if result.is_error:
            raise failed(self.name, text)
        return bounded(Answer(text, usage_of((result.meta or {}).get(KEY))), self.name)

    async def close(self) -> None:
        """End the connection, and the server where it is a command."""
        link, self._link = self._link, None
        if link:
            link.done.set()
            await asyncio.wait([link.held], timeout=10)

    async def _hold(self, ready: asyncio.Future[Any], done: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._timeout_s):
                client = await stack.enter_async_context(Client(await self._server(stack)))
                ready.set_result((client, *self._chosen((await client.list_tools()).tools)))
            await done.wait()

    async def _server(self, stack: AsyncExitStack) -> Any:
        if "://" not in self._place:
            command, *arguments = shlex.split(self._place)
            return StdioServerParameters(command=command, args=arguments, env=dict(self._env))
        hooks = {"response": [read_limit(httpx2)]}
        http = httpx2.AsyncClient(
            headers=dict(self._headers),
            timeout=self._timeout_s,
            event_hooks=hooks,
            limits=httpx2.Limits(keepalive_expiry=KEPT_S),
        )
        return streamable_http_client(self._place, http_client=await stack.enter_async_context(http))

    def _chosen(self, tools: Sequence[Any]) -> tuple[str, str]:
        """The name of the tool, and of its argument that takes a text: the first that is required, or the first."""
        by_name = {tool.name: tool for tool in tools}
        name = self._tool or (next(iter(by_name)) if len(by_name) == 1 else "")
        if name not in by_name:
            expected = f"tool= one of {', '.join([*by_name][:20])}" if by_name else "a server with tools"
            raise BadInput("no such tool" if name else "which tool?", got=name, expected=expected, where=self.name)
        schema = by_name[name].input_schema
        arguments = [*schema.get("required", ()), *schema.get("properties", ())]
        return name, str(arguments[0]) if arguments else "text"


def server(member: Caller, function: Callable[..., Any], name: str, about: str) -> MCPServer:
    """A server with one tool: the arguments are those of ``function``, the answers are the member's.

    What it raises stays here, in the log; the other side reads one line. Of its answer usage goes along.
    """

    @functools.wraps(function)
    async def tool(**named: Any) -> CallToolResult:
        try:
            answer = await member.call(named)
        except EvolventError as error:  # ``what`` holds no words of others
            log(error)
            raise ToolError(error.what) from None
        meta = {KEY: dict(answer.usage)} if answer.usage else None
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], _meta=meta)

    served = MCPServer(name, instructions=f"Call the tool {name}: {about}", log_level="WARNING")
    # clients that show a model only the names of tools show this one whole
    served.add_tool(tool, name, description=about, structured_output=False, meta={"anthropic/alwaysLoad": True})
    return served
