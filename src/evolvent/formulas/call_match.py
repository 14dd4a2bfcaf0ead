"""Calls of functions compared with gold ones: exactly, or as the Berkeley Function-Calling Leaderboard (BFCL) judges.

A call is ``{"name": str, "arguments": dict}``. No call at all is a refusal; it is right where gold holds none. Several
calls match in any order, one to one.

``match`` wants the values of gold. ``match_accepted`` takes BFCL's gold, ``{function: {parameter: [accepted values]}}``
a call, where ``""`` among them says that the parameter may be left out, and dictionaries hold such a list a key. Its
verdict is that of ``bfcl-eval`` 2026.3.23 (``ast_checker``, Python; ``benchmarks/bfcl_judge.py`` compares them), with
its gaps: texts are compared without case, blanks and ``,./-_*^``, but not inside a list in a list or in a dictionary;
an integer counts for a float parameter, but not inside its list; a value of the type of the first accepted one counts
whatever the schema says; and a call goes to the first gold one that it fits, even where another pairing fits all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

Call = Mapping[str, Any]
Differs = Callable[[Any, Any], "list[Difference]"]
_TYPES: dict[str, type] = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
}
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Difference:
    """What is wrong with a call.

    ``kind`` is "name", "missing" or "unexpected" (an argument), "type" or "value"; without an ``argument`` "missing"
    and "unexpected" are whole calls. ``call`` is its place among the calls, -1 where a gold call has none.
    """

    kind: str
    call: int
    argument: str = ""
    got: Any = None
    expected: Any = None

    def words(self) -> str:
        """The same in words."""
        missing = self.kind == "missing"
        if self.kind == "name":
            return f"calls {self.got}, not {self.expected}"
        if not self.argument:
            return f"{self.expected} is not called" if missing else f"{self.got} is called"
        if self.kind in ("missing", "unexpected"):
            return f"{self.argument} is {'missing' if missing else 'too much'}"
        return f"{self.argument} is {in_short(self.got)}, not {in_short(self.expected)}"


@dataclass(frozen=True)
class Match:
    """The verdict on an answer.

    ``name_right``: the functions are those of gold, each as often. ``arguments_right``: so are the arguments, whatever
    the functions are called. ``right``: call by call both. ``differs`` says what is wrong, empty where ``right``.
    """

    name_right: bool
    arguments_right: bool
    right: bool
    differs: tuple[Difference, ...] = ()


def match(calls: Sequence[Call], gold: Sequence[Call]) -> Match:
    """Calls against gold calls with the same values.

    Numbers are equal by value (2 and 2.0), booleans are no numbers, a tuple is a list; all else is exact.
    """
    return _matched(calls, [(one["name"], one["arguments"]) for one in gold], _exact)


def match_accepted(
    calls: Sequence[Call], gold: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> Match:
    """Calls against BFCL's gold; see the module.

    Args:
        calls: the answer.
        gold: ``[{function: {parameter: [accepted values]}}]``.
        tools: ``[{"name", "parameters": {"properties", "required"}}]``, JSON Schema or BFCL's own types; gold's
            functions are among them.
    """
    docs = {one["name"]: one.get("parameters", {}) for one in tools}
    wanted = [(name, (docs.get(name, {}), accepted)) for one in gold for name, accepted in one.items()]
    return _matched(calls, wanted, _accepted)


def first_accepted(gold: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A right answer to BFCL's gold: the first accepted values; what may be left out is. As ``match_accepted``."""
    required = {one["name"]: one.get("parameters", {}).get("required", ()) for one in tools}
    return [
        {"name": name, "arguments": {k: _first(v) for k, v in accepted.items() if "" not in v or k in required[name]}}
        for one in gold
        for name, accepted in one.items()
    ]


def judgement(
    calls: Sequence[Call] | None, gold: Sequence[Call] | None, found: Match, *, right: bool
) -> dict[str, Any]:
    """A verdict as JSON values: what environments tell (``Turn.info["judged"]``), attempts record and pages show.

    Args:
        calls: of the answer; ``None`` = it could not be read.
        gold: the right ones; ``None`` = nobody has said which they are, or any would do.
        found: the verdict.
        right: what it came to; not always that of ``found``, where a function of somebody's judges.
    """
    return {
        "calls": None if calls is None else list(calls),
        "gold": None if gold is None else list(gold),
        "function": calls is not None and found.name_right,
        "arguments": calls is not None and found.arguments_right,
        "right": right,
        "differs": [asdict(one) for one in found.differs],
    }


def in_short(value: Any, most: int = 160) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[: most - 1] + "…"


# ------------------------------------------------------------------------------------------------ pairing
def _matched(calls: Sequence[Call], wanted: Sequence[tuple[str, Any]], differs: Differs) -> Match:
    """``wanted`` holds name and arguments a call; ``differs`` compares arguments with them."""
    names = sorted(one["name"] for one in calls) == sorted(name for name, _ in wanted)
    found = {
        (i, j): differs(call["arguments"], arguments)
        for i, call in enumerate(calls)
        for j, (_, arguments) in enumerate(wanted)
    }
    same = {(i, j) for i, j in found if calls[i]["name"] == wanted[j][0]}
    fits = {pair for pair, wrong in found.items() if not wrong}
    right = _all_paired(fits & same, len(calls), len(wanted))
    arguments = right or _all_paired(fits, len(calls), len(wanted))
    return Match(names, arguments, right, () if right else tuple(_told(calls, wanted, found, same)))


def _all_paired(fits: set[tuple[int, int]], calls: int, wanted: int) -> bool:
    """Whether each gold call in turn finds a call that is still free, and none is left over."""
    free = list(range(calls))
    for j in range(wanted):
        i = next((i for i in free if (i, j) in fits), None)
        if i is None:
            return False
        free.remove(i)
    return not free


