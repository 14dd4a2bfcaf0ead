"""A language model behind an OpenAI-compatible endpoint: llama-server, vLLM, hosted services.

The key comes from the environment and is sent to the endpoint; it is neither stored nor shown in errors.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from evolvent.core.conversation import Conversation, calls_text
from evolvent.core.errors import BadInput, ModelError, optional
from evolvent.core.protocols import Completion, Sampling, cut
from evolvent.formulas.call_text import read_calls
from evolvent.models.sampling import Counters

KEY_VARIABLES = ("EVOLVENT_API_KEY", "OPENAI_API_KEY")
_MAX_STOP = 4  # what the API allows; further ones are applied here


class Remote:
    """Implements ``core.protocols.Model`` except for ``score``; ``base_url`` goes up to and including ``/v1``.

    ``generate`` sends the raw prompt to ``/completions``; where the endpoint has no such thing, the prompt becomes one
    user message to ``/chat/completions``, from then on (``chat`` decides instead). ``converse`` sends messages and
    tools there. Rate limits, time-outs (``timeout_s`` an attempt) and server errors are tried again ``retries`` times
    with growing pauses.

    Raises:
        MissingExtra: the ``openai`` package is not installed.
        BadInput: ``base_url`` is not a web address, or it carries a password.
    """

    def __init__(
        self, model: str, base_url: str, *, timeout_s: float = 120.0, retries: int = 4, chat: bool | None = None
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname or address.username or address.password:
            raise BadInput(
                "not the address of an endpoint",
                got=address.scheme + "://…" if address.username else base_url,
                expected="http(s)://HOST[:PORT]/v1 without a password",
                where="Remote",
                do=f"put the key into ${KEY_VARIABLES[0]}",
            )
        openai = optional("openai", "openai", "models.remote")
        self.name, self.model, self.base_url = model, model, base_url
        self.identity = f"remote:{model}@{base_url}"
        self.counters = Counters()
        key = next((os.environ[v] for v in KEY_VARIABLES if os.environ.get(v)), "none")
        self._openai, self._chat, self._server = openai, chat, ""
        self._client = openai.OpenAI(base_url=base_url, api_key=key, timeout=timeout_s, max_retries=retries)

    def generate(self, prompt: str, **sampling: Any) -> Completion:
        """Complete ``prompt``; tokens and log-probabilities are filled where the endpoint gives them.

        ``grammar`` needs a llama.cpp or vLLM endpoint; ``json_schema`` these, or any that knows ``response_format``.

        Raises:
            ModelError: the endpoint cannot be reached, refuses the request, or lacks what was asked for.
        """
        how = Sampling(**sampling).checked(self.name)
        started = time.perf_counter()
        extra, schema_by_chat = self._constraint(how.grammar, how.json_schema)
        if self._chat or schema_by_chat:
            reply = self._ask_chat([_user(prompt)], _settings(how) | schema_by_chat, extra)
        else:
            reply = self._ask(prompt, _settings(how), extra)
        choice, text = self._read(reply)
        return self._completion(reply, choice, cut(text, how.stop), started)

    def converse(self, conversation: Conversation, **sampling: Any) -> Completion:
        """Answer messages: with a text, or with calls of the tools on offer, which also stand in the text.

        ``stop`` ends texts; where tools are on offer the endpoint is not told, since it would cut calls. Where the
        arguments of a call are no JSON object the answer is text alone, with the arguments as they came. Servers that
        do not know how a model writes its calls leave them in the text, in a fence, say: calls of nothing but tools on
        offer count, and the text stays as it is.

        Raises:
            ModelError: the endpoint cannot be reached, has no chat, refuses the messages or takes no tools.
        """
        how, tools = Sampling(**sampling).checked(self.name), conversation.tools
        started = time.perf_counter()
        extra, schema = self._constraint(how.grammar, how.json_schema)
        settings = _settings(replace(how, stop=()), tools=list(tools)) if tools else _settings(how)
        reply = self._ask_chat(conversation.messages, settings | schema, extra)
        choice, text = self._read(reply)
        calls, well_formed = _calls(choice)
        if calls:
            said = calls_text(calls, text), ""
        elif written := _written(text, tools):
            calls, said = written, (text, "")
        else:
            said = cut(text, how.stop)
        return self._completion(reply, choice, said, started, tuple(calls) if well_formed else ())

    def _completion(
        self, reply: Any, choice: Any, said: tuple[str, str], started: float, calls: tuple[Mapping[str, Any], ...] = ()
    ) -> Completion:
        """``said`` is the text, and what stopped it; counts what it took."""
        usage = getattr(reply, "usage", None)
        ids, logp = _tokens(choice)
        details = getattr(usage, "prompt_tokens_details", None)
        count = self.counters
        count.requests += 1
        count.prompt += (prompt_tokens := (getattr(usage, "prompt_tokens", 0) or 0))
        count.cached += (cached := (getattr(details, "cached_tokens", 0) or 0))
        count.sampled += (sampled := (getattr(usage, "completion_tokens", 0) or 0) if usage else len(ids))
        count.seconds += (seconds := time.perf_counter() - started)
        finish = "length" if getattr(choice, "finish_reason", None) == "length" else "stop"
        text, stopped = said  # endpoints leave the stop string out, and do not say which it was
        told = (prompt_tokens, cached, seconds, finish, stopped or None)
        return Completion(text, ids, logp, *told, sampled=0 if len(ids) else sampled, calls=calls)

    def _ask(self, prompt: str, settings: dict[str, Any], extra: dict[str, Any]) -> Any:
        """``/completions``, or chat where there is none."""
        try:
            reply = self._client.completions.create(
                model=self.model, prompt=prompt, logprobs=1, extra_body=extra, **settings
            )
        except (self._openai.NotFoundError, self._openai.BadRequestError, self._openai.APIStatusError) as error:
            absent = error.status_code in (404, 405, 501) or "chat" in str(error).lower()
            if self._chat is not None or not absent:
                raise self._failed(error) from None
            reply = self._ask_chat([_user(prompt)], settings, extra)
            self._chat = True
            return reply
        except self._openai.APIError as error:
            raise self._failed(error) from None
        except ValueError as error:
            raise self._no_completion(f"text that is no JSON: {error}") from None
        self._chat = False
        return reply

    def _ask_chat(self, messages: Sequence[Mapping[str, Any]], settings: dict[str, Any], extra: dict[str, Any]) -> Any:
        ask = partial(self._client.chat.completions.create, messages=[dict(one) for one in messages])
        try:
            try:
                return ask(model=self.model, logprobs=True, extra_body=extra, **settings)
            except self._openai.BadRequestError as error:
                if "logprob" not in str(error).lower():
                    raise
                return ask(model=self.model, extra_body=extra, **settings)
        except self._openai.APIError as error:
            failed = self._failed(error)
            if "tools" in settings and "tool" in str(error).lower():
                failed.add_note("  the request offers tools: take an endpoint that knows them (llama-server: --jinja)")
            raise failed from None
        except ValueError as error:
            raise self._no_completion(f"text that is no JSON: {error}") from None

    def _read(self, reply: Any) -> tuple[Any, str]:
        """The choice and its text; endpoints, and whatever stands before them, answer other things with status 200."""
        choices = getattr(reply, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        said = choice if hasattr(choice, "text") else getattr(choice, "message", None)
        text = getattr(said, "text", None) if said is choice else getattr(said, "content", None)
        if said is None or not isinstance(text, str | None):
            raise self._no_completion(str(getattr(reply, "error", None) or reply))
        return choice, text or ""

    def _no_completion(self, got: str) -> ModelError:
        return ModelError(
            "the endpoint answered, but with no completion",
            got=" ".join(got.split())[:300],
            expected="choices with a text, as OpenAI's API has them",
            where=f"{self.model} at {self.base_url}",
            do="check that the address is that of the API (it ends in /v1), and what stands before it",
        )

    def _constraint(
        self, grammar: str | None, json_schema: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """How this server takes a constraint: (fields of the body, settings that only chat has)."""
        if grammar is None and json_schema is None:
            return {}, {}
        if grammar is not None and json_schema is not None:
            raise BadInput(
                "two constraints at once", got="grammar and json_schema", expected="one of them", where=self.name
            )
        if not self._server:
            try:
                models = self._client.models.list().data
            except self._openai.APIError as error:
                raise self._failed(error) from None
            self._server = next((str(getattr(m, "owned_by", "")) for m in models), "") or "unknown"
        if self._server == "llamacpp":
            return ({"grammar": grammar} if grammar is not None else {"json_schema": dict(json_schema or {})}), {}
        if self._server == "vllm":
            what = {"grammar": grammar} if grammar is not None else {"json": dict(json_schema or {})}
            return {"structured_outputs": what}, {}
        if json_schema is not None:
            form = {"name": "answer", "schema": dict(json_schema), "strict": True}
            return {}, {"response_format": {"type": "json_schema", "json_schema": form}}
        raise ModelError(
            "this endpoint takes no grammar",
            got=f"a server of kind {self._server}",
            expected="llama.cpp or vLLM",
            where=self.name,
            do="use json_schema",
        )

    def _failed(self, error: Exception) -> ModelError:
        """What the endpoint said, without the key."""
        text = str(error)
        for secret in (os.environ.get(v) for v in KEY_VARIABLES):
            text = text.replace(secret, "***") if secret else text
        status = getattr(error, "status_code", None)
        do = {
            None: "check that the server runs and the address is right",
            401: f"put a valid key into ${KEY_VARIABLES[0]}",
            403: f"put a valid key into ${KEY_VARIABLES[0]}",
            404: "check the name of the model and that base_url ends in /v1",
            429: "the endpoint limits the rate: try later, or raise retries",
        }.get(status, "")
        return ModelError(
            "the endpoint cannot be reached" if status is None else "the endpoint refused the request",
            got=f"{status}: {text}" if status else text,
            where=f"{self.model} at {self.base_url}",
            do=do,
        )

    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """Not offered.

        Raises:
            ModelError: always. Endpoints give log-probabilities of what they sample; those of given texts (``echo``)
                are missing from most and wrong on some, and tokens at the seam are merged.
        """
        raise ModelError(
            "a remote model cannot score given continuations",
            got=f"{len(continuations)} continuations for {self.name}",
            expected="a model in this process",
            where="Remote.score",
            do="use a local model (--model smollm2-135m, or a GGUF file), or a method that only generates",
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _settings(how: Sampling, **more: Any) -> dict[str, Any]:
    """The fields of a request that say how to sample."""
    settings = {name: getattr(how, name) for name in ("max_tokens", "temperature", "top_p", "seed")} | more
    return settings | ({"stop": [s for s in how.stop if s][:_MAX_STOP]} if how.stop else {})


def _calls(choice: Any) -> tuple[list[dict[str, Any]], bool]:
    """The calls of an answer in neutral form, and whether all of them can be carried out.

    Arguments that are no JSON object stand there as they came.
    """
    found = getattr(getattr(choice, "message", None), "tool_calls", None)
    functions = [getattr(one, "function", None) for one in found] if isinstance(found, list) else []
    calls, well_formed = list[dict[str, Any]](), True
    for function in functions:
        name, given = getattr(function, "name", None), getattr(function, "arguments", None)
        try:
            arguments = json.loads(given) if isinstance(given, str) and given.strip() else given or {}
        except (ValueError, RecursionError):
            arguments = given
        well_formed = well_formed and isinstance(name, str) and isinstance(arguments, dict)
        calls.append({"name": str(name or ""), "arguments": arguments})
    whole = json.dumps(calls, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(whole), well_formed


def _written(text: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The calls in a text, where all are of tools on offer."""
    calls, offered = read_calls(text).calls, {tool["function"]["name"] for tool in tools}
    return list(calls) if offered.issuperset(call["name"] for call in calls) else []


def _tokens(choice: Any) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and log-probabilities in any of the forms that servers use; empty where they are not given.

    Ids without log-probabilities, or the reverse, are dropped: a record of tokens as sampled needs both.
    """
    given = getattr(choice, "logprobs", None)
    content = getattr(given, "content", None)
    if content:  # chat form; llama.cpp uses it for completions too, with ids
        entries = [e if isinstance(e, Mapping) else e.model_dump() for e in content]
        ids = [e.get("id") for e in entries]
        logp = [e.get("logprob") for e in entries]
    else:  # completions form; vLLM adds ids when asked
        ids, logp = getattr(choice, "token_ids", None) or [], getattr(given, "token_logprobs", None) or []
    if not ids or len(ids) != len(logp) or None in ids or None in logp:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    return np.array(ids, np.int32), np.array(logp, np.float32)
