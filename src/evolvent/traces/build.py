"""An attempt of another harness becomes an ``Episode``: every decision about it is made here, once for all formats.

Three passes: where each decision goes on from (the longest context that is known already), which result belongs to
which call, and the nodes in order.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.traces.events import (
    MAX_NODES,
    Attempt,
    Call,
    Event,
    Repairs,
    clean,
    compact,
    digest,
    finish_of,
    mapping,
    number,
    usage_of,
)
from evolvent.traces.outcome import Options as Options
from evolvent.traces.outcome import pay


@dataclass(eq=False)
class _Used:
    """A call of a decision and what it gave, by who says so."""

    call: Call
    results: dict[str, Event] = field(default_factory=dict[str, Event])


@dataclass(eq=False)
class _Turn:
    """A decision and where it stands: ``new`` entered its context since ``follows`` (``beside``: since before that).

    ``lead``: tools before the first decision; ``loose``: results without a call. ``seen``, ``node`` and ``last`` are
    the indices of what it saw, of itself and of its last tool; ``prompt`` and ``context`` the tokens before and after.
    """

    event: Event
    new: Sequence[Event] = ()
    follows: _Turn | None = None
    beside: bool = False
    lead: list[Event] = field(default_factory=list[Event])
    calls: list[_Used] = field(default_factory=list[_Used])
    loose: list[Event] = field(default_factory=list[Event])
    retries: list[str] = field(default_factory=list[str])
    before: str = ""
    seen: int = -1
    node: int = -1
    last: int = -1
    prompt: np.ndarray | None = None
    context: np.ndarray | None = None


def episode_id(attempt: Attempt) -> str:
    """The name of the attempt among ours: 32 hex digits of its format and key."""
    return digest(attempt.format, attempt.key)[:32]


def build(attempt: Attempt, options: Options = Options()) -> Episode:
    """The attempt as an ended ``Episode``; what was mended is counted in ``attempt.repairs``.

    Raises:
        BadInput: more nodes than an attempt may have, or a condition that is none.
    """
    turns, trailing = _turns(attempt)
    _match(turns, attempt)
    size = sum(1 + len(t.new) + len(t.calls) + len(t.loose) + len(t.lead) for t in turns)
    if size > MAX_NODES:
        expected = f"at most {MAX_NODES:,}"
        raise BadInput("an attempt has too many nodes", got=size, expected=expected, where=attempt.where)
    task, group = _task(attempt, options)
    episode = Episode(task, env=attempt.env or attempt.format, group=group, id=episode_id(attempt))
    writer = _Writer(episode, attempt, options)
    for turn in turns:
        writer.turn(turn)
    for events, turn in trailing:
        last = -1 if turn is None else turn.last
        for event in events:
            last = episode.observe(event.text, agent=event.agent, parent=last)
    paid = pay(episode, attempt, options, [(turn.event, turn.node) for turn in turns])
    source: dict[str, Any] = {"format": attempt.format, "key": attempt.key, "sha256": attempt.sha256, "outcome": paid}
    source |= {"name": attempt.name or attempt.key, "policy": attempt.policy, "nodes": writer.notes}
    source |= {"extra": dict(attempt.extra), "called_by": _callers(turns), "repairs": dict(attempt.repairs.counts)}
    usage = _usage(attempt, turns)
    meta = {"source": {key: value for key, value in source.items() if value}} | ({"usage": usage} if usage else {})
    episode.meta = Episode(task, meta=meta).meta  # checked there
    return episode


# ----------------------------------------------------------------------------------------------- where it goes on
def _turns(attempt: Attempt) -> tuple[list[_Turn], list[tuple[list[Event], _Turn | None]]]:
    """Decisions in order, and what was observed after the last one of each conversation."""
    turns: list[_Turn] = []
    waiting: dict[str, list[Event]] = defaultdict(list)
    last: dict[str, _Turn] = {}
    known: dict[tuple[str, str], tuple[_Turn, bool]] = {}
    retries: dict[str, list[str]] = defaultdict(list)
    early: dict[str, list[Event]] = defaultdict(list)
    for event in _once(attempt):
        context = event.context
        if event.kind == "message":
            waiting[context].append(event)
        elif event.kind == "tool":
            (last[context].loose if context in last else early[context]).append(event)
        elif event.error and not event.text and not event.calls and event.base is None:
            attempt.repairs.add("calls of the model that failed, no decisions", event.origin, fault=False)
            retries[context].append(event.error)
        else:
            turn = _Turn(event, lead=early.pop(context, []), retries=retries.pop(context, []))
            if event.inputs is None:
                new = waiting.pop(context, [])
                begins = max((i for i, one in enumerate(new) if one.fresh), default=-1)
                turn.new = new[max(begins, 0) :]  # what stood before it is out of the context
                turn.follows = None if event.fresh or begins >= 0 else last.get(context)
            else:
                _go_on(turn, last.get(context), known, attempt)
            last[context] = turn
            turns.append(turn)
    if early:
        attempt.repairs.add("tools of a conversation without a decision", attempt.where, sum(map(len, early.values())))
    for context, errors in retries.items():
        if context in last:
            last[context].retries += errors
    return turns, [(events, last.get(context)) for context, events in waiting.items()]


def _once(attempt: Attempt) -> list[Event]:
    """The events with calls that were reported several times once: the last report, at the place of the first."""
    place: dict[tuple[str, str], int] = {}
    events: list[Event] = []
    for event in attempt.events:
        named = event.kind == "decision" and event.same_as
        at = place.setdefault((event.context, event.same_as), len(events)) if named else len(events)
        if at < len(events):
            attempt.repairs.add("calls of the model reported twice", event.origin)
        events[at : at + 1] = [event]
    return events


def _go_on(turn: _Turn, last: _Turn | None, known: dict[tuple[str, str], tuple[_Turn, bool]], attempt: Attempt) -> None:
    """Find the longest known context that the inputs begin with; only the rest is new."""
    event, context = turn.event, turn.event.context
    if event.base is not None:  # the format says it
        turn.follows, turn.beside = known.get((context, event.base), (None, False))
        turn.new = event.inputs or ()
        known |= {(context, name): (turn, not i) for i, name in enumerate(event.place)}
        return
    inputs = () if event.cut and last is not None else event.inputs or ()
    chain = _chain("", inputs)
    found = next((k for k in range(len(inputs), 0, -1) if (context, chain[k]) in known), 0)
    if found and not event.fresh:
        turn.follows, turn.beside = known[context, chain[found]]
        turn.new = inputs[found:]
    elif last is not None and not event.fresh and (not inputs or event.delta or _answers(inputs, last)):
        turn.follows, turn.new = last, inputs
        chain = _chain(last.before, (last.event, *inputs))
    else:
        turn.new = inputs
        if last is not None:
            attempt.repairs.add("contexts that begin anew", event.origin, fault=False)
    turn.before = chain[-1]
    known.setdefault((context, turn.before), (turn, True))
    known[context, _chain(turn.before, (event,))[-1]] = (turn, False)


def _answers(inputs: Sequence[Event], last: _Turn) -> bool:
    """Whether they hold results of the calls before, and not the calls: they are only what is new."""
    called = {call.id for call in last.event.calls if call.id}
    repeated = {call.id for one in inputs if one.kind != "tool" for call in one.calls}
    return any(one.kind == "tool" and one.calls[0].id in called - repeated for one in inputs)


def _chain(before: str, events: Sequence[Event]) -> list[str]:
    """A name for the context ``before`` and for it after each event: providers add keys, but say the same."""
    names = [before]
    for one in events:
        role = {"decision": "assistant", "tool": "tool"}.get(one.kind, one.role)
        calls = [[c.id, *([] if one.kind == "tool" else [c.name, _arguments(c.arguments)[0]])] for c in one.calls]
        names.append(digest(names[-1], compact([role, one.text, calls])))
    return names


# ------------------------------------------------------------------------------------------------- calls, results
def _match(turns: Sequence[_Turn], attempt: Attempt) -> None:
    """Give each call its results: by id, the nth result to the nth call; without an id by order within the turn."""
    by_id: dict[str, list[_Used]] = defaultdict(list)
    for turn in turns:
        turn.calls = [_Used(call) for call in turn.event.calls]
        for used in turn.calls:
            if used.call.id:
                by_id[used.call.id].append(used)
    for turn in turns:
        spans, turn.loose = turn.loose, []
        _give(turn, spans, by_id, attempt, "reported")
    for turn in turns:
        told = [event for event in turn.new if event.kind == "tool"]
        if turn.follows is None:  # results of calls that stand in a context that nobody recorded
            told = [event for event in told if event.calls[0].id in by_id]
        _give(turn.follows or turn, told, by_id, attempt, "told")


def _give(turn: _Turn, results: Sequence[Event], by_id: Mapping[str, list[_Used]], attempt: Attempt, by: str) -> None:
    repairs = attempt.repairs
    for event in results:
        id, name, _ = event.calls[0]
        uses = by_id.get(id, ())
        if not id:
            uses = [used for used in turn.calls if name in ("", used.call.name)]
            uses = [used for used in uses if not used.call.id] or uses
            repairs.add("results without an id, given to calls in their order", event.origin, fault=False)
        free = next((used for used in uses if by not in used.results), None)
        if free is not None:
            free.results[by] = event
        elif uses:
            repairs.add("results of one call told twice", event.origin, fault=by == "reported")
        else:
            if not name:
                repairs.add("results without a call", event.origin)
            turn.loose.append(event)


def _arguments(given: Any, repairs: Repairs | None = None) -> tuple[dict[str, Any], bool]:
    """Arguments as an object, and whether they were one; text is parsed, twice where it was encoded twice."""
    value = given
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = clean(json.loads(value) if value.strip() else {}, "arguments", repairs or Repairs())
            except (ValueError, RecursionError):  # or deeper than a record may be
                break
    if isinstance(value, dict):
        return value, True
    return ({}, True) if value is None else ({"_text": given if isinstance(given, str) else compact(given)}, False)


# ---------------------------------------------------------------------------------------------------------- nodes
@dataclass(eq=False)
class _Writer:
    """Writes turns into the episode, and beside it what no field of a node holds, by the node's index."""

    episode: Episode
    attempt: Attempt
    options: Options
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    def turn(self, turn: _Turn) -> None:
        """What it saw, the decision, its tools."""
        event, episode = turn.event, self.episode
        for tool in turn.lead:
            self._tool(_Used(tool.calls[0], {"": tool}), tool.agent, -1)
        ids, logp = _tokens(event, self.attempt)
        parent, delta = self._context(turn, ids)
        seen = [one for one in turn.new if one.kind != "tool"]
        for i, one in enumerate(seen):
            mine = delta if i == len(seen) - 1 else ()
            parent = episode.observe(self._said(one), agent=event.agent, token_ids=mine, parent=parent)
            role = "assistant" if one.kind == "decision" else one.role
            self._note(parent, {"role": "" if role == "user" else role, **one.extra})
        if not seen and len(delta):
            parent = episode.observe("", agent=event.agent, token_ids=delta, parent=parent)
        turn.seen = parent
        if event.kind == "component":
            turn.node = episode.component(event.text, agent=event.agent, parent=parent)
        else:
            turn.node = episode.act(
                self._said(event),
                agent=event.agent,
                token_ids=() if ids is None else ids,
                logp=() if logp is None else logp,
                reward=number(event.reward) or 0.0,
                finish=finish_of(event.finish),
                parent=parent,
            )
            episode.spend(turn.node, **usage_of(event.usage))
        about: dict[str, Any] = {"origin": event.origin, "retries": turn.retries, "error": event.error}
        about |= {"reasoning": "" if self.options.reasoning else event.reasoning, "scores": dict(event.scores)}
        about |= {"said": event.text if event.calls else "", "calls": [call.id for call in event.calls]}
        self._note(turn.node, {**about, **event.extra})
        turn.last = turn.node
        for used in [*turn.calls, *(_Used(tool.calls[0], {"": tool}) for tool in turn.loose)]:
            turn.last = self._tool(used, event.agent, turn.last)

    def _context(self, turn: _Turn, ids: np.ndarray | None) -> tuple[int, np.ndarray]:
        """The node that it goes on from, and the tokens that entered since."""
        event, follows = turn.event, turn.follows
        parent, before = -1, None
        if follows is not None:
            parent = follows.seen if turn.beside else follows.last
            before = follows.prompt if turn.beside else follows.context
        prompt = _ids(event.prompt_ids, event, self.attempt)
        if prompt is None:
            if follows is not None and not len(event.token_ids):
                turn.prompt, turn.context = before, before
            return parent, np.empty(0, np.int64)
        if event.base is not None:
            return parent, prompt
        turn.prompt, turn.context = prompt, prompt if ids is None else np.concatenate([prompt, ids])
        if before is not None and np.array_equal(prompt[: len(before)], before):
            return parent, prompt[len(before) :]
        if follows is not None:
            what = "prompts that do not continue the tokens before, taken whole"
            self.attempt.repairs.add(what, event.origin, fault=False)
        return -1, prompt

    def _tool(self, used: _Used, agent: str, parent: int) -> int:
        arguments, well_formed = _arguments(used.call.arguments, self.attempt.repairs)
        results = list(used.results.values())
        error = next((one.error for one in results if one.error), "")
        outcome = "raised" if error else "unparsed" if not well_formed else "ok" if results else "missing"
        if not results:
            self.attempt.repairs.add("calls without a result", self.attempt.where, fault=False)
        text = next((one.text for one in results if one.text), "")
        name = used.call.name or "unknown"
        node = self.episode.tool(name, arguments, text, outcome=outcome, agent=agent, parent=parent)
        extra = {key: value for one in results for key, value in one.extra.items()}
        self._note(node, {"error": error if error != text else "", **extra})
        return node

    def _said(self, event: Event) -> str:
        """What was said, then one line a call."""
        thought = f"<think>{event.reasoning}</think>" if self.options.reasoning and event.reasoning else ""
        calls = [f"{call.name}({compact(_arguments(call.arguments)[0])})" for call in event.calls]
        return "\n".join(part for part in (thought, event.text, *calls) if part)

    def _note(self, node: int, values: Mapping[str, Any]) -> None:
        if kept := {key: value for key, value in values.items() if value not in (None, "", [], {})}:
            self.notes[str(node)] = kept


