"""Spans and log records of OpenTelemetry as OTLP JSON: ``gen_ai`` in its three generations, and OpenInference.

Which generation a span is of is seen from its keys; the schema's URL does not tell. Spans stand in any order. A
score on a model call pays that decision, one on an agent or a trace pays the attempt.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.traces import openinference
from evolvent.traces.events import (
    Attempt,
    Call,
    Event,
    Repairs,
    clean,
    compact,
    digest,
    mapping,
    number,
    parse,
    rest,
    word,
)
from evolvent.traces.messages import message_events
from evolvent.traces.otlp import READ, Span, records, values_of

FORMAT = "otel"
_DECISIONS = ("chat", "generate_content", "text_completion", "fetch_response")
_TOOLS = ("execute_tool", "retrieval", "search_memory", "create_memory", "update_memory", "upsert_memory")
_TOOLS += ("delete_memory", "create_memory_store", "delete_memory_store")
_EVALUATION, _OWN = "gen_ai.evaluation.result", "evolvent.credit."


def read_all(paths: Sequence[Path], repairs: Repairs) -> Iterator[Attempt]:
    """The attempts of files of spans and of log records, which belong together.

    Raises:
        BadInput: no such file, or the SDK's dump for a console.
    """
    spans, logs = dict[tuple[str, str], Span](), list[Span]()
    for path in paths:
        for where, value in values_of(path, repairs):
            for one, kind in records(value, where, repairs):
                if kind == "logRecords":
                    logs.append(one)
                elif (one.trace, one.id) in spans:
                    repairs.add("spans with one id, the first is taken", where)
                else:
                    spans[one.trace, one.id] = one
    _ancestors(spans, repairs)
    evaluations = [e for one in spans.values() for e in _evaluations(one)]
    for log in logs:
        if log.name == _EVALUATION:
            evaluations.append((log.start, log, log.attributes))
        elif (span := spans.get((log.trace, log.id))) is not None:
            _add_log(span, log)
    groups: dict[str, list[Span]] = defaultdict(list)
    name = _group_names(spans)
    for span in spans.values():
        groups[name[span.trace, span.id]].append(span)
    scores = _scores(evaluations, spans, name, repairs)
    for key, members in sorted(groups.items()):
        attempt = _attempt(key, members, scores.get(key, {}), repairs.part())
        if any(event.kind == "decision" for event in attempt.events):
            yield attempt
        else:
            repairs.add("traces without a call of a model, left out", members[0].place, fault=False)


# -------------------------------------------------------------------------------------------------------- structure
def _ancestors(spans: Mapping[tuple[str, str], Span], repairs: Repairs) -> None:
    """Find the way up of each span; an edge that closes a cycle is cut, a missing parent makes a root."""
    for span in spans.values():
        seen, at = {span.id}, span
        while (above := spans.get((at.trace, at.parent))) is not None:
            if above.id in seen:
                repairs.add("spans that are their own ancestors, cut", span.place)
                break
            seen.add(above.id)
            span.up.append(above)
            at = above
        if at.parent and above is None:
            repairs.add("spans whose parent is missing", span.place, fault=False)


def _group_names(spans: Mapping[tuple[str, str], Span]) -> dict[tuple[str, str], str]:
    """The attempt of each span: the conversation that it or an ancestor names, its trace's only one, its trace."""
    of_trace: dict[str, set[str]] = defaultdict(set)
    for span in spans.values():
        of_trace[span.trace] |= {span.text("conversation")} - {""}
    names: dict[tuple[str, str], str] = {}
    for key, span in spans.items():
        own = next((name for one in (span, *span.up) if (name := one.text("conversation"))), "")
        names[key] = own or (next(iter(of_trace[span.trace])) if len(of_trace[span.trace]) == 1 else span.trace)
    return names


def _add_log(span: Span, log: Span) -> None:
    """A log record of a span: messages that the span itself does not hold."""
    if log.name.startswith("gen_ai.") and log.name.endswith((".message", ".choice")):
        span.events.append((log.name, log.start, {**log.attributes, **mapping(log.attributes.get("body"))}))
    else:
        span.attributes = {**log.attributes, **span.attributes}


# ---------------------------------------------------------------------------------------------------------- outcomes
def _evaluations(span: Span) -> Iterator[tuple[int, Span, dict[str, Any]]]:
    for name, time, values in span.events:
        if name == _EVALUATION:
            yield time, span, values
    if span.get("score_name"):
        yield span.start, (span.up or [span])[0], span.attributes


