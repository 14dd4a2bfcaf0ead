"""A conversation as messages, with the tools on offer: what chat endpoints and chat templates read.

Messages and tools have OpenAI's form (Chat Completions): ``{"role", "content"}``, of the assistant also ``tool_calls``,
of a tool ``tool_call_id``; a tool is ``{"type": "function", "function": {"name", "description", "parameters"}}`` with a
JSON Schema. A call in neutral form is ``{"name": text, "arguments": {…}}``; as text it is a JSON list of calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from evolvent.core.errors import BadInput
from evolvent.core.strict_json import plain

ROLES = ("system", "user", "assistant", "tool")
Dict = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Conversation:
    """What was said so far, the last word not the assistant's, and the tools that it may call.

    Raises:
        BadInput: no messages, an unknown role, something that is no message or no tool, two tools of one name.
    """

    messages: tuple[Dict, ...]
    tools: tuple[Dict, ...] = ()

    def __post_init__(self) -> None:
        check_messages(self.messages, "Conversation")
        check_tools(self.tools, "Conversation")

    @property
    def text(self) -> str:
        """All of it as text: a line of JSON for each tool, messages as ``role: content``; the user's only one as is."""
        tools = [json.dumps(tool["function"], ensure_ascii=False) for tool in self.tools]
        head = ['Tools, called by a JSON list [{"name": …, "arguments": {…}}]:', *tools, ""] if tools else []
        alone = len(self.messages) == 1 and self.messages[0]["role"] == "user"
        said = [_said(one) if alone else f"{one['role']}: {_said(one)}" for one in self.messages]
        return "\n".join([*head, *said])

    def headed(self, words: str) -> Conversation:
        """The same with ``words`` at the head of the system's message."""
        if not (words := words.strip()):
            return self
        first, *rest = self.messages
        if first["role"] == "system":
            return Conversation(({**first, "content": f"{words}\n\n{first['content']}"}, *rest), self.tools)
        return Conversation(({"role": "system", "content": words}, *self.messages), self.tools)

    def heard(self, words: str) -> Conversation:
        """The same with a further message of the user's."""
        return Conversation((*self.messages, {"role": "user", "content": words}), self.tools)

    def answered(self, text: str, calls: Sequence[Dict], result: str) -> Conversation:
        """The same after the assistant's answer and what came of it.

        Of calls the result is the tools' answer: all of it to the first call, since environments answer with one text.
        """
        if not calls:
            said, heard = {"role": "assistant", "content": text}, {"role": "user", "content": result}
            return Conversation((*self.messages, said, heard), self.tools)
        ids = [f"call{len(self.messages):03d}{i:02d}" for i in range(len(calls))]  # nine letters: some take no other
        made = [
            {
                "id": name,
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)},
            }
            for name, call in zip(ids, calls, strict=True)
        ]
        results = [
            {"role": "tool", "tool_call_id": name, "content": result if name == ids[0] else "(see the first result)"}
            for name in ids
        ]
        called = {"role": "assistant", "content": "", "tool_calls": made}
        return Conversation((*self.messages, called, *results), self.tools)


def calls_text(calls: Sequence[Dict], words: str = "") -> str:
    """Calls in neutral form as the text of an answer: a JSON list on one line, below ``words`` where there are some."""
    listed = json.dumps([dict(call) for call in calls], ensure_ascii=False)
    return f"{words.strip()}\n{listed}" if words.strip() else listed


def check_messages(messages: object, where: str) -> None:
    """Refuse what is no conversation that a model can answer.

    Raises:
        BadInput: naming the message.
    """
    if not isinstance(messages, list | tuple) or not messages:
        expected = '[{"role": "user", "content": text}, …]'
        raise BadInput("no messages", got=repr(cast("object", messages))[:100], expected=expected, where=where)
    for number, message in enumerate(plain(cast("object", messages), where)):
        at = f"{where}, messages[{number}]"
        if not isinstance(message, Mapping):
            raise BadInput("not a message", got=repr(message)[:100], expected='{"role", "content"}', where=at)
        one = cast("Dict", message)
        if one.get("role") not in ROLES:
            raise BadInput("unknown role", got=repr(one.get("role")), expected=", ".join(ROLES), where=at)
        called = one.get("tool_calls")
        if not isinstance(one.get("content"), str) and not (called and one.get("content") is None):
            raise BadInput("the content of a message is not text", got=repr(one.get("content"))[:100], where=at)
        if called and not all(_name(call) for call in cast("Sequence[object]", called)):
            expected = '{"id", "type": "function", "function": {"name", "arguments"}}'
            raise BadInput("not a call of a tool", got=repr(called)[:100], expected=expected, where=at)
    last = cast("Sequence[Dict]", messages)[-1]
    if last["role"] == "assistant":
        do = "end with the user's message or a tool's; a known answer belongs into a key of its own"
        raise BadInput("nothing is asked", got="the last message is the assistant's", where=where, do=do)


def check_tools(tools: object, where: str) -> None:
    """Refuse what are no tools in OpenAI's form.

    Raises:
        BadInput: naming the tool.
    """
    if not isinstance(tools, list | tuple):
        raise BadInput("tools are a list", got=repr(tools)[:100], where=where)
    names: list[str] = []
    for number, tool in enumerate(plain(cast("object", tools), where)):
        names.append(_name(tool))
        if not names[-1]:
            expected = '{"type": "function", "function": {"name", "description", "parameters"}}'
            got = repr(tool)[:100]
            raise BadInput("not a tool", got=got, expected=expected, where=f"{where}, tools[{number}]")
    if len(set(names)) < len(names):
        raise BadInput("two tools of one name", got=names, where=where)


def _name(value: object) -> str:
    """The name of the function of a tool, or of a call."""
    inner: object = cast("Dict", value).get("function") if isinstance(value, Mapping) else None
    name: object = cast("Dict", inner).get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def _said(message: Dict) -> str:
    """The words of a message, and its calls."""
    words = str(message.get("content") or "")
    calls = [one["function"] for one in message.get("tool_calls") or ()]
    return calls_text([{"name": c["name"], "arguments": c.get("arguments")} for c in calls], words) if calls else words
