"""The calls in what a model answers: JSON as chat models write it, or Python's syntax as BFCL asks for.

    {"name": "f", "arguments": {"a": 1}}        also "parameters"; a list of these; several one after another
    {"type": "function", "function": {...}}     as in chat messages, arguments as an object or as its text
    [f(a=1), g(b="x")]                          one call alone, too

in a Markdown fence, in ``<tool_call>`` tags, or behind thoughts that ``</think>`` ends. Anything else is a refusal.
Python is read as the official decoder (``bfcl-eval`` 2026.3.23) does, without running anything: a bare word is a text,
a tuple stays one, arguments without a name are dropped, a bracket missing at one end is put. Fences that name a
language are read beside that, and a JSON list that lacks only its last brackets: a stop has taken them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

_FENCE = re.compile(r"```(?:[\w+-]*\n)?(.*?)(?:```|\Z)", re.S)
_TAG = re.compile(r"</?tool_calls?>|</?TOOLCALL>|<\|(?:python_tag|tool_calls?)\|>")
_BETWEEN = re.compile(r"[\s,;]*")
_JSON_CALL = re.compile(r'(?:\[\s*)?\{\s*"(?:name|arguments|parameters|type|id|function|tool_calls)"\s*:')
_PYTHON_CALL = re.compile(r"(?:\[\s*)?[^\W\d][\w.]*( ?)\(")


@dataclass(frozen=True)
class Answer:
    """The calls of an answer, ``{"name", "arguments"}`` each.

    ``form`` is "json", "python", "none" (a refusal: a text without calls, or ``[]``), or "broken": it begins as a call
    and cannot be read, such as one that was cut in the middle; then there are no calls.
    """

    calls: tuple[dict[str, Any], ...]
    form: str


def read_calls(text: str) -> Answer:
    """The calls of an answer; never raises."""
    text = _TAG.sub(" ", text.rpartition("</think>")[2])
    begins = _JSON_CALL.match(text.lstrip()) is not None  # fences behind that are what else came to mind
    fenced = [block for block in _FENCE.findall(text) if block.strip() and not begins]
    answers = [_read(one.strip("`' \r\n\t")) for one in fenced or [text]]
    calls = tuple(call for answer in answers for call in answer.calls)
    if any(answer.form == "broken" for answer in answers):
        return Answer((), "broken")
    return Answer(calls, next((answer.form for answer in answers if answer.calls), "none"))


def _read(text: str) -> Answer:
    """One text without fences and tags."""
    if text.startswith("[]"):  # a refusal, whatever a base model goes on with
        return Answer((), "none")
    called = _PYTHON_CALL.match(text)
    try:
        if called:
            return Answer(_kept(_python(text)), "python")
        if found := _JSON_CALL.search(text):
            return Answer(_kept(_json(text, found.start())), "json")
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        prose = called is not None and called[1]  # a word and something in brackets
        return Answer((), "none" if prose else "broken")
    return Answer((), "none")


def _kept(calls: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The calls, of values that JSON and UTF-8 can hold."""
    json.dumps(calls, ensure_ascii=False).encode()
    return tuple(calls)


# ------------------------------------------------------------------------------------------------ JSON
def _json(text: str, at: int) -> list[dict[str, Any]]:
    """The calls in the values that stand one after another from ``at`` on."""
    calls, decoder = list[dict[str, Any]](), json.JSONDecoder()
    while True:
        value, at = _value_at(text, at, decoder)
        calls += calls_of(value)
        at = _end(text, at)
        if not _JSON_CALL.match(text, at):
            return calls


def _value_at(text: str, at: int, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """The value from ``at`` on, and where it ends; a list is whole that lacks only the brackets behind a call."""
    for closing in ("", "]", "}]") if text.endswith("}") else ("",):
        try:
            value, end = decoder.raw_decode(f"{text}{closing}", at)
        except ValueError:
            continue
        return value, min(end, len(text))
    raise ValueError("no JSON")


def _end(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def calls_of(value: Any) -> list[dict[str, Any]]:
    """The calls in a JSON value: one, a list, or a message's ``tool_calls``; arguments an object, its text, or none.

    Raises:
        ValueError: something in it is no call.
    """
    if isinstance(value, list):
        return [call for one in cast("list[Any]", value) for call in calls_of(one)]
    outer = _object(value)
    if "tool_calls" in outer:
        return calls_of(outer["tool_calls"])
    call = _object(outer.get("function", outer))
    given = next((call[key] for key in ("arguments", "parameters", "input", "args") if key in call), None)
    if not isinstance(name := call.get("name"), str) or not name:
        raise ValueError("no name")
    given = json.loads(given or "{}") if isinstance(given, str) else given
    return [{"name": name, "arguments": {} if given is None else dict(_object(given))}]


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("no object")
    return cast("Mapping[str, Any]", value)


# ------------------------------------------------------------------------------------------------ Python
def _python(text: str) -> list[dict[str, Any]]:
    text = f"{'' if text.startswith('[') else '['}{text}{'' if text.endswith(']') else ']'}"
    body = ast.parse(text, mode="eval").body
    if not isinstance(body, ast.List) or not all(isinstance(one, ast.Call) for one in body.elts):
        raise ValueError("no calls")
    return [{"name": _name(one.func), "arguments": _named(one)} for one in body.elts if isinstance(one, ast.Call)]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if not isinstance(node, ast.Name):
        raise ValueError("no name")
    return node.id


def _named(call: ast.Call) -> dict[str, Any]:
    if any(one.arg is None for one in call.keywords):
        raise ValueError("** in a call")
    return {str(one.arg): _value(one.value) for one in call.keywords}


def _value(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant):
        return "..." if node.value is Ellipsis else node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.List):
        return [_value(one) for one in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(one) for one in node.elts)
    if isinstance(node, ast.Dict):
        return {_value(key): _value(one) for key, one in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.BinOp):
        return _sum(node)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and node.keywords:
        return {_name(node.func): _named(node)}
    if isinstance(node, ast.Call | ast.Subscript):
        return ast.unparse(node)
    raise ValueError("not a value")


def _sum(node: ast.BinOp) -> int | float:
    """The value of a sum of numbers, which the official decoder evaluates; texts are not joined."""
    left, right = _value(node.left), _value(node.right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise ValueError("no sum of numbers")
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Div):
        return left / right
    raise ValueError("no sum of numbers")
