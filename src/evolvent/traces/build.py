"""An attempt of another harness becomes an ``Episode``: every decision about it is made here, once for all formats.

Three passes: where each decision goes on from (the longest context that is known already), which result belongs to
which call, and the nodes in order.
"""

from __future__ import annotations

import json
import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.traces.events import MAX_NODES, Attempt, Call, Event, compact, digest, mapping, number

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Options:
    """What the person who imports decides.

    Attributes:
        reward: name of the score that pays, where there are several.
        success: when an attempt succeeded, such as ">=0.5"; "" = as the file says.
        task_key: where in a document its task stands, such as "metadata.task".
        group: "policy": attempts of one policy at one task are compared; "task": those of all policies.
        reasoning: what the model thought stands in the text of its action.
        outcomes: outcomes told beside the files, by the name of an attempt.
    """

    reward: str = ""
    success: str = ""
    task_key: str = ""
    group: str = "policy"
    reasoning: bool = False
    outcomes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def succeeded(self, reward: float) -> bool:
        """Whether ``reward`` is a success by ``--success``.

        Raises:
            BadInput: no comparison with a number.
        """
        sign = next((sign for sign in _COMPARE if self.success.startswith(sign)), "")
        try:
            return _COMPARE[sign](reward, float(self.success[len(sign) :]))
        except (KeyError, ValueError) as error:
            expected = 'a comparison such as ">=0.5"'
            raise BadInput("not a condition", got=self.success, expected=expected, where="--success") from error


@dataclass(eq=False)
class _Used:
    """A call of a decision and what it gave."""

    call: Call
    results: list[Event] = field(default_factory=list[Event])


@dataclass(eq=False)
class _Turn:
    """A decision and where it stands: ``new`` entered its context since ``follows`` (``beside``: since before that)."""

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
        raise BadInput(
            "an attempt has too many nodes", got=size, expected=f"at most {MAX_NODES:,}", where=attempt.where
        )
    task, group = _task(attempt, options)
    episode = Episode(task, env=attempt.env or attempt.format, group=group, id=episode_id(attempt))
    notes: dict[str, Any] = {}
    for turn in turns:
        _record(episode, turn, attempt, options, notes)
    for agent, events, turn in trailing:
        last = -1 if turn is None else turn.last
        for event in events:
            last = episode.observe(event.text, agent=agent, parent=last)
    paid = _pay(episode, attempt, options, turns)
    source: dict[str, Any] = {"format": attempt.format, "key": attempt.key, "sha256": attempt.sha256, **paid}
    source["name"] = attempt.name or attempt.key
    source |= {"policy": attempt.policy, "nodes": notes, "extra": dict(attempt.extra)}
    source |= {"called_by": _callers(turns), "repairs": dict(attempt.repairs.counts)}
    usage = _usage(attempt, turns)
    meta = {"source": {key: value for key, value in source.items() if value}} | ({"usage": usage} if usage else {})
    episode.meta = Episode(task, meta=meta).meta
    return episode


# ----------------------------------------------------------------------------------------------- where it goes on
def _turns(attempt: Attempt) -> tuple[list[_Turn], list[tuple[str, list[Event], _Turn | None]]]:
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
            at = last.get(context)
            (early[context] if at is None else at.loose).append(event)
        elif event.kind == "decision" and event.error and not event.text and not event.calls:
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
    agents = {context: events[0].agent for context, events in waiting.items() if events}
    trailing = [(agents[c], events, last.get(c)) for c, events in waiting.items() if events]
    if early:
        attempt.repairs.add("tools of a conversation without a decision", attempt.where, sum(map(len, early.values())))
    for context, errors in retries.items():
        if context in last:
            last[context].retries += errors
    return turns, trailing


def _once(attempt: Attempt) -> list[Event]:
    """The events with calls that were reported several times once: the last report, at the place of the first."""
    place: dict[tuple[str, str], int] = {}
    events: list[Event] = []
    for event in attempt.events:
        key = (event.context, event.same_as)
        if event.kind == "decision" and event.same_as and key in place:
            attempt.repairs.add("calls of the model reported twice", event.origin)
            events[place[key]] = event
            continue
        if event.kind == "decision" and event.same_as:
            place[key] = len(events)
        events.append(event)
    return events


