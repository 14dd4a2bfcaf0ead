"""ATIF, Harbor's trajectory format (versions 1.x): a document, or the folder of a trial with its ``result.json``.

A document holds no reward: it comes from the trial's verifier, or from ``extra.evolvent``. ``write_credit`` puts credit
back into a document, which is otherwise the same.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from evolvent.core.errors import BadInput
from evolvent.traces.events import (
    USAGE,
    Attempt,
    Call,
    Event,
    Repairs,
    digest,
    listing,
    mapping,
    mappings,
    parse,
    read_bytes,
    rest,
    word,
)
from evolvent.traces.messages import call_of, text_of

FORMAT = "atif"
_NEWEST = 8
_ROOT = ("schema_version", "session_id", "trajectory_id", "agent", "steps", "final_metrics", "subagent_trajectories")
_STEP = ("step_id", "timestamp", "source", "message", "observation", "is_copied_context", "llm_call_count", "extra")
_STEP += ("tool_calls", "metrics", "reasoning_content")
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")


class _Doc(NamedTuple):
    """A document, where it stands (``place``: file and pointer), and the call that started it."""

    content: dict[str, Any]
    place: str
    caller: str = ""
    goes_on: str = ""
    """Place of the document that it continues."""


class _Ref(NamedTuple):
    """Another document that a result points to."""

    id: str
    path: str
    caller: str


def read_all(paths: Sequence[Path], repairs: Repairs) -> Iterator[Attempt]:
    """The attempts of documents and folders of trials; continuations belong to the document that names them.

    Raises:
        BadInput: with ``strict``, a document that cannot be read.
    """
    found = [pair for path in paths for pair in _documents(path)]
    taken: set[Path] = set()
    for document, result in sorted(found, key=lambda pair: ".cont-" in pair[0].name):
        if document.resolve() in taken:
            continue
        if ".cont-" in document.name:
            repairs.add("continuations without their beginning", document.name, fault=False)
        try:
            yield _attempt(document, result, repairs.part(), taken)
        except BadInput as error:
            repairs.add(f"documents left out: {error.what}", error.where or str(document))


def _documents(path: Path) -> list[tuple[Path, Path | None]]:
    """A document, that of a trial with the trial's result, or those of all trials in a folder."""
    if not path.is_dir():
        return [(path, None)]
    trials = [path] if (path / "agent").is_dir() else sorted(one for one in path.iterdir() if one.is_dir())
    found = [(trial / "agent" / "trajectory.json", trial / "result.json") for trial in trials]
    return [(document, result if result.exists() else None) for document, result in found if document.exists()]


def _attempt(path: Path, result_path: Path | None, repairs: Repairs, taken: set[Path]) -> Attempt:
    data = read_bytes(path)
    document = _checked(parse(data, path.name, repairs), path.name, repairs)
    result_data = b"" if result_path is None else read_bytes(result_path)
    result = mapping(parse(result_data, "result.json", repairs)) if result_data else {}
    walk = _Walk(path, repairs)
    events = walk.events(_Doc(document, ""))
    taken |= {path.resolve(), *walk.files}
    agent, own = mapping(document.get("agent")), mapping(mapping(document.get("extra")).get("evolvent"))
    scores = {} if result.get("reward_valid") is False else mapping(result.get("verifier_result")).get("rewards")
    stop = word(mapping(result.get("exception_info")), "exception_type")
    details = listing(mapping(result.get("agent_result")).get("rollout_details"))
    return Attempt(
        format=FORMAT,
        key=word(document, "trajectory_id") or f"{word(document, 'session_id')}:{digest(data)}",
        sha256=digest(data, result_data, *walk.data),
        where=path.name,
        events=tuple(_with_rollout(events, mapping(details[0]), repairs) if details else events),
        repairs=repairs,
        name=word(result, "trial_name") or word(document, "trajectory_id", "session_id") or path.name,
        task=word(result, "task_name"),
        policy=" ".join(text for key in ("name", "version", "model_name") if (text := word(agent, key))),
        scores=mapping(scores),
        reward=own.get("reward"),
        success=own.get("success"),
        limit=stop if "Timeout" in stop else "",
        valid=not stop or bool(scores),
        stop=stop,
        fields={**document, "result": result},
        extra={**rest(document, *_ROOT, "extra"), **rest(mapping(document.get("extra")), "evolvent")},
        original=data,
        total_usage=document.get("final_metrics"),
    )


