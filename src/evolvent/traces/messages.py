"""Messages as events, in every dialect: Chat, items of Responses, Anthropic's blocks, OpenTelemetry's parts, ATIF's.

Which one a message has is seen from its keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

from evolvent.traces.events import Call, Event, compact, digest, first, listing, mapping, mappings, number, rest, word

_CALLS = ("tool_use", "server_tool_use", "tool_call", "server_tool_call")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_RESULTS = ("tool_result", "tool_call_response")
_ITEM_CALLS = ("function_call", "custom_tool_call", "mcp_call")
_ITEM_RESULTS = ("output", "outputs", "results", "result")
_MESSAGE = ("role", "content", "parts", "tool_calls", "function_call", "tool_call_id", "refusal", "finish_reason")
_MESSAGE += ("logprobs", "reward", "token_ids", "logp", "prompt_ids", "stop_reason", "status", "incomplete_details")
_MESSAGE += ("usage", "type", "id", "name", "reasoning_content", "is_error")


def message_events(message: dict[str, Any], origin: str) -> list[Event]:
    """One message or item: what the assistant did, what came back, or what somebody said."""
    kind, role = word(message, "type"), word(message, "role")
    if not role and kind:
        return _item(message, kind, origin)
    extra = rest(message, *_MESSAGE)
    if role in ("tool", "function") and "parts" not in message:
        extra = rest(message, *_MESSAGE, "error")
        return [_result(message, word(message, "tool_call_id"), message.get("content"), origin, extra)]
    content = message.get("parts", message.get("content"))
    kinds = [(word(mapping(part), "type"), part) for part in listing(content)]
    results = [
        _result(part, word(part, "tool_use_id", "id"), first(part, "content", "response", "result"), origin)
        for kind, part in kinds
        if kind.endswith(_RESULTS)
    ]
    if isinstance(content, list):
        content = [part for kind, part in kinds if kind not in _CALLS + _THOUGHTS and not kind.endswith(_RESULTS)]
    text = text_of(content)
    if role == "assistant":
        return [_decision(message, kinds, text or word(message, "refusal"), extra, origin), *results]
    if results and not text:
        return results
    role = "system" if role == "developer" else role or "user"
    return [*results, Event(kind="message", role=role, text=text, origin=origin, extra=extra)]


def call_of(one: Mapping[str, Any]) -> Call:
    """A call in any dialect."""
    inner = next((one[key] for key in ("function", "custom") if isinstance(one.get(key), dict)), one)
    name = word(inner, "name", "function_name", "function")
    given = next((inner[key] for key in ("arguments", "input", "server_tool_call") if key in inner), None)
    return Call(word(one, "call_id", "tool_call_id", "id"), name, given)


def _decision(message: dict[str, Any], kinds: list[Any], text: str, extra: dict[str, Any], origin: str) -> Event:
    calls = [call_of(one) for one in mappings(message.get("tool_calls"))]
    if old := mapping(message.get("function_call")):
        calls.append(call_of(old))
    calls += [call_of(part) for kind, part in kinds if kind in _CALLS]
    thoughts = [part for kind, part in kinds if kind in _THOUGHTS]
    thought = [text_of(first(part, "thinking", "reasoning", "text", "content")) for part in thoughts]
    hidden = [first(part, "signature", "data") for part in thoughts]
    logps = [number(one.get("logprob")) for one in mappings(mapping(message.get("logprobs")).get("content"))]
    if any(hidden):
        extra["sealed"] = [_sealed(one) for one in hidden if one]
    if logps:  # of texts, not of ids: their sum is kept
        extra["logp_sum"] = sum(n for n in logps if n is not None)
    return Event(
        kind="decision",
        text=text,
        calls=tuple(calls),
        reasoning="\n".join([*thought, word(message, "reasoning_content")]).strip(),
        token_ids=message.get("token_ids") or (),
        prompt_ids=message.get("prompt_ids"),
        logp=message.get("logp") or (),
        reward=message.get("reward"),
        finish=first(message, "finish_reason", "stop_reason") or _cut_off(message),
        usage=message.get("usage"),
        origin=origin,
        extra=extra,
    )


def _result(
    one: Mapping[str, Any], call: str, content: Any, origin: str, extra: Mapping[str, Any] | None = None
) -> Event:
    given = one.get("error")
    error = {"type": given} if isinstance(given, str) else mapping(given)
    failed = one.get("is_error") or one.get("status") in ("error", "failed")
    return Event(
        kind="tool",
        calls=(Call(call, word(one, "name")),),
        text=text_of(content) or word(error, "message"),
        error=word(error, "type") or ("error" if failed else ""),
        origin=origin,
        extra=extra or {},
    )


def _item(item: dict[str, Any], kind: str, origin: str) -> list[Event]:
    """An item of Responses without a role."""
    if kind.endswith("_output"):
        return [_result(item, word(item, "call_id", "id"), item.get("output"), origin)]
    if kind == "reasoning":
        thought = text_of(item.get("content")) or text_of(item.get("summary"))
        extra = {"sealed": [_sealed(item["encrypted_content"])]} if item.get("encrypted_content") else {}
        return [Event(kind="decision", reasoning=thought, finish=_cut_off(item), origin=origin, extra=extra)]
    if kind.endswith("_call"):
        call = call_of(item)
        if kind not in _ITEM_CALLS:  # a tool that is built in, whose fields are its arguments
            given = rest(item, "type", "id", "call_id", "status", *_ITEM_RESULTS)
            call = Call(call.id, kind.removesuffix("_call"), given)
        made = Event(kind="decision", calls=(call,), finish=_cut_off(item), origin=origin)
        found = next((item[key] for key in _ITEM_RESULTS if item.get(key) is not None), None)
        return [made] if found is None else [made, _result(item, call.id, found, origin)]  # the provider ran it
    if kind == "compaction":
        extra = {"sealed": _sealed(item)}
        return [Event(kind="message", role="system", text="[compaction]", origin=origin, extra=extra)]
    return [Event(kind="message", role="user", text=text_of(item), origin=origin, extra={"type": kind})]


def _cut_off(message: Mapping[str, Any]) -> str:
    """How an item of Responses ended."""
    if message.get("status") != "incomplete":
        return ""
    return word(mapping(message.get("incomplete_details")), "reason") or "max_output_tokens"


def _sealed(value: Any) -> dict[str, Any]:
    """What a provider signed or encrypted: its hash and length stand for it."""
    text = value if isinstance(value, str) else compact(value)
    return {"sha256": digest(text), "length": len(text)}


# --------------------------------------------------------------------------------------------------------- texts
def text_of(content: Any) -> str:
    """The text of a message: its text parts, one a line, in order; of a picture, sound or file a short note."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for part in content if (text := text_of(part)))
    if not isinstance(content, dict):
        return compact(content)
    if kind := _media_kind(content):
        return _media(kind, content)
    inner = next(
        (content[key] for key in ("text", "content", "refusal") if isinstance(content.get(key), (str, list))), None
    )
    return compact(content) if inner is None else text_of(inner)


def _media_kind(part: Mapping[str, Any]) -> str:
    """Whether a part is a picture, a sound, a video or a file; "" = none of them."""
    kind = word(part, "type")
    if kind in ("blob", "uri"):
        return word(part, "modality") or "file"
    return next((name for name in ("image", "audio", "video", "file", "document") if name in kind), "")


def _media(kind: str, part: Mapping[str, Any]) -> str:
    """``[image png, 1,234 bytes, sha256 ab12…]``: bytes are not copied, addresses and paths are not opened."""
    inner = next((part[k] for k in ("image_url", "input_audio", "source", "file", "image", "audio") if k in part), part)
    inner = {"data": inner} if isinstance(inner, str) else mapping(inner)
    head, _, tail = word(inner, "data", "file_data", "content", "url").rpartition(",")
    mime = word(inner, "media_type") or word(part, "mime_type") or word(inner, "format") or head[5:].partition(";")[0]
    what = f"{kind} {mime.rpartition('/')[2]}".strip()
    try:
        content = base64.b64decode(tail, validate=True) if "://" not in tail else b""
    except (binascii.Error, ValueError):
        content = b""
    if not content:
        return f"[{what}, not opened]"
    return f"[{what}, {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:8]}…]"
