"""Frozen dataclasses as JSON and back, with a hash and a difference: the effective configuration of a run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from evolvent.core.errors import BadInput, closest
from evolvent.core.strict_json import escape, plain, unescape

T = TypeVar("T")
_RENAMED = {"trace": "gae_lambda", "trace_inside": "gae_lambda_inside", "heat": "adapt_temperature"}
"""Settings as folders of earlier versions call them."""


def to_json(cfg: Any) -> dict[str, Any]:
    """A dataclass instance as strict JSON types: nested dataclasses become objects, tuples lists, NaN and ±inf escaped.

    Raises:
        BadInput: not a dataclass instance, or a field that JSON cannot hold.
    """
    return cast("dict[str, Any]", escape(_to_plain(cfg)))


def from_json(cls: type[T], d: Mapping[str, Any], where: str = "") -> T:
    """Build ``cls`` from what ``to_json`` gave; fields that are missing take their defaults.

    ``where`` is what errors say of its place; default: the name of ``cls``.

    Handles nested dataclasses, tuples, lists, string-keyed dicts, ``Literal``, ``None`` and unions of primitives.
    An int is accepted for a float and stored as one; a bool is never a number.

    Raises:
        BadInput: an unknown field (with the closest known name), a missing one without default, or a wrong type.
    """
    return _build(cls, unescape(dict(d)), where or cls.__name__)


def typed(config: Any, where: str) -> dict[str, Any]:
    """The fields of a dataclass instance as ``from_json(to_json(config))`` would have them; nested ones too.

    So settings that could not be read back from a folder or a receipt are refused before they are written.

    Raises:
        BadInput: a value of another type than its annotation says.
    """
    hints = _hints(cast("type[Any]", type(config)))
    fields = [field.name for field in dataclasses.fields(config) if field.init]
    return {
        name: _value(hints[name], plain(_open(getattr(config, name)), f"{where}, {name}"), f"{where}, {name}")
        for name in fields
    }


@functools.lru_cache(maxsize=256)
def _hints(cls: type[Any]) -> dict[str, Any]:
    return get_type_hints(cls)


def with_fields(config: T, **changed: Any) -> T:
    """The configuration with some fields changed, those of nested ones too: flat, as on the command line.

    Raises:
        BadInput: no such field; names the closest.
    """
    nested = {f.name: getattr(config, f.name) for f in dataclasses.fields(cast("Any", config))}
    own = {name: changed.pop(name) for name in [*changed] if name in nested}
    inner = {name: value for name, value in nested.items() if dataclasses.is_dataclass(value) and name not in own}
    for name, value in inner.items():
        theirs = {
            key: changed.pop(key) for key in [*changed] if key in {path.rpartition(".")[2] for path in flat(value)}
        }
        if theirs:
            own[name] = with_fields(value, **theirs)
    if changed:
        known = [path.rpartition(".")[2] for path in flat(config)]
        hint = closest(next(iter(changed)), known)
        raise BadInput("unknown setting", got=", ".join(changed), expected=hint, where=type(config).__name__)
    return dataclasses.replace(cast("Any", config), **own)


def at_least(config: Any, least: Mapping[str, float], most: Mapping[str, float] = types.MappingProxyType({})) -> None:
    """Refuse settings outside the bounds for their name, in nested configurations too; NaN and ∞ are refused as well.

    A bound holds for each number of a tuple, which must not be empty.

    Raises:
        BadInput: names the flag.
    """
    for path, value in flat(config).items():
        name = path.rpartition(".")[2]
        if name not in least:
            continue
        several = isinstance(value, list)
        values = cast("list[float]", value if several else [value])
        low, high = least[name], most.get(name, math.inf)
        if not values or not all(low <= one < math.inf and one <= high for one in values):
            bounds = f">= {low:g}" if high == math.inf else f"{low:g} to {high:,.12g}"
            expected = f"numbers {bounds}" if several else bounds
            usual = _usual(config, path)
            raise BadInput(
                "a setting is out of bounds",
                got=values if several else values[0],
                expected=expected,
                where=flag(path),
                do=f"leave it out for {usual}" if usual else "",
            )


def _usual(config: Any, path: str) -> str:
    """What a field is where nobody sets it; empty where that has to be given."""
    try:
        default = type(config)()  # the whole: a system has its own defaults for a part
    except TypeError:  # something has to be given
        return ""
    for part in path.split("."):
        default = getattr(default, part)
    return " ".join(map(str, cast("tuple[Any, ...]", default))) if isinstance(default, tuple) else str(default)


def config_hash(cfg: Any) -> str:
    """12 hexadecimal digits of the SHA-256 of the canonical JSON: keys sorted, 1.0 written as 1; equal means equal."""
    text = json.dumps(_canonical(to_json(cfg)), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def diff(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    """Fields that differ, by dotted path: ``{"model.name": (in a, in b)}``; ``...`` stands for "has no such field".

    Both may be dataclass instances or what ``to_json`` gave.
    """
    left, right = flat(a), flat(b)
    pairs = {path: (left.get(path, ...), right.get(path, ...)) for path in [*left, *right]}
    return {path: (x, y) for path, (x, y) in pairs.items() if _key(x) != _key(y)}


def _to_plain(cfg: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(cfg) or isinstance(cfg, type):
        raise BadInput("not a configuration", got=cfg, expected="an instance of a dataclass", where="to_json")
    return plain(_open(cfg), type(cfg).__name__)


def _open(value: Any) -> Any:
    """Dataclasses anywhere inside tuples, lists and mappings as plain dicts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _open(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _open(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [_open(item) for item in cast("Sequence[Any]", value)]
    return value


def _canonical(value: Any) -> Any:
    """Whole floats as ints: a float field that was given 1 is the same configuration as one that was given 1.0."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_canonical(item) for item in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _build(cls: type[T], d: Mapping[str, Any], where: str) -> T:
    if not dataclasses.is_dataclass(cls):
        raise BadInput("not a configuration class", got=cls, expected="a dataclass", where=where)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    hints = _hints(cls)
    # a setting that stood beside the plan before it moved there: folders of earlier versions
    if "plan" in fields and isinstance(d.get("plan", {}), Mapping):
        moved = {f.name for f in dataclasses.fields(hints["plan"])} & d.keys() - fields.keys()
        if moved:
            plan = {**d.get("plan", {}), **{name: d[name] for name in moved}}
            d = {**{name: value for name, value in d.items() if name not in moved}, "plan": plan}
    d = {new if (new := _RENAMED.get(name, "")) in fields and name not in fields else name: d[name] for name in d}
    for name in d:
        if name not in fields:
            raise BadInput("unknown field", got=name, expected=closest(name, fields), where=where)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in d:
            raise BadInput("field is missing", got=sorted(d), expected=name, where=where)
    return cast("T", cls(**{name: _value(hints[name], value, f"{where}.{name}") for name, value in d.items()}))


def _value(hint: Any, value: Any, where: str) -> Any:
    """``value`` as ``hint`` asks, or BadInput."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(hint, args, value, where)
    if origin is Literal:
        if any(value == option and type(value) is type(option) for option in args):
            return value
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, Mapping):
            return _build(hint, cast("Mapping[str, Any]", value), where)
    elif (origin or hint) in (tuple, list, Sequence):
        if isinstance(value, list | tuple):
            return _items(origin or hint, args, cast("Sequence[Any]", value), where)
    elif (origin or hint) in (dict, Mapping):
        if isinstance(value, Mapping):
            of = args[1] if args else Any
            return {key: _value(of, item, f"{where}.{key}") for key, item in cast("Mapping[str, Any]", value).items()}
    elif hint is Any or (hint in (None, type(None)) and value is None):
        return value
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif hint in (str, bool, int) and type(value) is hint:
        return value
    expected = getattr(hint, "__name__", None) if origin is None else None
    raise BadInput("wrong type", got=f"{type(value).__name__}: {value!r}", expected=expected or str(hint), where=where)


def _union(hint: Any, args: tuple[Any, ...], value: Any, where: str) -> Any:
    for option in sorted(args, key=lambda option: option is not type(value)):  # the exact type first: 1 stays int
        try:
            return _value(option, value, where)
        except BadInput:
            continue
    raise BadInput("wrong type", got=f"{type(value).__name__}: {value!r}", expected=str(hint), where=where)


def _items(kind: Any, args: tuple[Any, ...], value: Sequence[Any], where: str) -> Any:
    if kind is tuple and args and args[-1] is not Ellipsis:
        if len(value) != len(args):
            raise BadInput("wrong length", got=len(value), expected=len(args), where=where)
        return tuple(_value(of, item, f"{where}[{i}]") for i, (of, item) in enumerate(zip(args, value, strict=True)))
    of = args[0] if args else Any
    items = [_value(of, item, f"{where}[{i}]") for i, item in enumerate(value)]
    return items if kind is list else tuple(items)


def flag(path: str) -> str:
    """The flag of a setting: ``--save-every`` for ``plan.save_every``."""
    return "--" + path.rpartition(".")[2].replace("_", "-")


def flat(cfg: Any, prefix: str = "") -> dict[str, Any]:
    """Fields of a dataclass, or of what ``to_json`` gave, by dotted path: ``{"plan.device": "cpu"}``."""
    table = cast("Mapping[str, Any]", cfg) if isinstance(cfg, Mapping) else _to_plain(cfg)
    out: dict[str, Any] = {}
    for name, value in (unescape(dict(table)) if isinstance(cfg, Mapping) and not prefix else table).items():
        if isinstance(value, Mapping) and value:
            out |= flat(value, f"{prefix}{name}.")
        else:
            out[f"{prefix}{name}"] = value
    return out


def _key(value: Any) -> str:
    """Text that is equal for equal values: NaN equals NaN, 1 equals 1.0, True does not equal 1."""
    return repr(_canonical(value))
