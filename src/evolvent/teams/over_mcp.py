"""Members as tools of MCP servers, both ways, by the official SDK ``mcp`` (2.x): Model Context Protocol 2026-07-28.

Where the other side is older the SDK falls back to what it knows (2024-11-05 to 2025-11-25).
"""

from __future__ import annotations

import asyncio
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CONNECTION_CLOSED, CallToolResult, TextContent

from evolvent import __version__
from evolvent.core.errors import BadInput, EvolventError
from evolvent.teams.answers import KEY, Answer, Caller, bounded, failed, limited, log, read_limit, usage_of


class Tool:
    """A tool of an MCP server, at a URL or of a command that speaks on standard input and output."""

    def __init__(
        self, place: str, tool: str, timeout_s: float, headers: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        self._place, self._tool, self._timeout_s, self._headers, self._env = place, tool, timeout_s, headers, env
        self.name = f"mcp:{place}" if "://" in place else f"mcp:{shlex.split(place)[0]}"
        self._open: tuple[asyncio.Task[None], asyncio.Future[Any], asyncio.Event] | None = None

    async def call(self, asked: str | Mapping[str, Any]) -> Answer:
        """What the tool returns, its texts."""
        async with limited(self.name, self._timeout_s):
            client, name, takes = await self._opened()
            try:
                result = await client.call_tool(name, {takes: asked} if isinstance(asked, str) else dict(asked))
            except MCPError as error:
                if error.code == CONNECTION_CLOSED:  # the next call opens a new one
                    self._drop()
                raise
        text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
        if result.is_error:
            raise failed(self.name, text)
        return bounded(Answer(text, usage_of((result.meta or {}).get(KEY))), self.name)

    async def close(self) -> None:
        """End the connection, and the server where it is a command."""
        held = self._open
        self._drop()
        if held:
            await asyncio.wait([held[0]], timeout=10)

    def _drop(self) -> None:
        if self._open:
            self._open[2].set()
        self._open = None

    async def _opened(self) -> tuple[Client, str, str]:
        if self._open is None or self._open[0].done():
            ready, done = asyncio.get_running_loop().create_future(), asyncio.Event()
            task = asyncio.create_task(self._hold(ready, done))  # a connection is closed by the task that opened it
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._open = task, ready, done
        task, ready, _ = self._open
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await task  # raises why
        return ready.result()

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
        http = httpx2.AsyncClient(headers=dict(self._headers), timeout=self._timeout_s, event_hooks=hooks)
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

    served = MCPServer(name, version=__version__, instructions=f"Call the tool {name}: {about}", log_level="WARNING")
    # clients that show a model only the names of tools show this one whole
    served.add_tool(tool, name, description=about, structured_output=False, meta={"anthropic/alwaysLoad": True})
    return served
