"""What requests and answers look like (OpenAPI 3.1), and the check of a request against it: one text for both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from evolvent.core.errors import BadInput, closest
from evolvent.memory.effect_report import By
from evolvent.memory.items import Order
from evolvent.memory.outcome import SOURCES
from evolvent.memory.write import POLARITIES
from evolvent.serve.problems import TYPE, refused
from evolvent.serve.verdicts import KINDS

Schema = dict[str, Any]
HANDLE = r"^r[0-9]{1,18}\.[a-z2-7]{16}$"
ATTEMPT = r"^a[0-9]{1,17}$"
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "array": list,
    "null": type(None),
}


@dataclass(frozen=True)
class Operation:
    """What can be asked: ``may`` is the permission that it needs, ``status`` that of its answer."""

    name: str
    method: str
    path: str
    may: str
    about: str
    status: int = 200


def text(about: str, most: int, *, least: int = 1, **more: Any) -> Schema:
    """A text of ``least`` to ``most`` characters."""
    return {"type": "string", "minLength": least, "maxLength": most, "description": about, **more}


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _whole(about: str, least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": about}


_FLAG: Schema = {"type": "boolean"}
_NAMES: Schema = {"type": "array", "maxItems": 32, "items": text("a kind of memories", 100)}
_RECEIPT = text("the receipt of the recall", 60, pattern=HANDLE)
_DEADLINE = _whole("ms after which the request is refused, unless it has begun", 1, 60_000)
_SESSION = text("of the agent: its newest attempt is meant", 200)
_REPO = text("where it works: the path or the address of a repository", 500)
_SHA = text("a commit", 64, least=7)
_TESTS = text(
    "8 hexadecimal digits a test, of the SHA-256 of its name, one after the other",
    131_072,
    least=0,
    pattern="^([0-9a-f]{8})*$",
)
_GIT = _object(
    ["repo", "commits"],
    repo=_REPO,
    commits={
        "type": "array",
        "maxItems": 50,
        "description": "of the branch, newest first: those that were not there before belong to the newest attempt",
        "items": _object(
            ["sha", "at"],
            sha=_SHA,
            at={"type": "number", "minimum": 0, "maximum": 1e11, "description": "seconds since 1970"},
            reverts=_SHA | {"description": "the commit that it takes back"},
        ),
    },
)
_STATUSES = ["active", "expired", "archived", "quarantined", "superseded", "erased", "external", "all"]

BODIES: dict[str, Schema] = {
    "recall": _object(
        ["task"],
        task=text("what the agent is asked, as it would be asked again", 8_000),
        k=_whole("at most so many notes", 0, 50),
        kinds=_NAMES,
        stage=text("part of the work; each has values of its own", 100),
        filter={"type": "object", "description": "only memories whose metadata hold this (Memory.recall)"},
        attempt=text("the job it is for: all recalls of one are held out together, or none", 500),
        session=_SESSION | {"description": "of the agent: evidence can name it"},
        repo=_REPO,
        git=_GIT,
        task_id=text("the task, where the same is attempted again and again", 500),
        frozen=_FLAG | {"description": "no exploration, nothing left out by chance (evaluation)"},
        is_test=_FLAG | {"description": "its outcome may never change values"},
        deadline_ms=_DEADLINE,
    ),
    "shown": _object(["ids"], ids={"type": "array", "maxItems": 100, "items": text("a memory", 200)}),
    "outcome": _object(
        ["receipt", "reward"],
        receipt=_RECEIPT,
        reward={"type": ["number", "boolean", "null"], "description": "true: success; null where not valid"},
        source={"enum": [*SOURCES], "description": "who says so; the token must allow it"},
        valid=_FLAG | {"description": "false: it says nothing about the attempt (the harness failed)"},
        objective=text("which value learns", 100),
        idempotency_key=text("name of the job: told again, under whatever receipt, it counts once", 500),
        action=text("what the agent did: memories that were used earn more", 200_000, least=0),
        child=text("the memory written from this attempt", 30),
        weight={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    ),
    "evidence": _object(
        [],
        about=_object(
            [],
            attempt=text("an attempt", 20, pattern=ATTEMPT),
            receipt=_RECEIPT,
            session=_SESSION,
            commit=_SHA,
            repo=_REPO | {"description": "its newest attempt is meant, if that is less than 12 hours quiet"},
        ),
        kind={"enum": [*KINDS], "description": f"a token needs its source: {KINDS}"},
        reward={"type": ["number", "boolean", "null"], "description": "of a person; null: cannot tell"},
        command=text("what was run", 4_000),
        code=_whole("its exit code", -64, 255),
        passed=_TESTS,
        failed=_TESTS,
        names={"type": "array", "maxItems": 50, "items": text("a test that failed", 300, least=0)},
        run=text("name of the run, which a command and the tests in it share", 100),
        key=text("name of the statement: said again under it, it is there once", 500),
        git=_GIT,
    ),
    "remember": _object(
        ["key", "body"],
        key=text("when it applies: the task", 8_000),
        body=text("what to show", 200_000),
        kind=text("a free word to filter by", 100),
        polarity={"enum": [*POLARITIES]},
        receipt=_RECEIPT | {"description": "the recall it was made under: what that showed becomes its provenance"},
        supersedes=text("the memory that this one replaces", 30),
        metadata={"type": "object", "description": "names to texts, numbers, truth values or lists of these"},
    ),
}
"""Of requests, by operation."""
QUERIES: dict[str, dict[str, Schema]] = {
    "attempts": {
        "limit": _whole("a page", 1, 200),
        "after": text("the last id of the page before", 20, pattern=ATTEMPT),
    },
    "memories": {
        "status": {"enum": _STATUSES},
        "kind": text("only of this kind", 100),
        "order": {"enum": [*get_args(Order)]},
        "limit": _whole("a page", 1, 200),
        "after": text("the last id of the page before", 200),
    },
    "lift": {
        "by": {"enum": [*get_args(By)]},
        "objective": text("which outcomes", 100),
        "since": text("only recalls from then on (ISO)", 40),
    },
}
"""Arguments in addresses, by operation."""


def check(value: Any, schema: Schema, where: str) -> None:
    """``BadInput`` where a value does not fit a schema (of the keywords that are used here)."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise BadInput("not what is asked for", got=value, expected=" or ".join(kinds), where=where, code="wrong_type")
    if "enum" in schema and value not in schema["enum"]:
        expected = closest(str(value), schema["enum"])
        raise BadInput("not one of these", got=value, expected=expected, where=where, code="unknown_option")
    if isinstance(value, str):
        _within(len(value), schema.get("minLength", 0), schema.get("maxLength"), where, "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            if schema["pattern"] == HANDLE:
                raise refused("unknown_receipt", "unknown receipt", got=value, expected=HANDLE, where=where)
            expected = schema["pattern"]
            raise BadInput("not of this form", got=value[:60], expected=expected, where=where, code="wrong_form")
    elif isinstance(value, list):
        _within(len(value), 0, schema.get("maxItems"), where, "entries")
        for i, one in enumerate(value):
            check(one, schema.get("items", {}), f"{where}[{i}]")
    elif isinstance(value, dict) and "properties" in schema:
        for name in value:
            if name not in schema["properties"]:
                expected = closest(name, schema["properties"])
                raise BadInput("unknown field", got=name, expected=expected, where=where, code="unknown_option")
        for name in schema["required"]:
            if name not in value:
                raise BadInput("a field is missing", expected=name, where=where, code="missing")
        for name, one in value.items():
            check(one, schema["properties"][name], f"{where}.{name}" if where else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _within(value, schema.get("minimum"), schema.get("maximum"), where)


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _within(n: float, least: float | None, most: float | None, where: str, of: str = "") -> None:
    if (least is not None and n < least) or (most is not None and n > most):
        expected = f"{least if least is not None else 'at most'}{'..' if least is not None else ' '}{most} {of}".strip()
        raise BadInput("out of range", got=n, expected=expected, where=where, code="out_of_range")


# ------------------------------------------------------------------------------------------------- the document
_PROBLEM = _object(
    ["type", "status", "code", "title", "request_id"],
    type=text("about:blank", 200),
    status={"type": "integer"},
    code={"type": "string", "description": "stays the same across versions"},
    title={"type": "string"},
    got={},
    expected={},
    where={"type": "string"},
    do={"type": "string"},
    request_id={"type": "string"},
)
_REFUSALS = {
    "400": "not JSON",
    "401": "no token, or none of ours",
    "403": "the token does not allow it",
    "404": "nothing of that name in this scope",
    "408": "the body did not come in time",
    "409": "settled already, with another outcome",
    "413": "more than 256 KiB",
    "415": "not application/json",
    "421": "another host",
    "422": "it cannot be used as given",
    "500": "a defect",
    "503": "too busy to do it in time, or the store or the embedder does not answer; Retry-After says when",
    "507": "the disk is full",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI document of these operations."""
    paths: dict[str, Any] = {}
    problems = {
        code: {"description": about, "content": {TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for code, about in _REFUSALS.items()
    }
    for one in operations:
        good: Schema = {"description": one.about}
        if one.status == 200:
            good["content"] = {"application/json": {"schema": {"type": "object"}}}
        named = re.findall(r"\{(\w+)\}", one.path)
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
        ] + [{"name": name, "in": "query", "schema": schema} for name, schema in QUERIES.get(one.name, {}).items()]
        if one.may:
            about = "which of the token's scopes, where it has several"
            header = {"name": "X-Evolvent-Scope", "in": "header", "description": about, "schema": {"type": "string"}}
            parameters.append(header)
        described: dict[str, Any] = {
            "operationId": one.name,
            "summary": one.about,
            "parameters": parameters,
            "security": [{"token": []}] if one.may else [],
            "responses": {str(one.status): good, **problems},
        }
        if one.name in BODIES:
            described["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": BODIES[one.name]}},
            }
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Evolvent memory", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
