"""Spans and log records of OpenTelemetry as OTLP JSON: ``gen_ai`` in its three generations, and OpenInference.

Which generation a span is of is seen from its keys; the schema's URL does not tell. Spans stand in any order. A
score on a model call pays that decision, one on an agent or a trace pays the attempt.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    evaluations: list[tuple[int, Span, dict[str, Any]]] = []
    for log in logs:
        if log.name == _EVALUATION:
            evaluations.append((log.start, log, log.attributes))
        elif (span := spans.get((log.trace, log.id))) is not None:
            _add_log(span, log)
    _place(spans, repairs)
    groups = _groups(spans.values())
    evaluations += [one for span in spans.values() for one in _evaluations(span)]
    scores = _scores(evaluations, spans, groups, repairs)
    for key, members in sorted(groups.items()):
        attempt = _attempt(key, members, scores.get(key, {}), repairs.part())
        if any(event.kind == "decision" for event in attempt.events):
            yield attempt
        else:
            repairs.add("traces without a call of a model, left out", members[0].place, fault=False)


# -------------------------------------------------------------------------------------------------------- structure
def _place(spans: Mapping[tuple[str, str], Span], repairs: Repairs) -> None:
    """Put each span inside of its parent; an edge that closes a cycle is cut, a missing parent makes a root."""
    for _, span in sorted(spans.items()):
        way: dict[int, Span] = {}
        at: Span | None = span
        while at is not None and at.depth < 0 and id(at) not in way:
            way[id(at)] = at
            at = spans.get((at.trace, at.parent)) if at.parent else None
        upward = list(way.values())
        if at is not None and at.depth < 0:
            repairs.add("spans that are their own ancestors, cut", at.place, len(upward) - upward.index(at))
            at = None
        elif at is None and upward and upward[-1].parent:
            repairs.add("spans whose parent is missing", upward[-1].place, fault=False)
        for one in reversed(upward):
            one.place_in(at)
            at = one


def _groups(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans of each attempt: of the conversation that they are in, their trace's only one, their trace."""
    of_trace: dict[str, set[str]] = defaultdict(set)
    for span in spans:
        of_trace[span.trace] |= {span.conversation} - {""}
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        only = next(iter(of_trace[span.trace])) if len(of_trace[span.trace]) == 1 else span.trace
        groups[span.conversation or only].append(span)
    return groups


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
        yield span.start, span.above or span, span.attributes


def _scores(
    evaluations: Sequence[tuple[int, Span, dict[str, Any]]],
    spans: Mapping[tuple[str, str], Span],
    groups: Mapping[str, Sequence[Span]],
    repairs: Repairs,
) -> dict[str, dict[str, float]]:
    """Scores of attempts, by group; those of decisions go to their spans. Of one name the last counts."""
    by_response = {span.text("response"): span for span in spans.values() if span.get("response")}
    group = {(one.trace, one.id): key for key, members in groups.items() for one in members}
    by_trace = {trace: key for (trace, _), key in group.items()}
    whole: dict[str, dict[str, float]] = defaultdict(dict)
    for _, at, values in sorted(evaluations, key=lambda one: (one[0], compact(one[2]))):
        name, value = word(values, "gen_ai.evaluation.name"), number(values.get("gen_ai.evaluation.score.value"))
        if name.startswith(_OWN):
            continue
        if value is None or values.get("error.type"):
            repairs.add("evaluations that gave no number: no outcome", at.place, fault=False)
            continue
        span = spans.get((at.trace, at.id)) or by_response.get(word(values, "gen_ai.response.id"))
        if span is not None and span.kind == "decision":
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
    spans.sort(key=lambda s: (s.start, s.depth, s.place if not s.start else "", s.id))
    _once(spans, repairs)
    _from_agents(spans)
    content = any(
        span.get("input") or span.get("output") or span.events or openinference.known(span.attributes)
        for span in spans
        if span.kind == "decision"
    )
    events = [event for span in spans if not span.dropped for event in _of_span(span, content, repairs)]
    others = sorted({span.operation or span.name for span in spans if not span.kind} - {"invoke_agent"})
    main = next((span for span in spans if span.kind == "decision"), spans[0])
    agent = main.agent or main
    told = sorted(compact([s.id, s.attributes, s.events, s.failed, s.scores]) for s in spans)
    roots = [span for span in spans if span.above is None] or spans[:1]
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
        extra={"root": rest(roots[0].attributes, *READ), "other_spans": others} if not roots[0].kind else {},
    )


def _once(spans: Sequence[Span], repairs: Repairs) -> None:
    """A call of a model that a framework and a client recorded both: the innermost counts."""
    for span in spans:
        above = span.decision if span.kind == "decision" and not span.dropped else None
        while above is not None:
            ours, theirs = span.get("output"), above.get("output")
            same = span.text("response") == above.text("response") != ""
            if not above.dropped and (same or None in (ours, theirs) or ours == theirs):
                above.dropped = True
                span.attributes = {**above.attributes, **span.attributes}
                span.scores = {**above.scores, **span.scores}
                repairs.add("calls of the model recorded twice, one inside the other", span.place, fault=False)
            above = above.decision


def _from_agents(spans: Sequence[Span]) -> None:
    """Messages that only the agent's span holds go to its decisions; without any, the agent is the decision."""
    decisions: dict[int, list[Span]] = defaultdict(list)
    within = set[int]()
    for span in spans:
        agent = span.agent if span.kind == "decision" else None
        if agent is not None:
            decisions[id(agent)].append(span)
        while agent is not None and id(agent) not in within:
            within.add(id(agent))
            agent = agent.agent
    for agent in spans:
        if agent.operation != "invoke_agent" or (agent.get("input") is None and agent.get("output") is None):
            continue
        own = decisions[id(agent)]
        if id(agent) not in within:
            agent.attributes["gen_ai.operation.name"] = "chat"
        elif own and not any(s.get("input") is not None or s.get("output") is not None or s.events for s in own):
            own[0].attributes["gen_ai.input.messages"] = agent.get("input")
            own[-1].attributes["gen_ai.output.messages"] = agent.get("output")


def _of_span(span: Span, content: bool, repairs: Repairs) -> Iterator[Event]:
    """The event of a span that is one; without ``content`` only the spans tell conversations apart."""
    kind, agent = span.kind, span.agent
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
        caller=agent.tool.text("call") if agent and agent.tool else "",
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
