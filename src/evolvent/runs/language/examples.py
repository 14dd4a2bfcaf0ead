"""Examples as attempts in a model's own tokens: what it would have seen, and what it should have said.

Every answer of the assistant is a decision, from behind what opens it to the token that ends it; all else is context.
So what is trained is what would have been sampled: tool results and the words of others never are, nor what a template
writes around an answer. Where a template rewrites what was said before (some drop earlier thoughts), each answer stands
behind what the model would see at that place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.runs.language.rows import Example, Message

if TYPE_CHECKING:
    from evolvent.models.language.model import LanguageModel

_LISTED = "Tools, called by a line such as name(argument=value); the result follows:"
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool"}


@dataclass(frozen=True)
class Fitted:
    """Examples that fit, as attempts, and how many answers were left out because they do not (of how many rows)."""

    episodes: list[Episode]
    answers_left_out: int
    rows_cut: int


def fitted(
    rows: Sequence[Example], model: LanguageModel, *, chat: bool, stop: Sequence[str] | None, longest: int
) -> Fitted:
    """Rows as attempts of at most ``longest`` tokens: an answer that ends behind them is left out.

    Args:
        rows: what was read.
        model: whose tokens and chat template count.
        chat: prompts in words are the user's message, too.
        stop: what ends an answer in words; ``None`` = the model's own token.
        longest: tokens of context and answer together.

    Raises:
        BadInput: no answer fits.
    """
    end = ending(model, [row.text[1] for row in rows if row.text], stop)
    found, left_out, cut = list[Episode](), 0, 0
    for row in rows:
        turns = list(_decisions(row, model, end, chat=chat))
        fit = [one for one in turns if len(one[0]) + len(one[1]) <= longest]
        left_out, cut = left_out + len(turns) - len(fit), cut + (len(fit) < len(turns))
        if fit:
            found.append(_attempt(row, fit))
    if not found:
        raise BadInput(
            "no answer fits into the context",
            got=f"{len(rows)} rows, all longer",
            expected=f"rows of at most {longest} tokens",
            where="--max-length",
        )
    return Fitted(found, left_out, cut)


def _attempt(row: Example, turns: Sequence[tuple[np.ndarray, np.ndarray, str, str]]) -> Episode:
    """An attempt of these decisions (context, tokens, what was seen, what was said)."""
    name, line = row.digest[:16], row.where.rpartition(":")[2]
    episode, before = Episode(name, group=name, id=f"{name}.{line}"), np.empty(0, np.int32)
    for context, ids, seen, said in turns:
        goes_on = len(before) and len(context) > len(before) and np.array_equal(context[: len(before)], before)
        new, parent = (context[len(before) :], None) if goes_on else (context, -1)
        episode.observe(seen, token_ids=new, parent=parent)
        episode.act(said, token_ids=ids, finish="stop")
        before = np.concatenate([context, ids])
    episode.end(terminated=True, source="example")
    return episode


def _decisions(
    row: Example, model: LanguageModel, end: Callable[[str], np.ndarray], *, chat: bool
) -> list[tuple[np.ndarray, np.ndarray, str, str]]:
    if row.text and not chat:
        prompt, completion = row.text
        return [(model.encode(prompt, start=True), end(completion), prompt, completion)]
    messages, tools, trained = list(row.messages), list(row.tools), row.trained
    if row.text:
        prompt, completion = row.text
        messages, trained = [_said("user", prompt), _said("assistant", completion)], (1,)
    template = bool(model.tokenizer.chat_template)
    called = bool(tools) or any("tool_calls" in one or one["role"] == "tool" for one in messages)
    if called and not (template and model.text.calls_tools):
        messages, tools = in_plain_words(messages, tools, as_users=template), []
        trained = tuple(i + len(messages) - len(row.messages) for i in trained)

    def render(some: Sequence[Message], *, open: bool = True) -> np.ndarray:
        return model.conversation(some, tools, open=open)

    out: list[tuple[np.ndarray, np.ndarray, str, str]] = []
    seen = 0
    for i in trained:
        said = messages[i]
        try:
            found = by_template(model, render, messages[:i], said) if template else _plain(model, messages[:i], said)
        except BadInput as error:
            raise BadInput(error.what, got=error.got, expected=error.expected, where=row.where, do=error.do) from error
        shown = "\n".join(_line(one) for one in messages[seen:i])
        out.append((*found, shown, _line(said)))
        seen = i + 1
    return out


def by_template(
    model: LanguageModel, render: Callable[..., np.ndarray], messages: Sequence[Message], answer: Message
) -> tuple[np.ndarray, np.ndarray]:
    """What stands before an answer, and the answer with the token that ends it.

    A template may open more for an answer than a given one has, such as ``<think>``: what both begin with counts.
    ``render(messages, open=…)`` gives the tokens of a conversation.

    Raises:
        BadInput: the template rewrites what was said before an answer when it follows.
    """
    whole = render([*messages, answer], open=False)
    opened, closed = render(messages), render(messages, open=False)
    most = min(len(opened), len(whole))
    same = int(np.argmin([*(opened[:most] == whole[:most]), False]))
    if same < len(closed):
        raise BadInput(
            "the chat template does not append: it rewrites what was said before",
            where=model.name,
            do="give prompts and answers as texts, in the plain style (--style plain)",
        )
    said = whole[same:]
    ends = [i for i, token in enumerate(said.tolist()) if token in model.end_ids]
    return whole[:same], said[: ends[0] + 1] if ends else said


def ending(model: LanguageModel, answers: Sequence[str], stop: Sequence[str] | None) -> Callable[[str], np.ndarray]:
    """How an answer in plain words is written with its end: what is never said of it becomes less likely.

    With ``stop`` it ends with the first of these texts that stands inside none of the ``answers``; else, where
    ``stop`` is empty, too, with the model's token for the end; with ``None`` it stays as it is.
    """
    if stop is None:
        return model.encode
    mark = next((one for one in stop if not any(one in text.removesuffix(one) for text in answers)), "")
    if mark:
        return lambda text: model.encode(text.removesuffix(mark) + mark)
    last = end_token(model)
    return lambda text: np.concatenate([model.encode(text), last])


def end_token(model: LanguageModel) -> np.ndarray:
    """The token that ends an answer in plain words: int32 ``[1]``, or ``[0]`` of a model without one."""
    own = model.tokenizer.eos_token_id
    return np.array([own if own in model.end_ids else min(model.end_ids)] if model.end_ids else [], np.int32)


# ------------------------------------------------------------------------------------------------ in words
def in_plain_words(messages: Sequence[Message], tools: Sequence[Message], *, as_users: bool) -> list[Message]:
    """A conversation whose tools are listed in the system's words and whose calls are lines ``name(argument=value)``.

    For models whose template knows no tools (or that have none). Results are the user's words where ``as_users``.
    """
    out = [{"role": one["role"], "content": _line(one)} for one in messages]
    for one in out:
        if one["role"] == "tool" and as_users:
            one |= {"role": "user", "content": f"Result: {one['content']}"}
    if not tools:
        return out
    listing = "\n".join([_LISTED, *(_tool(tool) for tool in tools)])
    if out and out[0]["role"] in ("system", "developer"):
        return [{"role": "system", "content": f"{out[0]['content']}\n\n{listing}"}, *out[1:]]
    return [_said("system", listing), *out]


def _tool(tool: Message) -> str:
    """A schema as a line: name, parameters with their types, description."""
    inner = tool.get("function", tool)
    given = inner.get("parameters") or inner.get("input_schema") or {}
    fields = given.get("properties", given)
    needed = given.get("required", list(fields))
    named = [
        f"{name}: {one.get('type', 'any') if isinstance(one, dict) else 'any'}{'' if name in needed else ' = …'}"
        for name, one in fields.items()
    ]
    notes = [
        f"{k}: {one['description']}" for k, one in fields.items() if isinstance(one, dict) and "description" in one
    ]
    said = f"- {inner.get('name')}({', '.join(named)}): {inner.get('description', '')}"
    return f"{said.rstrip()} ({'; '.join(notes)})" if notes else said.rstrip()


def _line(message: Message) -> str:
    """What a message says, its calls as lines."""
    calls = [one["function"] for one in message.get("tool_calls", ())]
    lines = [f"{call['name']}({', '.join(f'{k}={v!r}' for k, v in call['arguments'].items())})" for call in calls]
    return "\n".join([*([message["content"]] if message["content"] or not lines else []), *lines])


def _plain(model: LanguageModel, messages: Sequence[Message], answer: Message) -> tuple[np.ndarray, np.ndarray]:
    """A conversation as plain text, each turn on lines of its own; answers end with the model's token for the end."""
    ids, text, end = model.encode("", start=True), "", end_token(model)
    for one in messages:
        if one["role"] == "assistant":
            ids = np.concatenate([ids, model.encode(f"{text}Assistant:"), model.encode(f" {one['content']}"), end])
            text = "\n"
        else:
            speaker = _SPEAKERS.get(one["role"])
            text += f"{speaker}: {one['content']}\n" if speaker else f"{one['content']}\n\n"
    ids = np.concatenate([ids, model.encode(f"{text}Assistant:")])
    return ids, np.concatenate([model.encode(f" {answer['content']}"), end])


def _said(role: str, content: str) -> Message:
    return {"role": role, "content": content}