def _checked(document: Any, where: str, repairs: Repairs) -> dict[str, Any]:
    """A document of a version that is understood.

    Raises:
        BadInput: another major version, or no document of this format.
    """
    version = str(mapping(document).get("schema_version", ""))
    major, _, minor = version.removeprefix("ATIF-v").partition(".")
    if not version.startswith("ATIF-v") or major != "1" or not minor.isdecimal():
        raise BadInput("no ATIF document of version 1", got=version or "no schema_version", where=where)
    if int(minor) > _NEWEST:
        repairs.add("documents of a newer version", where, fault=False)
    return document


# ---------------------------------------------------------------------------------------------------------- walking
class _Walk:
    """A document and those that it points to, each once, in the order in which they began."""

    def __init__(self, root: Path, repairs: Repairs) -> None:
        self.root, self.repairs = root, repairs
        self.files: set[Path] = set()
        self.data: list[bytes] = []
        self.embedded: dict[str, _Doc] = {}
        self.visited: set[str] = set()

    def events(self, root: _Doc) -> list[Event]:
        """All events; what nobody points to comes last."""
        self._index(root)
        events = self._from(root)
        for doc in list(self.embedded.values()):
            events += self._from(doc) if doc.place not in self.visited else []
        return events

    def _from(self, root: _Doc) -> list[Event]:
        events: list[Event] = []
        self.visited.add(root.place)
        stack = [self._steps(root)]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
            elif isinstance(item, Event):
                events.append(item)
            elif isinstance(item, _Doc):
                stack.append(self._steps(item))
            elif (child := self._resolve(item)) is not None:
                if child.place in self.visited:
                    self.repairs.add("sub-agents that lead back, cut", child.place or "the document")
                else:
                    self.visited.add(child.place)
                    stack.append(self._steps(child))
        return events

    def _index(self, root: _Doc) -> None:
        """The documents inside ``root``, by their names."""
        self.embedded.setdefault(word(root.content, "trajectory_id") or f"@{root.place}", root)
        waiting = deque([root])
        while waiting:
            doc = waiting.popleft()
            for i, one in enumerate(mappings(doc.content.get("subagent_trajectories"))):
                child = _Doc(one, f"{doc.place}/subagent_trajectories/{i}")
                if self.embedded.setdefault(word(one, "trajectory_id") or f"@{child.place}", child) is not child:
                    self.repairs.add("sub-agents with one name, the first is taken", child.place)
                waiting.append(child)

    def _resolve(self, ref: _Ref) -> _Doc | None:
        if ref.id in self.embedded:
            return self.embedded[ref.id]._replace(caller=ref.caller)
        doc = self._file(ref.path) if ref.path else None
        if doc is None:
            self.repairs.add("sub-agents not followed, their result is kept", ref.path or ref.id, fault=False)
            return None
        return doc._replace(caller=ref.caller)

    def _file(self, name: str) -> _Doc | None:
        """Another document in the same folder; no other place is opened."""
        path = self.root.parent / name
        if Path(name).name != name or name == self.root.name or path.is_symlink() or not path.is_file():
            return None
        data = read_bytes(path)
        if path.resolve() not in self.files:
            self.files.add(path.resolve())
            self.data.append(data)
        doc = _Doc(_checked(parse(data, name, self.repairs), name, self.repairs), f"{name}#")
        self._index(doc)
        return doc

    def _steps(self, doc: _Doc) -> Iterator[Event | _Ref | _Doc]:
        """The events of a document's own steps, and where others begin."""
        agent = word(mapping(doc.content.get("agent")), "name") or "agent"
        steps = mappings(doc.content.get("steps"))
        if not steps:
            self.repairs.add("documents without steps", doc.place or "the document")
        fresh, context = bool(doc.goes_on), doc.goes_on or f"@{doc.place}"
        for i, step in enumerate(steps):
            for made in _step(step, f"{doc.place}/steps/{i}"):
                if isinstance(made, Event):
                    made = dataclasses.replace(
                        made, agent=agent, context=context, caller=doc.caller, fresh=made.fresh or fresh
                    )
                    fresh = False
                yield made
        if ref := word(doc.content, "continued_trajectory_ref"):
            after = self._file(ref)
            if after is None or after.place in self.visited:
                self.repairs.add("continuations not followed", ref, fault=False)
            else:
                self.visited.add(after.place)
                yield after._replace(goes_on=context)


