"""A chat server answered by a function: what an agent framework says to a model can be tested without a model.

It speaks the part of OpenAI's ``/v1/chat/completions`` that agent frameworks use: messages, tool calls, streaming.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any

__all__ = ["Answer", "Call", "ChatServer", "said"]


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    name: str
    arguments: Mapping[str, Any]


Answer = Callable[[Mapping[str, Any]], str | Sequence[Call]]
"""From the body of a request (``messages``, ``tools``, …) to a text, or to tool calls."""


def said(message: Mapping[str, Any]) -> str:
    """The text of one message, whether it came as a string or as parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class ChatServer:
    """``answer`` behind an OpenAI-compatible address on loopback, for as long as the ``with`` block lasts.

    ``base_url`` ends in ``/v1``; ``requests`` holds the bodies that came, in order. One thread a connection. An
    exception in ``answer`` becomes a status 500 with its text, which clients are asked not to try again.

    Args:
        answer: what the model says; called once a request, from several threads when requests overlap.
        port: 0: any free one.
    """

    def __init__(self, answer: Answer, *, port: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer, self._number = answer, count(1)
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                models = {"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "evolvent"}]}
                _send(self, 200, models) if self.path.endswith("/models") else _send(self, 404, _error("no such path"))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.endswith("/chat/completions"):
                    chat._reply(self, body)
                else:
                    _send(self, 404, _error(f"no such path: {self.path}; this server knows /v1/chat/completions"))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.base_url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, gae_lambda: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _reply(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict) or not asked.get("messages"):
                raise ValueError("no messages")
        except ValueError as error:
            return _send(handler, 400, _error(str(error)))
        self.requests.append(asked)
        try:
            answer = self._answer(asked)
        except Exception as error:  # noqa: BLE001 - the client has to hear of it, whatever it is
            return _send(handler, 500, _error(f"{type(error).__name__}: {error}"))
        number = next(self._number)
        if asked.get("stream"):
            return _stream(handler, _chunks(asked, answer, number))
        choice = {"index": 0, "message": _message(answer, number), "finish_reason": _finish(answer)}
        _send(handler, 200, _head(asked, number, "chat.completion") | {"choices": [choice], "usage": _usage(asked)})


def _finish(answer: str | Sequence[Call]) -> str:
    return "stop" if isinstance(answer, str) else "tool_calls"


def _message(answer: str | Sequence[Call], number: int) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    calls = [
        {
            "id": f"call-{number}-{i}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
        }
        for i, call in enumerate(answer)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _chunks(asked: Mapping[str, Any], answer: str | Sequence[Call], number: int) -> Iterator[dict[str, Any]]:
    """The answer in pieces: texts word by word, the arguments of a call in two halves."""
    head = _head(asked, number, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if isinstance(answer, str) else None})
    if isinstance(answer, str):
        for i, word in enumerate(answer.split(" ")):
            yield chunk({"content": word if i == 0 else f" {word}"})
    else:
        for i, call in enumerate(_message(answer, number)["tool_calls"]):
            text = call["function"]["arguments"]
            opening = {**call, "index": i, "function": {**call["function"], "arguments": text[: len(text) // 2]}}
            yield chunk({"tool_calls": [opening]})
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": text[len(text) // 2 :]}}]})
    yield chunk({}, _finish(answer))
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield head | {"choices": [], "usage": _usage(asked)}


def _head(asked: Mapping[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chat-{number}", "object": kind, "created": 0, "model": asked.get("model", "scripted")}


def _usage(asked: Mapping[str, Any]) -> dict[str, int]:
    """Words instead of tokens: something that grows with the prompt."""
    n = sum(len(said(message).split()) for message in asked["messages"])
    return {"prompt_tokens": n, "completion_tokens": 1, "total_tokens": n + 1}


def _error(text: str) -> dict[str, Any]:
    return {"error": {"message": text, "type": "invalid_request_error"}}


def _send(handler: BaseHTTPRequestHandler, status: int, body: Mapping[str, Any]) -> None:
    raw = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(raw)))
    handler.send_header("x-should-retry", "false")
    handler.end_headers()
    handler.wfile.write(raw)


def _stream(handler: BaseHTTPRequestHandler, chunks: Iterator[dict[str, Any]]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    for chunk in chunks:
        handler.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    handler.wfile.write(b"data: [DONE]\n\n")
