"""Text and tokens of a language model: plain text never becomes a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput

_ENDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "<eos>", "</s>")
_UNKNOWN = ("<unk>", "[UNK]")  # what no token stands for, which is no control token
_MARKUP = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
PROBES = (
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "The capital of France is a city on the river Seine.",
    "Question: What is 2 + 3?\nAnswer: 5\n",
    "def add(a, b):\n    return a + b\n",
)
"""Ordinary texts, two of which begin alike, to compare two ways of computing on: what a model is for."""


class Text:
    """A tokenizer of transformers, and its control tokens.

    Attributes:
        control: string to id of every token that text must not become: special ones, and added ones like ``<think>``.
        end_ids: tokens that end an answer.
        start_ids: tokens that a text begins with (BOS, where the model wants one).
    """

    def __init__(self, tokenizer: Any, end_ids: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        added: dict[str, int] = {str(token): i for i, token in tokenizer.added_tokens_decoder.items()}
        self._special = set(tokenizer.all_special_ids)
        marked = {text: i for text, i in added.items() if i in self._special or _MARKUP.fullmatch(text)}
        self.control = {text: i for text, i in marked.items() if text not in _UNKNOWN}
        self._control_ids = {i: text for text, i in self.control.items()}
        named = [self.control[text] for text in _ENDS if text in self.control]
        own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        self.end_ids = frozenset((*named, *own, *end_ids))
        start = tokenizer("", add_special_tokens=True)["input_ids"]
        self.start_ids = tuple(i for i in start if i not in self.end_ids)

    def encode(self, text: str) -> np.ndarray:
        """Token ids int32 ``[K]`` of plain text: what looks like a control token is spelled out."""
        try:
            ids = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        except (UnicodeEncodeError, TypeError) as error:
            raise BadInput("cannot be tokenised", got=text, expected="valid Unicode text", where="encode") from error
        if not self._control_ids.keys().isdisjoint(ids):
            ids = [t for i in ids for t in (self._spelled(self._control_ids[i]) if i in self._control_ids else [i])]
        return np.array(ids, np.int32)

    def probes(self) -> list[np.ndarray]:
        """Tokens of ``PROBES`` as texts of their own, int32 ``[K]`` each."""
        return [np.concatenate([np.array(self.start_ids, np.int32), self.encode(text)]) for text in PROBES]

    def _spelled(self, control: str) -> list[int]:
        halves = (self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (control[:1], control[1:]))
        return [i for half in halves for i in half]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of tokens, control tokens as their strings."""
        return self.tokenizer.decode(
            [int(i) for i in ids], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def chat(
        self, messages: Sequence[Mapping[str, Any]], *, open: bool, tools: Sequence[Mapping[str, Any]] = ()
    ) -> np.ndarray:
        """See ``LanguageModel.chat``."""
        rendered, texts, mark = self._rendered(messages, open=open, tools=tools)
        return self._joined(rendered, texts, mark)

    def conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), *, open: bool
    ) -> np.ndarray:
        """Token ids int32 ``[P]`` of a conversation with tools, exactly as the template writes it: to learn from.

        ``chat`` puts every content aside, which a template then cannot look at (to trim it, to drop thoughts). Here
        only control tokens in a content are, so that they stay plain text; in what the assistant says only the special
        ones: ``<tool_call>`` and ``<think>`` are tokens there.

        Raises:
            BadInput: as for ``chat``.
        """
        texts, mark = list[str](), _mark([*messages, *tools])
        names = sorted(self.control, key=len, reverse=True)
        special = [text for text in names if self.control[text] in self._special]
        shown: list[dict[str, Any]] = []
        for i, message in enumerate(messages):
            _check(message, i)
            own = special if message["role"] == "assistant" else names
            shown.append({**_aside(_with_objects(message), texts, mark, own), "role": message["role"]})
        listed = [_aside(tool, texts, mark, names) for tool in tools]
        return self._joined(self._by_template(shown, listed, open=open), texts, mark)

    @cached_property
    def calls_tools(self) -> bool:
        """Whether the template writes tools, calls and results; else they must be said in words."""
        call = {"type": "function", "function": {"name": "probe_called", "arguments": {"probe_given": 1}}}
        tool = {"name": "probe_listed", "description": "d", "parameters": {"type": "object", "properties": {}}}
        messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        messages += [{"role": "tool", "content": "probe_result", "name": "probe_called"}]
        try:
            text = self._by_template(messages, [{"type": "function", "function": tool}], open=True)
        except BadInput:
            return False
        return all(word in text for word in ("probe_listed", "probe_called", "probe_given", "probe_result"))

    def chat_behind(self, messages: Sequence[Mapping[str, Any]], number: int) -> np.ndarray:
        """Token ids int32 ``[P]`` of what the template puts behind the content of message ``number``, and all that
        follows it.

        The assistant's next turn is begun. Works whatever that beginning holds (some open ``<think>`` there) and
        whatever stood before: templates drop earlier thoughts, the record does not. Messages have role and content, no
        more.

        Raises:
            BadInput: as for ``chat``, or the content does not stand in the rendered text, or several times.
        """
        rendered, texts, mark = self._rendered(messages, open=True)
        _, *behind = rendered.split(f"{mark}{number};")
        if len(behind) != 1:
            raise BadInput(
                "the chat template does not say once what was said before",
                where=self.tokenizer.name_or_path,
                do="use an environment of one answer, or the plain style (--style plain)",
            )
        return self._joined(behind[0], texts, mark)

    def _rendered(
        self, messages: Sequence[Mapping[str, Any]], *, open: bool, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[str, list[str], str]:
        """The template's text with marks in place of contents, the contents, and the mark."""
        if tools and not self.calls_tools:
            raise BadInput(
                "this model's chat template shows no tools",
                got=f"{len(tools)} tools for {self.tokenizer.name_or_path}",
                where="chat",
                do="write them into a message",
            )
        texts: list[str] = []
        mark = _mark([*messages, *tools])
        hidden = [_hide(message, texts, mark, i) for i, message in enumerate(messages)]
        names = sorted(self.control, key=len, reverse=True)
        listed = [_aside(tool, texts, mark, names) for tool in tools]
        return self._by_template(hidden, listed, open=open), texts, mark

    def _by_template(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], *, open: bool
    ) -> str:
        """What the chat template makes of messages and tools."""
        if not self.tokenizer.chat_template:
            raise BadInput(
                "this model has no chat template",
                got=self.tokenizer.name_or_path,
                expected="a model tuned for chat",
                where="chat",
                do="use plain prompts that show the form of an answer (--style plain, or encode())",
            )
        from jinja2 import TemplateError

        listed = {"tools": list(tools)} if tools else {}
        try:
            return self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=open, **listed
            )
        except (TemplateError, TypeError, KeyError, ValueError) as error:
            raise BadInput(
                "the chat template refuses these messages",
                got=str(error),
                where="chat",
                expected="roles in the order that this model knows",
            ) from error

    def _joined(self, rendered: str, texts: list[str], mark: str) -> np.ndarray:
        """Tokens of a rendered template: its control tokens, and the plain text between them, contents put back."""
        names = sorted(self.control, key=len, reverse=True)
        pattern = re.compile("|".join([f"({mark}\\d+;)", *map(re.escape, names)]))
        ids, plain, at = [], "", 0
        for found in pattern.finditer(rendered):
            plain += rendered[at : found.start()]
            at = found.end()
            if found.group(1):
                plain += texts[int(found.group(1)[len(mark) : -1])]
                continue
            ids += [*self.encode(plain).tolist(), self.control[found.group(0)]]
            plain = ""
        return np.array([*ids, *self.encode(plain + rendered[at:]).tolist()], np.int32)