def _go_on(turn: _Turn, last: _Turn | None, known: dict[tuple[str, str], tuple[_Turn, bool]], attempt: Attempt) -> None:
    """Find the longest known context that the inputs begin with; only the rest is new."""
    event = turn.event
    inputs, context = () if event.cut and last is not None else event.inputs or (), event.context
    chain = [""]
    for one in inputs:
        chain.append(digest(chain[-1], _key(one)))
    found = next((k for k in range(len(inputs), 0, -1) if (context, chain[k]) in known), 0)
    if found and not event.fresh:
        turn.follows, turn.beside = known[context, chain[found]]
        turn.new = inputs[found:]
    elif last is not None and not event.fresh and (not inputs or event.delta or _answers(inputs, last)):
        turn.follows, turn.new = last, inputs
        chain = [digest(last.before, _key(last.event))]
        for one in inputs:
            chain.append(digest(chain[-1], _key(one)))
    else:
        turn.new = inputs
        if last is not None:
            attempt.repairs.add("contexts that begin anew", event.origin, fault=False)
    turn.before = chain[-1]
    known.setdefault((context, chain[-1]), (turn, True))
    known[context, digest(chain[-1], _key(event))] = (turn, False)


def _answers(inputs: Sequence[Event], last: _Turn) -> bool:
    """Whether they hold results of the calls before, and not the calls: they are only what is new."""
    called = {call.id for call in last.event.calls if call.id}
    repeated = {call.id for one in inputs for call in one.calls}
    return any(one.kind == "tool" and one.call_id in called - repeated for one in inputs)


def _key(event: Event) -> str:
    """What makes a message the same one: providers add keys, but say the same."""
    role = {"decision": "assistant", "tool": "tool"}.get(event.kind, event.role)
    calls = [[call.id, call.name, _arguments(call.arguments)[0]] for call in event.calls]
    return compact([role, event.text, calls, event.call_id])


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
        _give(turn, spans, by_id, attempt, kind="reported")
    for turn in turns:
        told = [event for event in turn.new if event.kind == "tool"]
        if turn.follows is None:  # results of calls that stand in a context that nobody recorded
            told = [event for event in told if event.call_id in by_id]
        _give(turn.follows or turn, told, by_id, attempt, kind="told")


def _give(turn: _Turn, results: Sequence[Event], by_id: Mapping[str, list[_Used]], attempt: Attempt, kind: str) -> None:
    repairs = attempt.repairs
    for event in results:
        uses = by_id.get(event.call_id, ())
        if not event.call_id:
            uses = [used for used in turn.calls if event.name in ("", used.call.name) and not used.call.id]
            uses = uses or [used for used in turn.calls if event.name in ("", used.call.name)]
            repairs.add("results without an id, given to calls in their order", event.origin, fault=False)
        free = next((used for used in uses if not any(r.role == kind for r in used.results)), None)
        if free is not None:
            free.results.append(Event(kind="tool", role=kind, text=event.text, error=event.error, extra=event.extra))
        elif uses:
            repairs.add("results of one call told twice", event.origin, fault=kind == "reported")
        else:
            if not event.name:
                repairs.add("results without a call", event.origin)
            turn.loose.append(event)


def _arguments(given: Any) -> tuple[dict[str, Any], bool]:
    """Arguments as an object, and whether they were one; text is parsed, twice where it was encoded twice."""
    value = given
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else {}
            except (ValueError, RecursionError):
                break
    if isinstance(value, dict):
        return value, True
    return ({}, True) if value is None else ({"_text": given if isinstance(given, str) else compact(given)}, False)


