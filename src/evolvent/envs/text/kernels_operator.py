"""An operator of the world of kernels: prototype in C, reference in numpy, sizes, tolerance, a naive kernel in C."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.outside import line_of
from evolvent.envs.text import kernels_regimes as regimes
from evolvent.envs.text.kernels_regimes import USUAL

Sizes = dict[str, Any]
"""Sizes, whole numbers, and the values of single floats."""
Arrays = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator, tuple[int, ...], Sizes], np.ndarray]
VALUE = 1.7
"""Of a single float where nothing is drawn: while kernels are timed."""
_MOST = 1 << 26
"""Values of an array at the usual sizes."""
TYPES = {"float": np.float32, "int": np.int32, "unsigned char": np.uint8, "signed char": np.int8}


@dataclass(frozen=True)
class Operator:
    """One operator; ``shapes`` says by array its dimensions in terms of the sizes, which are the int arguments."""

    name: str
    words: str
    args: str
    """Of ``void kernel(…)``; what is not const is an output."""
    reference: Callable[..., Any]
    """Called with all inputs and sizes by name; returns the outputs."""
    shapes: str
    """``x: rows, cols; out: rows, cols``."""
    sizes: Sizes
    """The usual ones, at which it is timed."""
    tol: float
    naive: str
    draws: Mapping[str, Draw] = field(default_factory=dict[str, Draw])
    """How arrays are drawn that are not standard normal (float) or any byte, the extremes oftener."""
    hidden: Callable[[np.random.Generator], Sizes] | None = None
    """Other sizes; default: each from 1 to 70."""

    @property
    def prototype(self) -> str:
        """Its declaration."""
        return f"void kernel({self.args})"

    @property
    def parameters(self) -> list[tuple[str, str, str]]:
        """Name, type, and ``in``, ``out`` or ``value`` of each argument, in order."""
        found = []
        for text in self.args.split(","):
            match = re.fullmatch(r"\s*(const )?([a-z ]+?)\s*(\*?)\s*(\w+)\s*", text)
            if match is None or match[2] not in TYPES or not (match[3] or match[2] in ("int", "float")):
                raise BadInput(
                    "an argument that is none of those a kernel has",
                    got=text.strip(),
                    where=f"operator {self.name}",
                    expected=f"int n, float a, or [const] TYPE* name with a TYPE of {', '.join(TYPES)}",
                )
            found.append((match[4], match[2], "value" if not match[3] else "in" if match[1] else "out"))
        return found

    def shape(self, array: str, sizes: Sizes) -> tuple[int, ...]:
        """The dimensions of an array."""
        dims_of = dict(part.split(":") for part in self.shapes.split(";"))
        text = {name.strip(): dims for name, dims in dims_of.items()}[array]
        return tuple(int(eval(dim, {}, dict(sizes))) for dim in text.split(","))

    def other_sizes(self, rng: np.random.Generator) -> Sizes:
        """Sizes that nobody is shown."""
        sizes = self.hidden(rng) if self.hidden else {name: int(rng.integers(1, 71)) for name in self.sizes}
        return sizes | self.values(rng)

    def larger_sizes(self, rng: np.random.Generator) -> list[Sizes]:
        """One set of sizes above the usual ones; none where ``hidden`` says how sizes belong together."""
        some = {name: int(rng.integers(size + 1, size + size // 4 + 2)) for name, size in self.sizes.items()}
        return [] if self.hidden else [some | self.values(rng)]

    def values(self, rng: np.random.Generator) -> Sizes:
        """Single floats, of either sign."""
        names = [name for name, kind, role in self.parameters if role == "value" and kind == "float"]
        return {name: float(np.float32(rng.normal(0.0, 2.0))) for name in names}

    def inputs(self, rng: np.random.Generator, sizes: Sizes, regime: str = USUAL) -> Arrays:
        """Fresh input arrays by name, in the types of the prototype; ``regime``: one of ``REGIMES``.

        A regime is that of one array or of some: of a huge value and of a large spread of one, since what two of them
        come to is no more than rounding leaves of it; of a small spread of all.
        """
        made: Arrays = {}
        some: list[str] = []
        for name, kind, role in self.parameters:
            if role == "in":
                shape = self.shape(name, sizes)
                value = self.draws[name](rng, shape, sizes) if name in self.draws else _any(rng, shape, kind)
                made[name] = np.ascontiguousarray(value, TYPES[kind])
                some += [name] if kind == "float" or (kind != "int" and name not in self.draws) else []
        if some and regime != USUAL:
            first = rng.choice(some)
            for name in some if regime not in ("spread 30", "one huge") else ():
                if name != first and (regime == "spread 0.01" or rng.random() < 0.5):
                    made[name] = regimes.drawn(rng, regime, made[name], self._anything(name))
            made[first] = regimes.drawn(rng, regime, made[first], self._anything(first))
        return made

    def _anything(self, name: str) -> bool:
        """Whether any number may stand in an array: it has no draw of its own, which may keep to some."""
        return name not in self.draws or isinstance(self.draws[name], Reals)

    def expected(self, inputs: Arrays, sizes: Sizes) -> list[np.ndarray]:
        """The right outputs, in their order, in double precision where they are floats.

        Raises:
            EnvError: the reference raises, or returns no such outputs: nothing can be said of any program.
        """
        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs.items()}
        wide |= {name: VALUE for name, kind, role in self.parameters if role == "value" and kind == "float"}
        try:
            with np.errstate(all="ignore"):  # what comes of it is looked at below
                found = self.reference(**(wide | sizes))
            outputs = [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]
        except Exception as error:
            raise EnvError(
                f"the reference of operator {self.name} failed",
                got=f"{type(error).__name__}: {error}",
                where=line_of(error),
                do="mend it: it is called with all inputs and sizes by name",
            ) from error
        wanted = [self.shape(name, sizes) for name, _, role in self.parameters if role == "out"]
        shapes = [each.shape for each in outputs]
        if shapes != wanted or not all(each.dtype.kind in "biuf" and np.isfinite(each).all() for each in outputs):
            raise EnvError(
                f"the reference of operator {self.name} gives no outputs to compare with",
                got=shapes if shapes != wanted else "values that are no finite numbers",
                expected=f"finite numbers of shapes {wanted}, as its prototype and shapes say",
                where=f"{inspect.getsourcefile(self.reference)}, {self.reference.__name__}",
            )
        return outputs

    @property
    def numpy(self) -> str:
        """The reference as text."""
        return inspect.getsource(self.reference).strip()

    @property
    def source(self) -> str:
        """The naive kernel as a file in C."""
        text, depth, deep = f"{self.prototype} {{\n", 1, 0
        for part in re.findall(r"[^;{}()]*[;{}()]", self.naive):
            end, depth, deep = part[-1], depth - (part[-1] == "}"), deep + {"(": 1, ")": -1}.get(part[-1], 0)
            text += ("    " * depth + part.lstrip() if text.endswith("\n") else part) + (
                "\n" if end in ";{}" and not deep else ""
            )
            depth += end == "{"
        return text + "}\n"


def check_operators(operators: Any, where: str) -> None:
    """Refuse what is no sequence of operators that can be drawn and compared.

    Raises:
        BadInput: says which operator, and what of it.
    """
    if not isinstance(operators, list | tuple) or not operators:
        raise BadInput("no operators", got=operators, expected="OPERATORS = [Operator(…), …]", where=where)
    for one in operators:
        if not isinstance(one, Operator):
            raise BadInput("no operator", got=one, expected="Operator(…)", where=where)
        here = f"{where}, operator {one.name}"
        ints = [name for name, kind, role in one.parameters if role == "value" and kind == "int"]
        if sorted(one.sizes) != sorted(ints) or not all(type(n) is int and n > 0 for n in one.sizes.values()):
            raise BadInput(
                "the usual sizes are not those of the int arguments",
                got=one.sizes,
                where=here,
                expected=f"a whole number above 0 for each of {', '.join(ints)}",
            )
        if not 0 <= one.tol < np.inf:
            raise BadInput("no tolerance", got=one.tol, expected="a number from 0 on", where=here)
        for name in (name for name, _, role in one.parameters if role != "value"):
            try:
                n = math.prod(one.shape(name, one.sizes))
            except (KeyError, NameError, SyntaxError, TypeError, ValueError, ZeroDivisionError) as error:
                raise BadInput(
                    f"the dimensions of {name} are not known",
                    got=f"{type(error).__name__}: {error}",
                    expected=f"shapes with {name}: and its dimensions in terms of {', '.join(ints)}",
                    where=here,
                ) from error
            if not 0 < n <= _MOST:
                raise BadInput(f"no usual size of {name}", got=f"{n:,} values", expected=f"1 to {_MOST:,}", where=here)


def _any(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind == "float":
        return _normal(rng, shape)
    n = math.prod(shape)
    x, ends = rng.integers(0, 1 << 64, (2, n // 8 + 1), np.uint64).view(np.uint8)[:, :n]  # eight at once
    x |= -(ends >= 230).view(np.uint8)  # these become 255, those below 26 become 0
    x &= (ends < 26).view(np.uint8) - np.uint8(1)
    return (x if kind == "unsigned char" else (x ^ np.uint8(128)).view(np.int8)).reshape(shape)


class Quick(np.random.Generator):
    """Draws normal arrays at a tenth of the price, so that all inputs of a sample can be new.

    Each is a rotation of two windows of a hidden pool, at random places and by a random angle: normal again, no
    piece comes twice, and single values only by chance.
    """

    def __init__(self) -> None:
        super().__init__(np.random.SFC64())
        self._pool = np.zeros(0, np.float32)

    def rotated(self, shape: tuple[int, ...]) -> np.ndarray:
        """Standard normal numbers in single precision."""
        n, places = math.prod(shape), 1 << 18
        if self._pool.size < n + places:
            self._pool = self.standard_normal(n + places, np.float32)
        (one, other), angle = self.integers(0, places, 2), self.uniform(0, 2 * math.pi)
        x = self._pool[one : one + n] * np.float32(math.cos(angle))
        x += self._pool[other : other + n] * np.float32(math.sin(angle))
        return x.reshape(shape)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0, offset: float = 0.0) -> np.ndarray:
    x = rng.rotated(shape) if isinstance(rng, Quick) else rng.standard_normal(shape, np.float32)
    x *= np.float32(scale)
    x += np.float32(offset)
    return x


@dataclass(frozen=True)
class Reals:
    """A draw of numbers in whose place any other may stand, too: not only those that it gives."""

    draw: Draw

    def __call__(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        """Float numbers of that shape."""
        return self.draw(rng, shape, sizes)


def scaled(scale: float, offset: float = 0.0) -> Draw:
    """Normal numbers of that spread around ``offset``."""
    return Reals(lambda rng, shape, sizes: _normal(rng, shape, scale, offset))


def spreads(low: float, high: float) -> Draw:
    """Normal numbers in rows, each of a spread of its own between the two, as often below 3 as above where these are
    .3 and 30: what only large differences allow does not pay.
    """

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        return _normal(rng, shape) * np.exp(rng.uniform(math.log(low), math.log(high), (*shape[:-1], 1)), dtype="f4")

    return Reals(draw)


def below(size: str) -> Draw:
    """Whole numbers below a size."""
    return lambda rng, shape, sizes: rng.integers(0, sizes[size], shape, np.int32)


def apart(step: float = 0.0) -> Draw:
    """Normal numbers in rows that lie around -8, 0 or 8; of multiples of ``step`` many are equal."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        x = _normal(rng, shape) + rng.choice(np.array([-8, 0, 8], np.float32), (*shape[:-1], 1))
        return np.round(x / step) * step if step else x

    return Reals(draw)


def tiny_rows(scale: float, offset: float = 0.0) -> Draw:
    """Normal numbers of that spread around ``offset``; every second row a thousandth of it, where an epsilon counts."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        x = _normal(rng, shape, scale, offset)
        return x * rng.choice(np.array([1, 1e-3], np.float32), (*shape[:-1], 1))

    return Reals(draw)


def row_ends(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """Where the rows of a sparse matrix begin, and the end."""
    return np.concatenate([[0], np.sort(rng.integers(0, sizes["nnz"] + 1, sizes["rows"] - 1)), [sizes["nnz"]]])
