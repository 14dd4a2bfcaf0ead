"""The parts of a workflow, each in two implementations, and the configurations of them that are run.

A part is a player of a game (teams as in ShapleyFlow, arXiv 2502.00510): every slot always runs, a configuration says
which ones run their strong implementation. A configuration is a mask: bit i = part i is strong.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.formulas.coalitions import antithetic_orders, coalitions_along

EXACT = 6
"""Up to so many parts every configuration is run."""
PAIRS = 4
"""With more: so many orders of the parts, and their reverses."""
MOST = 20
_NAME = 32
_WHERE = "evolvent.worth(parts=…)"


@dataclass(frozen=True)
class Part:
    """A slot of a workflow; ``labels``, ``prints`` and ``whole`` are of its weak and its strong implementation.

    Attributes:
        labels: names for people.
        prints: what is the same as long as the implementation is, as far as that can be told.
        whole: whether it can: of an object only its type is known.
    """

    name: str
    weak: Any
    strong: Any
    labels: tuple[str, str]
    prints: tuple[str, str]
    whole: bool


class Chosen(Mapping[str, Any]):
    """The implementations of one configuration, by part; notes in ``read`` which ones were asked for."""

    def __init__(self, parts: Sequence[Part], mask: int) -> None:
        self._of = {part.name: part.strong if mask >> i & 1 else part.weak for i, part in enumerate(parts)}
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        """The implementation of a part; ``KeyError`` where there is none of that name."""
        value = self._of[name]
        self.read.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, name: object) -> bool:
        return name in self._of


def parts_of(given: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> tuple[Part, ...]:
    """Parts from ``{name: (weak, strong)}``, or the same as pairs.

    Raises:
        BadInput: none or too many, two of one name, or one without two implementations.
    """
    pairs: list[Any] = [*given.items()] if isinstance(given, Mapping) else [*given]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise BadInput("no parts", got=pairs, expected="{name: (weak, strong), …}", where=_WHERE)
    names = [name for name, _ in pairs]
    wrong = [name for name in names if not isinstance(name, str) or not name.strip() or names.count(name) > 1]
    if wrong or not 1 <= len(pairs) <= MOST:
        what = "parts need names that differ" if wrong else "no parts" if not pairs else "too many parts"
        raise BadInput(what, got=names, expected=f"1 to {MOST} different names", where=_WHERE)
    return tuple(_part(name, both) for name, both in pairs)


def _part(name: str, both: Any) -> Part:
    if not isinstance(both, tuple | list) or len(both) != 2:
        expected = "(weak, strong), e.g. (None, critique)"
        raise BadInput("a part has two implementations", got=both, expected=expected, where=f"{_WHERE}, {name}")
    (print_weak, whole_weak), (print_strong, whole_strong) = map(fingerprint, both)
    whole = whole_weak and whole_strong
    if both[0] is both[1] or (whole and print_weak == print_strong):
        raise BadInput("both implementations of a part are the same", got=both[0], where=f"{_WHERE}, {name}")
    weak, strong = map(_label, both)
    if weak == strong:
        weak, strong = f"{weak} (weak)", f"{strong} (strong)"
    return Part(name, both[0], both[1], (weak, strong), (print_weak, print_strong), whole)


def masks_of(n: int, rng: np.random.Generator) -> list[int]:
    """The configurations to run, none strong first and all strong last.

    All of up to ``EXACT`` parts. Of more those along drawn orders, and each part strong alone or weak alone.
    """
    if n <= EXACT:
        return list(range(1 << n))
    full = (1 << n) - 1
    along = {mask for order in antithetic_orders(n, PAIRS, rng) for mask in coalitions_along(order.tolist())}
    return sorted(along | {1 << i for i in range(n)} | {full - (1 << i) for i in range(n)})


def _label(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str | int | float):
        said = " ".join(str(value).split())
        return said if len(said) <= _NAME else f"{said[: _NAME - 8]}… {fingerprint(value)[0][:6]}"
    if isinstance(value, functools.partial):
        return _label(value.func)
    return str(getattr(value, "__name__", type(value).__name__))


def fingerprint(value: Any) -> tuple[str, bool]:
    """A checksum of a value that stays as long as the value does, in other processes too; and whether it covers it.

    Of a function: its code, constants, defaults and what it encloses; not what it calls. Of an object that is neither
    data nor a function, and of a list that a function encloses, only the type is known.
    """
    types: list[str] = []
    found = hashlib.sha256(_written(value, types, 0).encode("utf-8", "backslashreplace")).hexdigest()
    return found[:16], not types


def _written(value: Any, types: list[str], depth: int) -> str:
    """A value as text; ``types`` gets the names of those that are known by them alone."""

    def inner(one: Any) -> str:
        return _written(one, types, depth + 1)

    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    if depth > 12:
        types.append("nested")
        return "…"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{inner(k)}:{inner(v)}" for k, v in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(map(inner, value))) + "}"
    if isinstance(value, tuple | list):
        return "[" + ",".join(map(inner, value)) + "]"
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, CodeType):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"  # code of another Python is written otherwise
        return inner([version, value.co_code, value.co_consts, value.co_names, value.co_freevars, value.co_varnames])
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
        cells = [type(one) if isinstance(one, list | dict | set) else one for one in held]  # a log, a cache: it changes
        return inner(["def", value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, cells])
    if isinstance(value, MethodType):
        return inner([value.__func__, value.__self__])
    if isinstance(value, functools.partial):
        return inner([value.func, value.args, value.keywords])
    if isinstance(value, BuiltinFunctionType) or inspect.ismodule(value):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return inner([type(value).__qualname__, fields])
    kind = value if isinstance(value, type) else type(value)
    types.append(kind.__qualname__)
    return f"{kind.__module__}.{kind.__qualname__}"