# ---------------------------------------------------------------------------------------------------------- nodes
def _record(episode: Episode, turn: _Turn, attempt: Attempt, options: Options, notes: dict[str, Any]) -> None:
    event, follows = turn.event, turn.follows
    parent = -1 if follows is None else follows.seen if turn.beside else follows.last
    for tool in turn.lead:
        _tool(episode, _Used(Call(tool.call_id, tool.name, tool.arguments), [tool]), tool.agent, -1, notes, attempt)
    delta = np.empty(0, np.int64)
    ids, logp = _tokens(event, attempt)
    prompt = _ids(event.prompt_ids, event, attempt)
    before = None if follows is None else follows.prompt if turn.beside else follows.context
    if prompt is not None:
        delta = prompt
        if before is not None and len(prompt) >= len(before) and np.array_equal(prompt[: len(before)], before):
            delta = prompt[len(before) :]
        elif follows is not None:
            parent = -1
            attempt.repairs.add(
                "prompts that do not continue the tokens before, taken whole", event.origin, fault=False
            )
        turn.prompt, turn.context = prompt, prompt if ids is None else np.concatenate([prompt, ids])
    elif follows is not None and not len(event.token_ids):
        turn.prompt, turn.context = before, before
    seen = [one for one in turn.new if one.kind != "tool"]
    for i, one in enumerate(seen):
        mine = delta if i == len(seen) - 1 else ()
        parent = episode.observe(_said(one, options), agent=event.agent, token_ids=mine, parent=parent)
        _note(notes, parent, {"role": one.role if one.role not in ("", "user") else "", **one.extra})
    if not seen and len(delta):
        parent = episode.observe("", agent=event.agent, token_ids=delta, parent=parent)
    turn.seen = parent
    if event.kind == "component":
        turn.node = episode.component(event.name or event.text, agent=event.agent, parent=parent)
    else:
        turn.node = episode.act(
            _said(event, options),
            agent=event.agent,
            token_ids=() if ids is None else ids,
            logp=() if logp is None else logp,
            reward=event.reward or 0.0,
            finish=event.finish,
            parent=parent,
        )
    about = {"origin": event.origin, "retries": turn.retries, "error": event.error, "usage": dict(event.usage)}
    about |= {"reasoning": "" if options.reasoning else event.reasoning, "said": event.text if event.calls else ""}
    _note(notes, turn.node, about | {"calls": [c.id for c in event.calls], "scores": dict(event.scores), **event.extra})
    turn.last = turn.node
    for used in turn.calls:
        turn.last = _tool(episode, used, event.agent, turn.last, notes, attempt)
    for tool in turn.loose:
        used = _Used(Call(tool.call_id, tool.name or "unknown", tool.arguments), [tool])
        turn.last = _tool(episode, used, event.agent, turn.last, notes, attempt)


def _tool(episode: Episode, used: _Used, agent: str, parent: int, notes: dict[str, Any], attempt: Attempt) -> int:
    arguments, well_formed = _arguments(used.call.arguments)
    error = next((one.error for one in used.results if one.error), "")
    outcome = "raised" if error else "ok" if well_formed else "unparsed"
    if not used.results:
        outcome = "missing" if well_formed else "unparsed"
        attempt.repairs.add("calls without a result", attempt.where, fault=False)
    text = next((one.text for one in used.results if one.text), "")
    node = episode.tool(used.call.name or "unknown", arguments, text, outcome=outcome, agent=agent, parent=parent)
    extra = {key: value for one in used.results for key, value in one.extra.items()}
    _note(notes, node, {"error": error if error != text else "", **extra})
    return node


def _said(event: Event, options: Options) -> str:
    """What was said, then one line a call."""
    thought = [f"<think>{event.reasoning}</think>"] if options.reasoning and event.reasoning else []
    calls = [f"{call.name}({compact(_arguments(call.arguments)[0])})" for call in event.calls]
    return "\n".join([*thought, *([event.text] if event.text else []), *calls])


def _note(notes: dict[str, Any], node: int, values: Mapping[str, Any]) -> None:
    if kept := {key: value for key, value in values.items() if value not in (None, "", [], {})}:
        notes[str(node)] = kept


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
    except (TypeError, ValueError):
        logp = np.empty(0)
    if logp.shape != ids.shape or (logp > 1e-6).any():
        attempt.repairs.add("log-probabilities that do not fit their tokens, left out", event.origin)
        return ids, None
    return ids, logp


# -------------------------------------------------------------------------------------------------------- outcome
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
        asked = [one for event in attempt.events for one in ((event.inputs or ()) if event.inputs else (event,))]
        first = next((one.text for one in asked if one.kind == "message" and one.role == "user" and one.text), "")
        task = f"text-{digest(first)[:12]}"
        attempt.repairs.add("tasks named by their first text", attempt.where, fault=False)
    if options.group not in ("policy", "task"):
        raise BadInput("unknown group", got=options.group, expected="policy or task", where="--group")
    return task, f"{task} | {attempt.policy}" if options.group == "policy" and attempt.policy else task