def _told(
    calls: Sequence[Call],
    wanted: Sequence[tuple[str, Any]],
    found: Mapping[tuple[int, int], list[Difference]],
    same: set[tuple[int, int]],
) -> Iterable[Difference]:
    """What differs, each call beside the gold one that is nearest: the same name first, then the fewest differences."""
    near = sorted(found, key=lambda pair: (pair not in same, len(found[pair]), pair[1], pair[0]))
    mine, theirs = set(range(len(calls))), set(range(len(wanted)))
    for i, j in near:
        if i in mine and j in theirs:
            mine.remove(i)
            theirs.remove(j)
            if (i, j) not in same:
                yield Difference("name", i, "", calls[i]["name"], wanted[j][0])
            yield from (Difference(one.kind, i, one.argument, one.got, one.expected) for one in found[i, j])
    yield from (Difference("unexpected", i, "", calls[i]["name"]) for i in sorted(mine))
    yield from (Difference("missing", -1, "", None, wanted[j][0]) for j in sorted(theirs))


# ------------------------------------------------------------------------------------------------ exact values
def _exact(given: Mapping[str, Any], gold: Mapping[str, Any]) -> list[Difference]:
    wrong = [Difference("missing", 0, key, None, value) for key, value in gold.items() if key not in given]
    for key, value in given.items():
        if key not in gold:
            wrong.append(Difference("unexpected", 0, key, value))
        elif not same_value(value, gold[key]):
            wrong.append(Difference("value", 0, key, value, gold[key]))
    return wrong


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 2 and 2.0 are, 1 and ``True`` are not; a tuple is a list."""
    a, b = _mapping(one), _mapping(other)
    if a is not None and b is not None:
        return a.keys() == b.keys() and all(same_value(value, b[key]) for key, value in a.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        x, y = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return len(x) == len(y) and all(map(same_value, x, y))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


# ------------------------------------------------------------------------------------------------ accepted values
def _accepted(given: Mapping[str, Any], gold: tuple[Mapping[str, Any], Mapping[str, list[Any]]]) -> list[Difference]:
    schema, accepted = gold
    properties, required = schema.get("properties", {}), schema.get("required", ())
    needed = dict.fromkeys([*required, *(key for key, values in accepted.items() if "" not in values)])
    wrong = [Difference("missing", 0, key, None, accepted.get(key)) for key in needed if key not in given]
    for key, value in given.items():
        if key not in properties or key not in accepted:
            wrong.append(Difference("unexpected", 0, key, value))
        elif kind := _judged(value, accepted[key], properties[key]):
            wrong.append(Difference(kind, 0, key, value, accepted[key]))
    return wrong


def _judged(value: Any, accepted: list[Any], schema: Mapping[str, Any]) -> str:
    """What is wrong in an argument, "type" or "value"; else ""."""
    said = str(schema.get("type"))
    kind, inner = _TYPES.get(said), None
    if kind is list:
        inner = _TYPES.get(str(schema.get("items", {}).get("type")))
    if said == "tuple" and isinstance(value, tuple):
        value = list(cast("tuple[Any, ...]", value))
    if kind is float and type(value) is int:
        value = float(value)
    fits, other = _typed(value, accepted, kind, inner)
    if not fits:
        return "type"
    if not other and kind is dict:
        right = any(_dict_fits(value, one) for one in accepted)
    elif not other and kind is list and inner is dict:
        right = any(_dicts_fit(value, one) for one in accepted)
    elif not other and kind in (str, list):
        right = any(_plain(value) == _plain(kind(one)) for one in accepted if isinstance(one, str | kind))
    else:
        right = value in accepted
    return "" if right else "value"


def _typed(value: Any, accepted: Sequence[Any], kind: type | None, inner: type | None) -> tuple[bool, bool]:
    """Whether the type of a value is right, and whether the type meant is another than the schema's.

    The type meant is that of the first accepted value: an expression, say, which stands in gold as a text.
    """
    kinds: list[type] = [type(one) for one in accepted if one != ""]
    other = bool(kinds) and kinds[0] is not kind
    if type(value) is not kind:
        return bool(kinds) and type(value) is kinds[0], True
    if inner is None:
        return True, other
    fits = any(type(one) is not list or all(_typed(v, one, inner, None)[0] for v in value) for one in accepted)
    return fits, other


def _plain(value: Any) -> Any:
    """A text without what is not compared; of a list its texts, but not those of lists in it."""
    return [_text(one) for one in cast("list[Any]", value)] if isinstance(value, list) else _text(value)


def _text(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _dict_fits(value: Mapping[str, Any], accepted: Any) -> bool:
    keys = _mapping(accepted)
    if keys is None or any("" not in values for key, values in keys.items() if key not in value):
        return False
    return all(key in keys and _text(one) in map(_text, keys[key]) for key, one in value.items())


def _dicts_fit(values: Sequence[Any], accepted: Any) -> bool:
    if len(values) != len(accepted):
        return False
    each = ((_mapping(one), other) for one, other in zip(values, accepted, strict=True))
    return all(one is not None and _dict_fits(one, other) for one, other in each)


def _first(accepted: Sequence[Any]) -> Any:
    """The first accepted value; of a dictionary, and of those in a list, the first one a key."""
    value = next((one for one in accepted if one != ""), "")
    return [_filled(one) for one in cast("list[Any]", value)] if isinstance(value, list) else _filled(value)


def _filled(value: Any) -> Any:
    if (keys := _mapping(value)) is None:
        return value
    return {key: next(one for one in values if one != "") for key, values in keys.items() if "" not in values}