def _scores(
    evaluations: Sequence[tuple[int, Span, dict[str, Any]]],
    spans: Mapping[tuple[str, str], Span],
    group: Mapping[tuple[str, str], str],
    repairs: Repairs,
) -> dict[str, dict[str, float]]:
    """Scores of attempts, by group; those of decisions go to their spans. Of one name the last counts."""
    by_response = {span.text("response"): span for span in spans.values() if span.get("response")}
    by_trace = {span.trace: group[key] for key, span in spans.items()}
    whole: dict[str, dict[str, float]] = defaultdict(dict)
    for _, at, values in sorted(evaluations, key=lambda one: (one[0], one[1].place)):
        name, value = word(values, "gen_ai.evaluation.name"), number(values.get("gen_ai.evaluation.score.value"))
        if name.startswith(_OWN):
            continue
        if value is None or values.get("error.type"):
            repairs.add("evaluations that gave no number: no outcome", at.place, fault=False)
            continue
        span = spans.get((at.trace, at.id)) or by_response.get(word(values, "gen_ai.response.id"))
        if span is not None and span.operation in _DECISIONS:
            target = span.scores
        elif span is not None or at.trace in by_trace:
            target = whole[by_trace[at.trace] if span is None else group[span.trace, span.id]]
        else:
            repairs.add("evaluations of nothing that is here", at.place, fault=False)
            continue
        if name in target:
            repairs.add("evaluations replaced by a later one", at.place, fault=False)
        target[name] = value
    return whole


# ------------------------------------------------------------------------------------------------------------ events
def _attempt(key: str, spans: list[Span], scores: dict[str, float], repairs: Repairs) -> Attempt:
    spans.sort(key=lambda s: (s.start, len(s.up), s.place if not s.start else "", s.id))
    _once(spans, repairs)
    _from_agents(spans)
    content = any(
        span.get("input") or span.get("output") or span.events or openinference.known(span.attributes)
        for span in spans
        if _kind(span) == "decision"
    )
    events = [event for span in spans if not span.dropped for event in _of_span(span, content, repairs)]
    others = sorted({span.operation or span.name for span in spans if not _kind(span)} - {"invoke_agent"})
    main = next((span for span in spans if span.operation in _DECISIONS), spans[0])
    agent = main.agent or main
    told = sorted(compact([s.id, s.attributes, s.events, s.failed, s.scores]) for s in spans)
    roots = [span for span in spans if not span.up] or spans[:1]
    fields = {name: value for span in reversed(roots) for name, value in span.attributes.items()}
    return Attempt(
        format=FORMAT,
        key=key,
        sha256=digest(*told, compact(scores)),
        where=spans[0].place,
        events=tuple(events),
        repairs=repairs,
        policy=" ".join(t for t in (agent.text("agent"), agent.text("version"), main.text("model")) if t),
        scores=scores,
        fields=fields,
        extra={"root": rest(roots[0].attributes, *READ), "other_spans": others} if not _kind(roots[0]) else {},
    )


def _kind(span: Span) -> str:
    return "decision" if span.operation in _DECISIONS else "tool" if span.operation in _TOOLS else ""


def _once(spans: Sequence[Span], repairs: Repairs) -> None:
    """A call of a model that a framework and a client recorded both: the innermost counts."""
    for span in spans:
        for above in span.up:
            if _kind(span) == _kind(above) == "decision" and not above.dropped:
                ours, theirs = span.get("output"), above.get("output")
                same = span.text("response") == above.text("response") != ""
                if same or None in (ours, theirs) or ours == theirs:
                    above.dropped = True
                    span.attributes = {**above.attributes, **span.attributes}
                    span.scores = {**above.scores, **span.scores}
                    span.up = [one for one in span.up if one is not above]
                    repairs.add("calls of the model recorded twice, one inside the other", span.place, fault=False)


def _from_agents(spans: Sequence[Span]) -> None:
    """Messages that only the agent's span holds go to its decisions; without any, the agent is the decision."""
    for agent in spans:
        if agent.operation != "invoke_agent" or (agent.get("input") is None and agent.get("output") is None):
            continue
        own = [span for span in spans if span.agent is agent and _kind(span) == "decision"]
        if not own and not any(agent in span.up and _kind(span) == "decision" for span in spans):
            agent.attributes["gen_ai.operation.name"] = "chat"
        elif own and not any(s.get("input") is not None or s.get("output") is not None or s.events for s in own):
            own[0].attributes["gen_ai.input.messages"] = agent.get("input")
            own[-1].attributes["gen_ai.output.messages"] = agent.get("output")


