"""Errors as ``application/problem+json`` (RFC 9457): what was got, what was expected, where, and what to do."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from evolvent.core.errors import BadInput, EvolventError, MissingExtra, ModelError, StoreError
from evolvent.core.jsonfile import dump
from evolvent.serve.lanes import Busy

_log = logging.getLogger(__name__)
TYPE = "application/problem+json"
STATUS = {
    "malformed": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_receipt": 404,
    "unknown_memory": 404,
    "unknown_attempt": 404,
    "not_found": 404,
    "no_such_method": 405,
    "too_slow": 408,
    "settled_already": 409,
    "key_used": 409,
    "too_large": 413,
    "not_json": 415,
    "other_host": 421,
    "bad_vectors": 503,  # of the embedder, not of who asks
    "disk_full": 507,
}
"""By code; others of what was asked are 422, of the store and of models 503."""
_AGAIN_S = 1.0


def refused(code: str, what: str, **more: Any) -> BadInput:
    """What a request is refused with."""
    return BadInput(what, code=code, **more)


def told(error: Exception, request_id: str) -> dict[str, Any]:
    """An error as data. What is wrong here and not with the request stands whole in the log, and in no answer."""
    asked = isinstance(error, BadInput | Busy) and error.code != "bad_vectors"
    code = error.code if isinstance(error, EvolventError) else "defect"
    if isinstance(error, BadInput | Busy | StoreError | ModelError | MissingExtra):
        status = STATUS.get(code, 422 if asked and not isinstance(error, Busy) else 503)
    else:
        status = 500
    body: dict[str, Any] = {"type": "about:blank", "status": status, "code": code, "request_id": request_id}
    if asked:
        assert isinstance(error, EvolventError)
        body["title"] = error.what
        for name in ("got", "expected", "where", "do"):
            if (value := getattr(error, name)) not in (None, ""):
                body[name] = value if isinstance(value, str | int | float | bool) else repr(value)[:300]
    else:
        _log.error("request %s: %s", request_id, code, exc_info=error)
        title = error.what if isinstance(error, StoreError | ModelError) else "something went wrong here"
        later = "ask again after Retry-After; nothing was done; " if status in (503, 507) else ""
        body |= {"title": title, "do": f"{later}the server's log has request {request_id}"}
    return body


def in_words(body: Mapping[str, Any]) -> str:
    """What ``told`` says, for a model: one line."""
    said = [f"{name}: {body[name]}" for name in ("got", "expected", "where") if name in body]
    return "; ".join([body["title"], *said, *([f"do this: {body['do']}"] if "do" in body else [])])


def problem(error: Exception, request_id: str) -> Response:
    """An error as an answer."""
    body = told(error, request_id)
    status = body["status"]
    headers = {"X-Request-Id": request_id}
    if status in (503, 507):
        headers["Retry-After"] = str(math.ceil(max(_AGAIN_S, error.wait_s if isinstance(error, Busy) else 0.0)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (408, 413):
        headers["Connection"] = "close"
    return Response(dump(body), status, headers, TYPE)
