"""Calls of functions on a page: how often they are right, which is taken for which, and calls beside their schemas.

Read from recorded attempts: the verdicts that the environment told (``formulas.call_match.judgement``), and the schemas
as they stood in the prompt, one JSON object a line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from evolvent.evaluate.blocks import Block, Section, Table, Text
from evolvent.evaluate.live import interval
from evolvent.formulas.call_match import Difference, in_short, same_value
from evolvent.formulas.statistics import clustered_bootstrap, wilson
from evolvent.runs.account.tasks import Seen
from evolvent.runs.account.updates import section

NONE, UNREAD, OTHER = "(none)", "(unread)", "(other)"  # no names that a function can have
_FUNCTIONS, _EXAMPLES, _REQUEST, _LONG = 12, 4, 500, 160
_KINDS = {
    "name": "another function",
    "uncalled": "no call where one is due",
    "called": "a call too much",
    "missing": "missing argument",
    "unexpected": "argument too much",
    "type": "wrong type",
    "value": "another value",
    UNREAD: "the answer cannot be read",
}


COLUMNS = ("calls right", "functions right", "arguments right", "refusals right", "call rate")
_NUMBERS = {
    "right function, of {} that need a call": "functions right",
    "right arguments, of {} that need a call": "arguments right",
    "right refusal, of {} that need none": "refusals right",
    "answer with a call, of {}": "call rate",
}


class Answer(NamedTuple):
    """An answer of the attempt of that number: the prompt before it, and the verdict on it."""

    attempt: int
    prompt: str
    told: Mapping[str, Any]


def answers(attempts: Sequence[Seen]) -> list[Answer]:
    """The judged answers of attempts; what is no verdict (an environment of somebody's told it) is left out."""
    found: list[Answer] = []
    for number, seen in enumerate(attempts):
        asked = dict(enumerate(seen.asked))
        found += [Answer(number, asked.get(i, seen.question), one) for i, one in enumerate(seen.judged) if fits(one)]
    return found


def fits(told: Any) -> bool:
    """Whether it is a verdict on an answer."""
    try:
        calls = [*(told["calls"] or ()), *(told["gold"] or ())]
        named = all(isinstance(one["name"], str) and isinstance(one["arguments"], dict) for one in calls)
        return named and all(isinstance(one, dict) for one in told["differs"])
    except (LookupError, TypeError):
        return False


def graded(told: Mapping[str, Any]) -> dict[str, bool]:
    """The ``COLUMNS`` that a verdict (``formulas.call_match.judgement``) says something of."""
    rate = {"call rate": told["calls"] is None or bool(told["calls"])}
    if told["gold"] == []:
        return {"refusals right": told["right"], **rate}
    if told["gold"] is None:  # somebody's function judges, who names no right call
        return {"calls right": told["right"], **rate}
    parts = {"functions right": told["function"], "arguments right": told["arguments"]}
    return {"calls right": told["right"], **parts, **rate}


def shares(found: Sequence[Mapping[str, bool]]) -> dict[str, dict[str, Any]]:
    """Of each of ``COLUMNS`` the share over what ``graded`` says of different tasks: ``value``, ``ci95``, ``n``."""
    return {what: _share([one[what] for one in found if what in one]) for what in COLUMNS}


def _share(known: Sequence[bool]) -> dict[str, Any]:
    if not known:
        return {"value": None, "ci95": None, "n": 0}
    return {"value": sum(known) / len(known), "ci95": list(wilson(sum(known), len(known))), "n": len(known)}


def blocks(groups: Mapping[str, Sequence[Seen]]) -> list[Block]:
    """All of it for attempts "before" and "after" learning; the last ones are looked at closely."""
    named = {name: found for name, attempts in groups.items() if (found := answers(attempts))}
    if not named:
        return []
    *earlier, last = named
    inside: list[Block] = [_numbers(named), *_kinds(named), *_confusion(named[last], last)]
    for name in earlier:
        inside += _confusion(named[name], name, folded=True)
    return [*inside, *_examples(named[last], last)]


# ------------------------------------------------------------------------------------------------ numbers
def _numbers(named: Mapping[str, Sequence[Answer]]) -> Table:
    """Function, arguments, refusals and how often it calls: one alone can be raised at the cost of another."""
    cells: list[tuple[str | None, ...]] = []
    for name, what in _NUMBERS.items():
        some = [
            [(one.attempt, told[what]) for one in found if what in (told := graded(one.told))]
            for found in named.values()
        ]
        sizes = " and ".join(dict.fromkeys(str(len(found)) for found in some))
        cells.append((name.format(sizes), *map(_rate, some)))
    return Table(("answers", *(f"{name} [95 %]" for name in named)), tuple(cells), "Calls of functions", said=True)


def _rate(found: Sequence[tuple[int, bool]]) -> str | None:
    """A share with its interval: Wilson's, or over attempts where some have several answers."""
    if not found:
        return None
    attempts, hits = zip(*found, strict=True)
    alone = len(set(attempts)) == len(attempts)
    return interval(
        sum(hits) / len(hits), wilson(sum(hits), len(hits)) if alone else clustered_bootstrap(hits, attempts)
    )


def _kinds(named: Mapping[str, Sequence[Answer]]) -> list[Block]:
    """In how many answers what is wrong."""
    counts = [Counter(kind for one in found for kind in _wrong(one.told)) for found in named.values()]
    rows = [(said, *(of[kind] for of in counts)) for kind, said in _KINDS.items() if any(of[kind] for of in counts)]
    return [Table(("answers with", *named), tuple(rows), "What is wrong")] if rows else []


def _wrong(told: Mapping[str, Any]) -> list[str]:
    """The kinds of what is wrong in an answer, each once."""
    if told.get("right") or told["calls"] is None:
        return [] if told.get("right") else [UNREAD]
    whole = {"missing": "uncalled", "unexpected": "called"}
    kinds = [d.get("kind") if d.get("argument") else whole.get(d.get("kind"), d.get("kind")) for d in told["differs"]]
    return [kind for kind in dict.fromkeys(kinds) if kind in _KINDS]


def in_words(seen: Seen) -> str:
    """What is wrong with the first wrong answer of an attempt, "" where nothing is."""
    wrong = (one.told for one in answers([seen]) if one.told["calls"] is None or one.told["differs"])
    told = next(wrong, None)
    if told is None:
        return ""
    if told["calls"] is None:
        return _KINDS[UNREAD]
    names = ("kind", "call", "argument", "got", "expected")
    return "; ".join(Difference(**{name: one.get(name, "") for name in names}).words() for one in told["differs"])


# ------------------------------------------------------------------------------------------------ confusion
def _confusion(found: Sequence[Answer], when: str, *, folded: bool = False) -> list[Block]:
    """Which function was called where which was right; nothing where each is there once, as under random names."""
    pairs = Counter(pair for one in found for pair in _pairs(one.told))
    total = Counter[str]()
    for pair, n in pairs.items():
        total.update(dict.fromkeys({*pair} - {NONE, UNREAD}, n))
    if max(total.values(), default=0) < 2:
        return []
    names = [name for name, _ in total.most_common(_FUNCTIONS)]
    rows = [*names, *([OTHER] if len(total) > len(names) else []), NONE]
    columns = [*rows, *([UNREAD] if any(called == UNREAD for _, called in pairs) else [])]
    cells = Counter[tuple[str, str]]()
    for (right, called), n in pairs.items():
        cells[right if right in rows else OTHER, called if called in columns else OTHER] += n
    said = "Rows: the function that is right; columns: the one that was called; darker: a larger share of the row."
    counts = tuple((right, *(cells[right, called] for called in columns)) for right in rows)
    shown = (Text((said,), "soft"), Table(("right ↓ called →", *columns), counts, shaded=True))
    return [Section(f"Right function and called function, {when} learning", shown, folded=folded)]


def _pairs(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each right function with the one that was called for it: first those that are the same, then in order."""
    if told["gold"] is None:
        return
    gold, calls = (Counter(call["name"] for call in told[of] or ()) for of in ("gold", "calls"))
    missing = UNREAD if told["calls"] is None else NONE
    yield from ((name, name) for name in (gold & calls).elements())
    for right, called in zip_longest((gold - calls).elements(), (calls - gold).elements()):
        yield right or NONE, called or missing
    if not gold and not calls:
        yield NONE, missing


# ------------------------------------------------------------------------------------------------ beside the schema
def _examples(found: Sequence[Answer], when: str) -> list[Block]:
    """The first wrong answer of each kind, beside the schemas."""
    firsts: dict[str, Answer] = {}
    for one in found:
        kind = next(iter(_wrong(one.told)), None)
        if kind and one not in firsts.values():
            firsts.setdefault(kind, one)
    shown = [_example(one, _KINDS[kind], opened=not i) for i, (kind, one) in enumerate(firsts.items()) if i < _EXAMPLES]
    return section(f"First wrong answer of each kind, {when} learning", shown)


def _example(one: Answer, kind: str, *, opened: bool) -> Section:
    schemas, request = split(one.prompt)
    inside: list[Block] = [Text((request,), "code")]
    for i, call, right in _beside(one.told):
        name, differs = str((right or call or {})["name"]), [d for d in one.told["differs"] if d.get("call") == i]
        called = (call or {}).get("name")
        rest = "is not called" if call is None else "is called, and should not be" if right is None else "is called"
        inside.append(Text((f"{name} {rest}." if called in (None, name) else f"{called} is called, {name} is right.",)))
        inside.append(_arguments(call, right, differs, schemas.get(name, {})))
    return Section(kind[:1].upper() + kind[1:], tuple(inside), folded=True, opened=opened)


def _beside(told: Mapping[str, Any]) -> list[tuple[int, Any, Any]]:
    """Each call, by number, and the nearest right one of its name, or one that is left; then those not called."""
    left, pairs = list(told["gold"] or ()), list[tuple[int, Any, Any]]()
    for i, call in enumerate(told["calls"] or ()):
        same = [one for one in left if one["name"] == call["name"]]
        right = min(same, key=lambda one: _apart(call["arguments"], one["arguments"]), default=None)
        left = [one for one in left if one is not right]
        pairs.append((i, call, right))
    pairs = [(i, call, right or (left.pop(0) if left else None)) for i, call, right in pairs]
    return [*pairs, *((-1, None, right) for right in left)]


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> int:
    return sum(key not in a or key not in b or not same_value(a[key], b[key]) for key in {*a, *b})


def _arguments(call: Any, right: Any, differs: Sequence[Any], schema: Mapping[str, Any]) -> Table:
    """A row a parameter: what the schema says, what was called, what is right, what differs."""
    said, wanted = ({} if one is None else one["arguments"] for one in (call, right))
    parameters: Any = schema.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    properties = parameters.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    wrong = {d["argument"]: _KINDS.get(d.get("kind"), "differs") for d in differs if d.get("argument")}
    rows: list[tuple[str | None, ...]] = []
    for key in dict.fromkeys([*properties, *wanted, *said]):
        needed = "required, " if key in (parameters.get("required") or ()) else ""
        values = [in_short(one[key]) if key in one else None for one in (said, wanted)]
        differs_in = f"✗ {wrong[key]}" if key in wrong else ""
        rows.append((key, differs_in, *values, needed + _about(properties.get(key))))
    columns = ("argument", "what differs", "called with", "right", "its schema")
    marked = tuple(i for i, row in enumerate(rows) if row[1])
    return Table(columns, tuple(rows), left=(0, 1, 2, 3, 4), marked=marked)


def _about(schema: Any) -> str:
    """A parameter's schema in a few words."""
    if not isinstance(schema, dict):
        return "not in the schema"
    parts = [str(schema.get("type", "any type"))]
    parts += [f"one of {in_short(schema['enum'])}"] if "enum" in schema else []
    parts += [f"default {in_short(schema['default'])}"] if "default" in schema else []
    said = ", ".join(parts) + (f": {schema['description']}" if schema.get("description") else "")
    return said if len(said) <= _LONG else said[: _LONG - 1] + "…"


def split(prompt: str) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The tools that stand in a prompt, by name, and the end of what else stands there."""
    found, rest = dict[str, Mapping[str, Any]](), list[str]()
    for line in prompt.splitlines():
        try:
            tool: Any = json.loads(line) if line.startswith('{"') else None
        except (ValueError, RecursionError):
            tool = None
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            found[tool["name"]] = tool
        else:
            rest.append(line)
    request = "\n".join(rest).strip()
    return found, request if len(request) <= _REQUEST else f"… {request[-_REQUEST:]}"