def _of_span(span: Span, content: bool, repairs: Repairs) -> Iterator[Event]:
    """The event of a span that is one; without ``content`` only the spans tell conversations apart."""
    kind, agent = _kind(span), span.agent
    if not kind:
        return
    who = (agent.text("agent") if agent else "") or span.text("agent") or "agent"
    context = who if content else f"{who} {agent.id if agent else span.trace}"
    error = span.text("error") or ("error" if span.failed else "")
    extra = rest(span.attributes, *READ, "resource", "body", *openinference.known(span.attributes))
    if kind == "tool":
        call = Call(span.text("call"), span.text("tool") or span.operation, span.get("arguments"))
        if span.operation.endswith("memory") or span.operation == "retrieval":
            call = Call(call.id, span.operation, {"query": call.arguments} if call.arguments else {})
        text = clean(span.text("result"), span.place, repairs)
        yield Event(
            kind=kind, agent=who, context=context, calls=(call,), text=text, error=error, origin=span.id, extra=extra
        )
        return
    inputs, outputs, cut = _messages(span, repairs)
    said = next((one for one in outputs if one.kind == "decision"), Event(kind="decision"))
    callers = (one.text("call") for one in (agent.up if agent else ()) if one.operation == "execute_tool")
    finish = span.get("finish")
    if len(outputs) > 1:
        extra["other_choices"] = [one.text for one in outputs[1:]]
    yield dataclasses.replace(
        said,
        agent=who,
        context=context,
        inputs=tuple(inputs),
        delta=bool(span.get("previous")),
        cut=cut,
        scores=span.scores,
        finish=(finish[0] if isinstance(finish, list) and finish else finish) or said.finish,
        error=error,
        usage=span.attributes,
        origin=span.id,
        same_as=span.text("response"),
        caller=next(callers, ""),
        extra={**said.extra, **extra, "response": span.text("response")},
    )


def _messages(span: Span, repairs: Repairs) -> tuple[list[Event], list[Event], bool]:
    """What entered and what came out; whether the former lost its end."""
    asked, lost = _decoded(span.get("input"), span, repairs)
    said, lost_too = _decoded(span.get("output"), span, repairs)
    system, _ = _decoded(span.get("system"), span, repairs)
    if not asked and not said and not lost and not lost_too:
        asked, said = openinference.messages(span.attributes)
    if not asked and not said:
        asked, said = _of_events(span, repairs)
    if lost or lost_too:
        repairs.add("attempts with messages that were cut", span.place)
    if system:
        asked = [{"role": "system", "parts": system}, *asked]
    into = [event for one in asked for event in _message(one, span.id, "user")]
    return into, [event for one in said for event in _message(one, span.id, "assistant")], lost


def _message(message: Any, origin: str, role: str) -> list[Event]:
    """A message of any generation; a text alone is one, too."""
    given = message if isinstance(message, dict) else {"content": message}
    return message_events({"role": role, **given, "id": ""}, origin)


def _decoded(value: Any, span: Span, repairs: Repairs) -> tuple[list[Any], bool]:
    """Messages of an attribute, which is structured or JSON text; of text that was cut those that are whole."""
    if not isinstance(value, str):
        return value if isinstance(value, list) else [] if value is None else [value], False
    if value[:1] not in ("[", "{"):
        return [value] if value else [], False
    try:
        found = parse(value.encode("utf-8", "replace"), span.place, repairs)
        return found if isinstance(found, list) else [found], False
    except BadInput as error:
        if error.what != "not JSON":
            repairs.add(f"messages left out: {error.what}", span.place)
            return [], True
    whole: list[Any] = []
    at, decoder = 1, json.JSONDecoder()
    while True:
        at += len(value[at : at + 64]) - len(value[at : at + 64].lstrip(", \n"))
        try:
            one, at = decoder.raw_decode(value, at)
            whole.append(clean(one, span.place, repairs))
        except (ValueError, RecursionError, BadInput):
            return whole, True


def _of_events(span: Span, repairs: Repairs) -> tuple[list[Any], list[Any]]:
    """Messages as events of the span, the first generation."""
    asked, said = list[Any](), list[Any]()
    for name, _, values in sorted(span.events, key=lambda event: event[1]):
        one = {**values, "tool_calls": _decoded(values.get("tool_calls"), span, repairs)[0]}
        role = name.removeprefix("gen_ai.").removesuffix(".message")
        if name == "gen_ai.choice":
            message = mapping(next(iter(_decoded(one.get("message"), span, repairs)[0]), {}))
            said.append({"role": "assistant", **message, "finish_reason": one.get("finish_reason")})
        elif name == f"gen_ai.{role}.message":
            asked.append({**one, "role": role, **({"tool_call_id": one.get("id")} if role == "tool" else {})})
    return asked, said