def _mark(messages: Sequence[Any]) -> str:
    """A string that stands for contents while the template is rendered; it occurs in none of them."""
    text, mark = json.dumps(messages, default=str, ensure_ascii=False), "\ue000"
    while mark in text:
        mark += "\ue000"
    return mark


def _hide(message: Mapping[str, Any], texts: list[str], mark: str, i: int) -> dict[str, Any]:
    _check(message, i)
    shown = _with_objects(message)
    return {key: value if key in ("role", "type") else _hidden(value, texts, mark) for key, value in shown.items()}


def _with_objects(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose calls have their arguments as objects, as templates want them: endpoints have them as text."""
    if not message.get("tool_calls"):
        return message
    functions = [one["function"] for one in message["tool_calls"]]
    given = [
        json.loads(one["arguments"]) if isinstance(one["arguments"], str) else one["arguments"] for one in functions
    ]
    made = [{**one, "arguments": arguments} for one, arguments in zip(functions, given, strict=True)]
    calls = [{**one, "function": function} for one, function in zip(message["tool_calls"], made, strict=True)]
    return {**message, "tool_calls": calls}


def _check(message: Mapping[str, Any], i: int) -> None:
    """Refuse what is no message."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise BadInput("not a message", got=message, expected='{"role": …, "content": …}', where=f"messages[{i}]")
    content = message.get("content", "")
    if not (isinstance(content, str) or (content is None and len(message) > 2)):
        raise BadInput("content is not text", got=type(content).__name__, expected="str", where=f"messages[{i}]")


def _hidden(value: Any, texts: list[str], mark: str) -> Any:
    """``value`` with every string in it put aside."""
    if isinstance(value, str):
        texts.append(value)
        return f"{mark}{len(texts) - 1};"
    if isinstance(value, Mapping):
        return {k: v if k == "type" else _hidden(v, texts, mark) for k, v in value.items()}
    return [_hidden(item, texts, mark) for item in value] if isinstance(value, list | tuple) else value


def _aside(value: Any, texts: list[str], mark: str, controls: Sequence[str]) -> Any:
    """``value`` with every one of ``controls`` put aside that stands in a string of it."""
    if isinstance(value, str):
        for control in controls:
            if control in value:
                texts.append(control)
                value = value.replace(control, f"{mark}{len(texts) - 1};")
        return value
    if isinstance(value, Mapping):
        return {_aside(k, texts, mark, controls): _aside(v, texts, mark, controls) for k, v in value.items()}
    return [_aside(item, texts, mark, controls) for item in value] if isinstance(value, list | tuple) else value