def _ids(given: Any, event: Event, attempt: Attempt) -> np.ndarray | None:
    """Token ids as int64 ``[P]``; ``None`` where there are none, or what is there is no list of int32."""
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return None
    if isinstance(given, list) and all(type(i) is int and -(2**31) <= i < 2**31 for i in given):
        return np.array(given, np.int64)
    attempt.repairs.add("token ids that are none, left out", event.origin)
    return None


def _tokens(event: Event, attempt: Attempt) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Token ids and log-probabilities as sampled; log-probabilities that cannot be true are left out."""
    ids = _ids(event.token_ids, event, attempt)
    if ids is None or not event.logp:
        return ids, None
    try:
        logp = np.array([np.nan if one is None else one for one in event.logp], np.float64)
    except (TypeError, ValueError, OverflowError):
        logp = np.empty(0)
    if logp.shape != ids.shape or (logp > 1e-6).any():
        attempt.repairs.add("log-probabilities that do not fit their tokens, left out", event.origin)
        return ids, None
    return ids, logp


# --------------------------------------------------------------------------------------------------- of the whole
def _task(attempt: Attempt, options: Options) -> tuple[str, str]:
    """The task, and the group of attempts to compare."""
    task = attempt.task
    if options.task_key:
        value: Any = attempt.fields.get(options.task_key)
        if value is None:
            value = attempt.fields
            for key in options.task_key.split("."):
                value = mapping(value).get(key)
        task = task if value is None else value if isinstance(value, str) else compact(value)
    if not task:
        asked = (one for event in attempt.events for one in event.inputs or (event,))
        text = next((one.text for one in asked if one.kind == "message" and one.role == "user" and one.text), "")
        task = f"text-{digest(text)[:12]}"
        attempt.repairs.add("tasks named by their first text", attempt.where, fault=False)
    if options.group not in ("policy", "task"):
        raise BadInput("unknown group", got=options.group, expected="policy or task", where="--group")
    return task, f"{task} | {attempt.policy}" if options.group == "policy" and attempt.policy else task


def _callers(turns: Sequence[_Turn]) -> dict[str, int]:
    """By the first node of a conversation that a tool call started: the action that called."""
    of = {tool.calls[0].id: turn for turn in turns for tool in turn.loose}
    of |= {call.id: turn for turn in turns for call in turn.event.calls}
    begun: dict[str, int] = {}
    for turn in turns:
        caller = of.get(turn.event.caller) if turn.event.caller else None
        if caller is not None and caller is not turn and turn.follows is None:
            observed = sum(one.kind != "tool" for one in turn.new)
            begun[str(turn.seen - max(0, observed - 1) if turn.seen >= 0 else turn.node)] = caller.node
    return begun


def _usage(attempt: Attempt, turns: Sequence[_Turn]) -> dict[str, float]:
    """Sums over decisions."""
    total: dict[str, float] = {}
    for turn in turns:
        for name, value in usage_of(turn.event.usage).items():
            total[name] = total.get(name, 0.0) + value
    whole = usage_of(attempt.total_usage)
    for name in total.keys() & whole.keys():
        if abs(whole[name] - total[name]) > 0.01 * max(abs(whole[name]), abs(total[name])):
            what = f"usage ({name}) that is not what the document says of the whole"
            attempt.repairs.add(what, attempt.where, fault=False)
    return total