def _pay(episode: Episode, attempt: Attempt, options: Options, turns: Sequence[_Turn]) -> dict[str, Any]:
    """Rewards and the end; what nobody said is not made up: without an outcome nothing is to be learned from it."""
    told = options.outcomes.get(attempt.key) or options.outcomes.get(episode.id) or {}
    scores = {name: value for name, value in attempt.scores.items() if number(value) is not None}
    name = options.reward or ("reward" if "reward" in scores else next(iter(scores)) if len(scores) == 1 else "")
    reward = next(
        (
            n
            for n in (number(told.get("reward")), scores.get(options.reward), attempt.reward, scores.get(name))
            if n is not None
        ),
        None,
    )
    if reward is None and scores:
        what = (
            "attempts without the score that --reward names"
            if options.reward
            else "several scores: name one with --reward"
        )
        attempt.repairs.add(what, attempt.where, fault=False)
    elif options.reward and options.reward not in scores and "reward" not in told:
        what = "attempts without the score that --reward names: their own reward pays"
        attempt.repairs.add(what, attempt.where, fault=False)
    success = told.get("success") if isinstance(told.get("success"), bool) else attempt.success
    steps = [(turn, value) for turn in turns if (value := _step_reward(turn.event, options)) is not None]
    for turn, value in steps:
        if turn.event.reward is None and turn.event.kind == "decision":
            episode.add_reward(value, turn.node)
    if reward is None and isinstance(success, bool) and not steps:
        reward = float(success)
    if options.success and (reward is not None or steps):
        success = options.succeeded(episode.total_reward if reward is None else reward)
    elif success is None and reward in (0.0, 1.0):
        success = bool(reward)
    if reward is not None and not steps and episode.n_steps:
        episode.add_reward(reward)
    kinds = scores | ({} if attempt.reward is None else {"reward": attempt.reward})
    episode.rewards_by_kind = {kind: float(value) for kind, value in kinds.items()}
    paid = reward is not None or success is not None or bool(steps)
    if not paid:
        attempt.repairs.add("attempts without an outcome: nothing is learned from them", attempt.where, fault=False)
    episode.end(
        terminated=paid and not attempt.limit,
        truncated=bool(attempt.limit),
        success=success,
        source=f"import:{attempt.format}" if success is not None else "",
        valid=attempt.valid and paid,
        stop=attempt.limit or attempt.stop,
    )
    return {"outcome": "" if paid else "missing"}


def _step_reward(event: Event, options: Options) -> float | None:
    """What paid one decision."""
    if event.reward is not None:
        return event.reward
    scores = event.scores
    name = options.reward or ("reward" if "reward" in scores else next(iter(scores)) if len(scores) == 1 else "")
    return scores.get(name)


def _callers(turns: Sequence[_Turn]) -> dict[str, int]:
    """By the first node of a conversation that a tool call started: the action that called."""
    of = {tool.call_id: turn for turn in turns for tool in turn.loose if tool.call_id}
    of |= {call.id: turn for turn in turns for call in turn.event.calls if call.id}
    begun: dict[str, int] = {}
    for turn in turns:
        caller = of.get(turn.event.caller)
        if caller is not None and caller is not turn and turn.follows is None:
            begun[str(_first(turn))] = caller.node
    return begun


def _first(turn: _Turn) -> int:
    return turn.seen - max(0, sum(one.kind != "tool" for one in turn.new) - 1) if turn.seen >= 0 else turn.node


def _usage(attempt: Attempt, turns: Sequence[_Turn]) -> dict[str, float]:
    """Sums over decisions; what nobody counted is left out, never 0."""
    total: dict[str, float] = {}
    for turn in turns:
        for name, value in turn.event.usage.items():
            total[name] = total.get(name, 0.0) + value
    for name, value in total.items():
        whole = attempt.total_usage.get(name)
        if whole is not None and abs(whole - value) > 0.01 * max(abs(whole), abs(value)):
            attempt.repairs.add(
                f"usage ({name}) that is not what the document says of the whole", attempt.where, fault=False
            )
    return total