def _step(step: dict[str, Any], place: str) -> Iterator[Event | _Ref]:
    """What happened in one step: what was said or decided, and what came back."""
    extra, metrics, count = mapping(step.get("extra")), mapping(step.get("metrics")), step.get("llm_call_count")
    more = rest(step, *_STEP) | rest(extra, "evolvent", "reward", "context_management")
    source, text = word(step, "source") or "user", text_of(step.get("message"))
    calls = tuple(call_of(one) for one in mappings(step.get("tool_calls")))
    replaces = mapping(extra.get("context_management")).get("boundary") == "replace"
    decides = source == "agent" and not step.get("is_copied_context")
    if decides and count == 0:  # no model decided
        yield Event(kind="component", text=text or "step without a model", calls=calls, origin=place, extra=more)
    elif decides:
        one = not isinstance(count, int) or count == 1  # of several calls the ids are not those of one prompt
        more |= rest(metrics, *_TOKENS, *USAGE) | ({} if one else {"llm_call_count": count})
        yield Event(
            kind="decision",
            text=text,
            calls=calls,
            reasoning=text_of(step.get("reasoning_content")),
            token_ids=(one and metrics.get("completion_token_ids")) or (),
            prompt_ids=metrics.get("prompt_token_ids") if one else None,
            logp=(one and metrics.get("logprobs")) or (),
            reward=extra.get("reward"),
            usage=metrics,
            origin=place,
            extra=more,
        )
    if not decides or replaces:
        role = "assistant" if source == "agent" else source
        yield Event(kind="message", role=role, text=text, calls=calls, origin=place, extra=more, fresh=replaces)
    for one in mappings(mapping(step.get("observation")).get("results")):
        call, came = word(one, "source_call_id"), text_of(one.get("content"))
        known = rest(one, "source_call_id", "content", "subagent_trajectory_ref")
        if decides and calls:
            yield Event(kind="tool", calls=(Call(call),), text=came, origin=place, extra=known)
        elif came:
            yield Event(kind="message", role="tool", text=came, origin=place, extra=known)
        for ref in mappings(one.get("subagent_trajectory_ref")):
            yield _Ref(word(ref, "trajectory_id"), word(ref, "trajectory_path"), call)


def _with_rollout(events: list[Event], details: Mapping[str, Any], repairs: Repairs) -> list[Event]:
    """Token ids of the main agent's calls, where the trial's result has them and the document has not."""
    main = [i for i, e in enumerate(events) if e.kind == "decision" and e.context == "@"]
    ids, prompts, logps = (
        listing(details.get(key)) for key in ("completion_token_ids", "prompt_token_ids", "logprobs")
    )
    if not ids or any(events[i].token_ids for i in main):
        return events
    if len(ids) != len(main):
        repairs.add("token ids of another number of calls, left out", "result.json")
        return events
    for i, own, prompt, logp in zip_longest(main, ids, prompts[: len(main)], logps[: len(main)]):
        events[i] = dataclasses.replace(events[i], token_ids=own or (), prompt_ids=prompt, logp=logp or ())
    return events


# -------------------------------------------------------------------------------------------------------- writing
def write_credit(document: dict[str, Any], steps: Mapping[str, Mapping[str, Any]], root: Mapping[str, Any]) -> int:
    """Put credit under ``extra.evolvent`` of a document, in place; the rest stays as it is.

    Args:
        document: as it was read; the places of steps are its own.
        steps: by place of a step: what to put there.
        root: what to put at the root.

    Returns:
        how many of the steps stand in this document.
    """
    written = 0
    for place, values in {"": root, **steps}.items():
        at: Any = document
        for key in place.split("/")[1:]:
            known = {str(i): one for i, one in enumerate(at)} if isinstance(at, list) else mapping(at)
            at = known.get(key)
        if isinstance(at, dict) and "#" not in place:
            extra = mapping(at.get("extra"))
            at["extra"] = {**extra, "evolvent": {**mapping(extra.get("evolvent")), **values}}
            written += place != ""
    return written
