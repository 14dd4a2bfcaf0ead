"""Answers to items of BFCL that are right, nearly right, or wrong in one way: what a judge of them must tell apart.

Each mutation takes a draw, the calls of a right answer and the functions, changes the calls in place, and returns
whether it could. What comes of it may be right or wrong: that is for the judges.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Calls = list[dict[str, Any]]
Tools = Sequence[Mapping[str, Any]]
Mutation = Callable[[random.Random, Calls, Tools], bool]
Slot = tuple[Any, Any]  # a list or a dictionary, and an index or a key of it


def drawn(draw: random.Random, gold: Sequence[Mapping[str, Any]], tools: Tools) -> Calls:
    """A right answer: any of the accepted values, what may be left out now there, now not."""
    calls = []
    for one in gold:
        for name, accepted in one.items():
            needed = next(t["parameters"].get("required", []) for t in tools if t["name"] == name)
            arguments = {}
            for key, values in accepted.items():
                real = [value for value in values if value != ""]
                if real and (key in needed or "" not in values or draw.random() < 0.6):
                    arguments[key] = _filled(draw, draw.choice(real))
            calls.append({"name": name, "arguments": arguments})
    return calls


def _filled(draw: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: draw.choice([one for one in values if one != ""])
            for key, values in value.items()
            if any(one != "" for one in values) and ("" not in values or draw.random() < 0.6)
        }
    return [_filled(draw, one) if isinstance(one, dict) else one for one in value] if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------------ where
def slots(value: Any, deep: bool = True) -> list[Slot]:
    """All places in arguments, those in lists and dictionaries included."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    found = [(value, key) for key, _ in pairs]
    return found + [slot for _, one in pairs if deep and isinstance(one, dict | list) for slot in slots(one)]


def places(calls: Calls, kind: type | tuple[type, ...], *, inner: bool = False) -> list[Slot]:
    """The places of all calls that hold a value of a type; ``inner``: only those in lists and dictionaries."""
    found = [slot for call in calls for slot in slots(call["arguments"])]
    tops = [call["arguments"] for call in calls]
    fits = [(box, key) for box, key in found if type(box[key]) in (kind if isinstance(kind, tuple) else (kind,))]
    return [slot for slot in fits if not any(slot[0] is top for top in tops)] if inner else fits


def _at(
    kind: type | tuple[type, ...],
    change: Callable[[random.Random, Any], Any],
    *,
    inner: bool = False,
    where: Callable[[Any], bool] = lambda value: True,
) -> Mutation:
    """Change one value of a type, wherever it stands, or only inside of others, or only some."""

    def mutate(draw: random.Random, calls: Calls, tools: Tools) -> bool:
        found = [(box, key) for box, key in places(calls, kind, inner=inner) if where(box[key])]
        if not found:
            return False
        box, key = draw.choice(found)
        before = repr(box[key])
        box[key] = change(draw, box[key])
        return repr(box[key]) != before

    return mutate


# ------------------------------------------------------------------------------------------------ changes of values
def _case(draw: random.Random, text: str) -> str:
    return draw.choice([text.upper(), text.lower(), text.title(), text.swapcase()])


def _marks(draw: random.Random, text: str) -> str:
    at = draw.randrange(len(text) + 1)
    put = [text[:at] + mark + text[at:] for mark in draw.sample(" ,./-_*^", 4)]
    return draw.choice([*put, text.replace(" ", ""), f" {text}. "])


def _quotes(draw: random.Random, text: str) -> str:
    at, mark = draw.randrange(len(text) + 1), draw.choice("'\"`’")
    return draw.choice([text.replace("'", '"'), text.replace("'", "’"), text[:at] + mark + text[at:]])


def _unicode(draw: random.Random, text: str) -> str:
    at = draw.randrange(len(text) + 1)
    return draw.choice(
        [
            unicodedata.normalize("NFD", text + "é"),
            "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
            text[:at] + draw.choice("\u00a0\u200b\u0130ßı–，!\U0001f600") + text[at:],
            text.replace("i", "ı").replace("s", "ſ").replace("e", "é"),
            re.sub("[kK]", "\u212a", text),
            re.sub("[kK]", "\u212a", text, count=1),
        ]
    )


def _type(draw: random.Random, value: Any) -> Any:
    """The same in another type."""
    if isinstance(value, bool):
        return draw.choice([int(value), str(value), str(value).lower(), [value]])
    if isinstance(value, int):
        return draw.choice([float(value), str(value), bool(value), [value]])
    if isinstance(value, float):
        return draw.choice([int(value), str(value), [value]])
    return draw.choice([[value], {"value": value}, tuple(value), len(value), None])


def _number(draw: random.Random, value: float) -> Any:
    return draw.choice([value + 1, value - 1, -value, value * 100, value / 100, value + 1e-12, value * 1.0])


def _items(draw: random.Random, value: list[Any]) -> Any:
    some = draw.sample(value, len(value))
    return draw.choice([some, value[:-1], value[1:], [*value, *value[:1]], [*value, None], [], [value], value[::-1]])


