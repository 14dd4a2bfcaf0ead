"""The application: who asks is known before anything is read, and what is asked before a thread is bothered."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump
from evolvent.serve import mcp, openapi, ui
from evolvent.serve.problems import problem, refused
from evolvent.serve.rest import DOCUMENT, OPERATIONS, WITHIN_S, Asked, Threads, Verb, permit
from evolvent.serve.telling import tell
from evolvent.serve.tokens import Token

MOST = 256 * 1024
"""Bytes of a body."""
BODY_S = 10.0
TELL_S = 60.0
"""So often it is looked whether a verdict is due."""
_log = logging.getLogger(__name__)
Allowed = Callable[[str | None], Token]


def app(threads: Threads, allowed: Allowed, hosts: Collection[str]) -> ASGIApp:
    """The application.

    Args:
        threads: who does the work; closed when it ends.
        allowed: what a token's text (``None``: none was sent) allows; ``BadInput`` where that is nothing.
        hosts: names that requests may call this machine by, and that pages may come from.
    """
    protocol = mcp.manager(threads)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        telling = asyncio.create_task(_tell(threads))
        async with protocol.run():
            yield
        telling.cancel()
        for one in (threads.embedding, threads.writer, threads.reader):
            await asyncio.to_thread(one.close)
        threads.attempts.close()

    async def health(_: Request) -> Response:
        numbers = threads.health()
        return _json(numbers, 200 if numbers["status"] == "ok" else 503)

    async def described(_: Request) -> Response:
        return _json(DOCUMENT)

    async def astray(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "no_such_method"}.get(error.status_code, "malformed")
        got = f"{request.method} {request.url.path}"
        expected = "what /v1/openapi.json lists"
        answer = problem(refused(code, "there is no such operation", got=got, expected=expected), _id(request))
        answer.headers.update(error.headers or {})
        return answer

    routes = [
        Route(one.path, _endpoint(threads, allowed, one, verb), methods=[one.method])
        for one, verb in OPERATIONS.items()
    ]
    routes += [Route("/healthz", health), Route("/v1/openapi.json", described)]
    routes += ui.routes()
    routes += [Route("/mcp", _Talk(allowed, protocol.handle_request), methods=["POST"])]
    return _guarded(Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: astray}), hosts)


async def _tell(threads: Threads) -> None:
    """Tell the memory what follows from evidence where it may not know: after a crash, or when time has passed."""
    while True:
        for scope, id_ in await asyncio.to_thread(threads.attempts.due, time.time()):
            job = partial(tell, attempts=threads.attempts, scope=scope, id=id_, now=time.time())
            try:
                await threads.writer.ask("learning", scope, job, WITHIN_S["learning"])
            except Exception:  # noqa: BLE001 - it is tried again
                _log.exception("attempt %s of scope %s cannot be settled now", id_, scope)
        await asyncio.sleep(TELL_S)


def _endpoint(
    threads: Threads, allowed: Allowed, operation: openapi.Operation, verb: Verb
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            token = allowed(_bearer(request))
            permit(token, operation.may)
            scope = _scope(token, request.headers.get("x-evolvent-scope"))
            given = _object(await _body(request)) if operation.method == "POST" else _query(request, operation.name)
            if operation.name in openapi.BODIES:
                openapi.check(given, openapi.BODIES[operation.name], "")
            answer = await verb(threads, Asked(token, scope, given, request.path_params))
            return Response(status_code=204) if answer is None else _json(answer)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            return problem(error, _id(request))

    return endpoint


class _Talk:
    """``/mcp``: tokens and bodies as of every request, the rest is the SDK's. An object: a function would be no app."""

    def __init__(self, allowed: Allowed, protocol: ASGIApp) -> None:
        self._allowed, self._protocol = allowed, protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            token = self._allowed(_bearer(request))
            scope["state"]["asked"] = Asked(token, _scope(token, request.headers.get("x-evolvent-scope")))
            read: list[Any] = [{"type": "http.request", "body": await _body(request), "more_body": False}]
        except Exception as error:  # noqa: BLE001 - every error is an answer
            await problem(error, _id(request))(scope, receive, send)
            return

        async def again() -> Any:
            return read.pop() if read else await receive()

        await self._protocol(scope, again, send)


def _json(value: Any, status: int = 200) -> Response:
    return Response(dump(value), status, media_type="application/json")


def _id(request: Request) -> str:
    return request.scope["state"]["request_id"]


def _bearer(request: Request) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if kind.lower() == "bearer" else None


def _scope(token: Token, wanted: str | None) -> str:
    """The scope of a request: the token's only one, or the one of them that is named. Never all."""
    if wanted is None and len(token.scopes) == 1:
        return token.scopes[0]
    if wanted in token.scopes:
        return wanted
    do, expected = "send the header X-Evolvent-Scope", "one of the token's scopes"
    raise refused("forbidden", "which scope?", got=wanted or "no scope", expected=expected, do=do)


async def _body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise refused("not_json", "not JSON", got=kind or "no content type", expected="application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST:
                    raise refused("too_large", "the body is too large", expected=f"at most {MOST:,} bytes")
    except TimeoutError:
        raise refused("too_slow", "the body did not come in time", expected=f"within {BODY_S:g} s") from None
    except ClientDisconnect:
        raise refused("malformed", "the connection was cut") from None
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body.decode("utf-8", "strict"), parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise refused("malformed", "the body is no JSON", got=what, expected="an object in UTF-8") from None
    if not isinstance(found, dict):
        raise refused("malformed", "the body is no object", got=type(found).__name__, expected="an object")
    return found


def _number(text: str) -> float:
    """A number; a whole one as an integer, since to JSON both are the same."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number


def _query(request: Request, name: str) -> dict[str, Any]:
    schemas, found = openapi.QUERIES.get(name, {}), dict[str, Any]()
    for field, text in request.query_params.multi_items():
        if field not in schemas or field in found:
            expected = ", ".join(schemas) or "none"
            raise BadInput("unknown or repeated argument", got=field, expected=expected, code="unknown_option")
        number = schemas[field].get("type") == "integer" and text.isascii() and text.isdigit() and len(text) < 10
        found[field] = int(text) if number else text
        openapi.check(found[field], schemas[field], field)
    return found


def _guarded(inner: ASGIApp, hosts: Collection[str]) -> ASGIApp:
    """Every request gets a name; a page of another origin, or a name that was bent to this machine, gets nothing."""
    known = {host.lower() for host in hosts}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        began, request_id = time.perf_counter(), secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        host, origin = _header(scope["headers"], b"host"), _header(scope["headers"], b"origin")
        error = None
        if _name(f"//{host}") not in known:
            do = "name this machine as it is served, or serve it under this name: --names"
            error = refused("other_host", "this machine is not served by that name", got=host, do=do)
        elif origin and _name(origin) not in known:
            error = refused("forbidden", "a page of another origin", got=origin, do="ask from a program")

        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if pair[0] != b"x-request-id"]
                timing = f"total;dur={1e3 * (time.perf_counter() - began):.1f}"
                message["headers"] = [
                    *headers,
                    (b"x-request-id", request_id.encode()),
                    (b"server-timing", timing.encode()),
                ]
            await send(message)

        await (inner if error is None else problem(error, request_id))(scope, receive, named)

    return guarded


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
