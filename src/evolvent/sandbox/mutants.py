"""One line of a program changed: faults that tests should see, and other ways to write the same.

A program is first put into a normal form (``normal``: no comments, no docstrings, a statement a line), so that a change
of one expression changes one line. Whether a fault is one is for tests to say: ``judge`` the mutant.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evolvent.core.errors import BadInput

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OTHER_SIDE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitXor: ast.BitOr,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_Change = Callable[[Any], None]


@dataclass(frozen=True)
class Mutant:
    """A program in which one line differs. ``line`` counts from 0, ``what`` names the change."""

    line: int
    source: str
    what: str


def normal(source: str) -> str:
    """``source`` without comments and docstrings, one statement a line; what it does stays.

    Raises:
        BadInput: it does not parse.
    """
    tree = _parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            rest = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
            node.body = rest or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return ast.unparse(tree)


def mutants(source: str) -> list[Mutant]:
    """Every program that differs from ``source`` (in normal form) by one fault in one line, in a fixed order.

    Faults: a comparison or an operator turned, a whole number one off, ``and`` for ``or``, a condition turned, a
    statement left out, ``break`` for ``continue``, nothing returned. Some of them change nothing that a test sees.

    Raises:
        BadInput: it does not parse.
    """
    return _changed(source, _faults)


def rewritten(source: str) -> list[Mutant]:
    """Every program that differs from ``source`` (in normal form) by one line written in another way.

    The sides of a comparison or the terms of a sum or product swapped, ``x += y`` written out. Mostly it does the same;
    with texts and lists it may not.

    Raises:
        BadInput: it does not parse.
    """
    return _changed(source, _rewritings)


def _changed(source: str, ways: Callable[[ast.AST], Iterator[tuple[str, _Change]]]) -> list[Mutant]:
    tree, lines, found = _parsed(source), source.splitlines(), list[Mutant]()
    seen = {source.strip()}
    for at, node in enumerate(ast.walk(tree)):
        for number in range(sum(1 for _ in ways(node))):
            other = copy.deepcopy(tree)
            place = next(n for i, n in enumerate(ast.walk(other)) if i == at)
            what, change = list(ways(place))[number]
            change(place)
            text = ast.unparse(ast.fix_missing_locations(other))
            rows = text.splitlines()
            differ = [i for i, (a, b) in enumerate(zip(lines, rows, strict=False)) if a != b]
            if len(rows) == len(lines) and len(differ) == 1 and text not in seen:
                seen.add(text)
                found.append(Mutant(differ[0], text, what))
    return sorted(found, key=lambda mutant: mutant.line)


def _faults(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield "comparison", lambda n: n.ops.__setitem__(0, _COMPARE[type(n.ops[0])]())
        if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield "comparison", lambda n: n.ops.__setitem__(0, _OTHER_SIDE[type(n.ops[0])]())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "operator", lambda n: setattr(n, "op", _ARITHMETIC[type(n.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "and, or", lambda n: setattr(n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "number", lambda n: setattr(n, "value", n.value + 1)
        if node.value > 0:
            yield "number", lambda n: setattr(n, "value", n.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "truth", lambda n: setattr(n, "value", not n.value)
    elif isinstance(node, ast.If | ast.While):
        yield "condition", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "nothing returned", lambda n: setattr(n, "value", ast.Constant(None))
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        for i, statement in enumerate(body if isinstance(body, list) else []):
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
                yield "left out", lambda n, name=name, i=i: getattr(n, name).__setitem__(i, ast.Pass())
            elif isinstance(statement, ast.Break | ast.Continue):
                turned = ast.Continue if isinstance(statement, ast.Break) else ast.Break
                yield "loop", lambda n, name=name, i=i, turned=turned: getattr(n, name).__setitem__(i, turned())


def _rewritings(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OTHER_SIDE:
        yield "sides swapped", _swap_sides
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        yield "terms swapped", _swap_terms
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        for i, statement in enumerate(body if isinstance(body, list) else []):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                yield "written out", lambda n, name=name, i=i: _write_out(getattr(n, name), i)


def _swap_sides(node: ast.Compare) -> None:
    node.left, node.comparators = node.comparators[0], [node.left]
    node.ops = [_OTHER_SIDE[type(node.ops[0])]()]


def _swap_terms(node: ast.BinOp) -> None:
    node.left, node.right = node.right, node.left


def _write_out(body: list[ast.stmt], i: int) -> None:
    old = body[i]
    assert isinstance(old, ast.AugAssign) and isinstance(old.target, ast.Name)
    value = ast.BinOp(ast.Name(old.target.id, ast.Load()), old.op, old.value)
    body[i] = ast.Assign([ast.Name(old.target.id, ast.Store())], value)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput("no Python program", got=str(error), where="sandbox.mutants") from error