def _to_tuple(draw: random.Random, value: list[Any]) -> Any:
    return draw.choice([tuple(value), [tuple(one) if isinstance(one, list) else one for one in value], str(value)])


def _keys(draw: random.Random, value: dict[str, Any]) -> Any:
    out = dict(value)
    key = draw.choice([*out, "extra"])
    change = draw.randrange(5)
    if change == 0 or key not in out:
        out[draw.choice(["extra", key.upper(), f"{key} "])] = draw.choice(["", None, 1, "x"])
    elif change == 1:
        del out[key]
    elif change == 2:
        out[key.upper()] = out.pop(key)
    elif change == 3:
        out[key] = draw.choice([None, "", [out[key]], {"value": out[key]}, str(out[key])])
    return dict(reversed(out.items())) if change == 4 else out


# ------------------------------------------------------------------------------------------------ changes of calls
def _dicts(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """In a list of dictionaries: their order, their number, one of them, or what is in it."""
    found = [(b, k) for b, k in places(calls, list) if b[k] and all(isinstance(one, dict) for one in b[k])]
    if not found:
        return False
    box, key = draw.choice(found)
    if draw.random() < 0.5:
        at = draw.randrange(len(box[key]))
        box[key][at] = _keys(draw, box[key][at])
    else:
        box[key] = _items(draw, box[key])
    return True


def _order(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """Calls, and the arguments of each, in another order."""
    draw.shuffle(calls)
    for call in calls:
        call["arguments"] = dict(draw.sample(list(call["arguments"].items()), len(call["arguments"])))
    return len(calls) > 1 or any(len(call["arguments"]) > 1 for call in calls)


def _left_out(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    call = draw.choice(calls)
    return bool(call["arguments"]) and call["arguments"].pop(draw.choice(list(call["arguments"])), "") != ""


def _extra(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    call = draw.choice(calls)
    known = next((list(t["parameters"]["properties"]) for t in tools if t["name"] == call["name"]), [])
    call["arguments"][draw.choice([*known, "x"])] = draw.choice(["", None, 0, "x", True, [], {}, 1.0])
    return True


def _null(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    box, key = draw.choice([slot for call in calls for slot in slots(call["arguments"])] or [({}, None)])
    if key is None:
        return False
    box[key] = draw.choice([None, "", "null", "None", [], {}])
    return True


def _name(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    call, others = draw.choice(calls), [tool["name"] for tool in tools]
    name = call["name"]
    call["name"] = draw.choice([*others, name.upper(), name.replace(".", "_"), name.replace("_", "."), f"{name} ", ""])
    return call["name"] != name


def _count(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    change = draw.randrange(3)
    if change == 0:
        calls.clear()
    elif change == 1:
        calls.append(calls[draw.randrange(len(calls))])
    else:
        calls.pop(draw.randrange(len(calls)))
    return True


def _swapped(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """The values of two arguments, or the arguments of two calls."""
    if len(calls) > 1 and draw.random() < 0.5:
        a, b = draw.sample(calls, 2)
        a["arguments"], b["arguments"] = b["arguments"], a["arguments"]
        return a["arguments"] != b["arguments"]
    arguments = draw.choice(calls)["arguments"]
    if len(arguments) < 2:
        return False
    a, b = draw.sample(list(arguments), 2)
    arguments[a], arguments[b] = arguments[b], arguments[a]
    return arguments[a] != arguments[b]


def _harmless(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """Order, case, blanks and marks at once."""
    return all([_order(draw, calls, tools), _at(str, _case)(draw, calls, tools), _at(str, _marks)(draw, calls, tools)])


def _whole(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """A whole number for a float of the same value."""
    whole = _at(float, lambda draw, value: int(value), where=lambda value: value == int(value))
    return whole(draw, calls, tools)


def _word(draw: random.Random, calls: Calls, tools: Tools) -> bool:
    """A text that gold may hold in place of a value: a variable."""
    return _at((int, float, bool, list, dict), lambda draw, _: draw.choice(["x", "n + 1", "value"]))(draw, calls, tools)


MUTATIONS: dict[str, Mutation] = {
    "none": lambda draw, calls, tools: True,
    "order of calls and arguments": _order,
    "case": _at(str, _case),
    "blanks and marks": _at(str, _marks),
    "quotes": _at(str, _quotes, where=lambda text: "'" in text),
    "order, case and marks": _harmless,
    "whole numbers": _whole,
    "Unicode": _at(str, _unicode),
    "texts inside": _at(str, lambda draw, text: draw.choice([_case, _marks])(draw, text), inner=True),
    "another type": _at((bool, int, float, str), _type),
    "another type inside": _at((bool, int, float, str), _type, inner=True),
    "number": _at((int, float), _number),
    "items of a list": _at(list, _items),
    "tuple": _at(list, _to_tuple),
    "keys of a dictionary": _at(dict, _keys),
    "list of dictionaries": _dicts,
    "null": _null,
    "left out": _left_out,
    "extra": _extra,
    "function": _name,
    "number of calls": _count,
    "swapped": _swapped,
    "variable": _word,
}
