"""Tools: a user's own functions, called by a line that the model writes; what comes back is text.

A call is a line of Python that begins with the name of a tool:

    multiply(12, b=7)            literals, by place or by name
    calculator(12 * (7 + 1))     a tool of one text: what stands between the brackets, with or without quotes

The first such line of an answer counts, the rest of the answer is not read. An answer that is one line ``word(…)`` is a
call of a tool that does not exist. There is no second syntax: a model of 135 million parameters learns this one from a
few examples because all of it but the name stands in the question, every chat model has read Python, and the JSON in
tags of the Hermes and Qwen templates takes several times the tokens, any of which can be wrong.

Nothing that a call does ends an attempt: whatever goes wrong comes back as a short text with an ``outcome`` of its own.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evolvent.core.calls import done_in_time, on_loop, spawn
from evolvent.core.errors import BadInput
from evolvent.core.strict_json import plain

_LINE = re.compile(r"([^\W\d]\w*)\((.*)")
_TYPES: tuple[type, ...] = (str, bool, int, float, list, dict)


@dataclass(frozen=True)
class Call:
    """A call and what came of it.

    ``outcome`` is "ok", "cut" (too long, shortened), "unknown" (no such tool), "arguments" (they cannot be read or do
    not fit), "raised", "timeout" or "result" (what came back is no text and no JSON).
    """

    name: str
    arguments: Mapping[str, Any]
    result: str
    outcome: str

    @property
    def shown(self) -> str:
        """What the model sees of it."""
        return f"{'Result' if self.outcome in ('ok', 'cut') else 'Error'}: {self.result}"


@dataclass(frozen=True)
class Tool:
    """A function with what is known of it; ``text`` is the name of its parameter where that is one text."""

    name: str
    run: Callable[..., Any]
    signature: inspect.Signature
    text: str
    summary: str


@dataclass(frozen=True)
class Tools:
    """Functions that a model may call; make it with ``tools``."""

    known: Mapping[str, Tool]
    """By name."""
    timeout_s: float
    """Seconds that a call may take."""
    characters: int
    """Of a result that the model is shown."""
    max_turns: int
    """Answers that may be given in all, the last one included."""

    @property
    def listing(self) -> str:
        """How to call a tool, and a line for each: name, parameters, first line of the docstring."""
        rows = [
            f"- {t.name}{t.signature.replace(return_annotation=t.signature.empty)}: {t.summary}"
            for t in self.known.values()
        ]
        return "\n".join(["Tools, called by a line such as name(argument); the result follows:", *rows, "", ""])

    def asked(self, text: str) -> str:
        """The line of an answer, behind its thoughts, that is a call; empty where there is none."""
        text = text.rpartition("</think>")[2]  # what is thought of is not asked for
        lines = [line.strip() for line in text.strip().splitlines()]
        found = [line for line in lines if (m := _LINE.match(line)) and m[1] in self.known]
        if not found and len(lines) == 1 and lines[0].endswith(")") and _LINE.match(lines[0]):
            return lines[0]
        return found[0] if found else ""

    def call(self, line: str) -> Call:
        """Do what a line from ``asked`` asks for; waits for the result, at most ``timeout_s``."""
        found = _LINE.match(line)
        assert found is not None
        name = found[1]
        if name not in self.known:
            return Call(name, {}, f"no tool {name}; there is {', '.join(self.known)}", "unknown")
        tool = self.known[name]
        try:
            bound = _bound(tool, found[2])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            said = getattr(error, "what", "") or getattr(error, "msg", "") or str(error)
            return Call(name, {}, self._short(f"arguments of {name}: {said}")[0], "arguments")
        given = plain(bound.arguments, "a call")  # a copy: what the tool does to its arguments is not what was said
        outcome, value = _result(tool.run, bound, self.timeout_s)
        if outcome == "ok":
            outcome, value = _text(value)
        text, cut = self._short(value)
        return Call(name, given, text, "cut" if cut and outcome == "ok" else outcome)

    def _short(self, text: str) -> tuple[str, bool]:
        """The beginning of a text, without characters that no tokenizer takes, and whether something is left out."""
        text = text.strip().encode("utf-8", "replace").decode()
        if len(text) <= self.characters:
            return text, False
        return f"{text[: self.characters]} … (cut: {len(text):,} characters)", True


def tools(functions: Any, where: str, *, timeout_s: Any, characters: Any, max_turns: Any) -> Tools:
    """Functions as tools; the limits are those of ``Tools``.

    Args:
        functions: a list of plain or ``async def`` functions with type hints and a docstring.
        where: for errors.
        timeout_s: above 0.
        characters: above 0.
        max_turns: 2 or more.

    Raises:
        BadInput: something that cannot be called by a line of text, and what is missing.
    """
    if not isinstance(functions, list | tuple) or not functions:
        raise BadInput("TOOLS is not a list of functions", got=repr(functions)[:100], where=where)
    for name, value in {"TIMEOUT_S": timeout_s, "MAX_RESULT": characters}.items():
        if not isinstance(value, int | float) or not 0 < value < threading.TIMEOUT_MAX:
            raise BadInput(f"{name} is not a positive number", got=repr(value), where=where)
    made = [_tool(function, f"{where}, TOOLS[{i}]") for i, function in enumerate(functions)]
    known = {tool.name: tool for tool in made}
    if len(known) < len(made):
        raise BadInput("two tools of one name", got=[tool.name for tool in made], where=where)
    if not isinstance(max_turns, int) or max_turns < 2:
        expected = ">= 2"
        raise BadInput(
            "MAX_TURNS leaves no room for a call and an answer", got=max_turns, expected=expected, where=where
        )
    return Tools(known, float(timeout_s), int(characters), max_turns)


# ------------------------------------------------------------------------------------------------ functions
def _tool(function: Any, where: str) -> Tool:
    name = str(getattr(function, "__name__", ""))
    if not inspect.isroutine(function) or not name.isidentifier():
        raise BadInput(
            "a tool is a function with a name", got=repr(function)[:100], expected="def or async def", where=where
        )
    where = f"{where}, {name}"
    try:
        signature = inspect.signature(function, eval_str=True)
    except (ValueError, TypeError, NameError, SyntaxError, AttributeError) as error:
        raise BadInput("the type hints of a tool cannot be read", got=str(error), where=where) from error
    summary = (inspect.getdoc(function) or "").strip().partition("\n")[0]
    if not summary:
        raise BadInput("a tool without a docstring", where=where, do="say in one line what it does: the model reads it")
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadInput(
                "a tool with any number of arguments", got=str(parameter), expected="named ones", where=where
            )
        if parameter.annotation is parameter.empty:
            do = "the model is shown the types, and calls are checked against them"
            raise BadInput("a tool's parameter without a type hint", got=parameter.name, where=where, do=do)
    only = list(signature.parameters.values())
    text = only[0].name if len(only) == 1 and only[0].annotation is str else ""
    return Tool(name, function, signature, text, summary)


# ------------------------------------------------------------------------------------------------ arguments
def _bound(tool: Tool, rest: str) -> inspect.BoundArguments:
    """The arguments in what follows the opening bracket."""
    inside, closed, after = rest.rpartition(")")
    if not closed or after.strip():
        raise BadInput("nothing may follow a call on its line" if closed else "the closing bracket is missing")
    try:
        return _literals(tool, inside)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raw = re.sub(rf"\A\s*{tool.text}\s*=", "", inside) if tool.text else ""
        if not raw.strip():
            raise
        return tool.signature.bind(raw.strip())


def _literals(tool: Tool, inside: str) -> inspect.BoundArguments:
    call = ast.parse(f"f({inside})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise BadInput("one call a line")
    named = {str(k.arg): _value(k.value) for k in call.keywords}
    bound = tool.signature.bind(*map(_value, call.args), **named)
    for name, value in bound.arguments.items():
        hint = tool.signature.parameters[name].annotation
        if hint in _TYPES and not _fits(value, hint):
            raise BadInput(f"{name} is {type(value).__name__}, expected {hint.__name__}")
    return bound


def _value(node: ast.expr) -> Any:
    try:
        return plain(ast.literal_eval(node), "a call")
    except (BadInput, ValueError, TypeError) as error:
        raise BadInput("an argument is a number, a text in quotes, a list or a dict of these") from error


def _fits(value: Any, hint: type) -> bool:
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


# ------------------------------------------------------------------------------------------------ running
def _result(function: Callable[..., Any], bound: inspect.BoundArguments, timeout_s: float) -> tuple[str, Any]:
    """Outcome, and the result or what went wrong."""
    if inspect.iscoroutinefunction(function):
        future = on_loop(function(*bound.args, **bound.kwargs))
    else:
        future = spawn(lambda: function(*bound.args, **bound.kwargs), name=f"tool {function.__name__}")
    if not done_in_time(future, timeout_s):
        return "timeout", f"no result within {timeout_s:g} s"
    error = None if future.cancelled() else future.exception()
    if future.cancelled() or error is not None:
        return "raised", "cancelled" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "ok", future.result()


def _text(value: Any) -> tuple[str, str]:
    """A result as text: what it says if it is one, JSON if it is not."""
    if value is None:
        return "ok", "nothing"
    if isinstance(value, str):
        return "ok", value
    try:
        return "ok", json.dumps(plain(value, "a result"), ensure_ascii=False)
    except (BadInput, ValueError, RecursionError):
        return "result", f"the tool returned {type(value).__name__}, which is no text"
