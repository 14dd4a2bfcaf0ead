"""One line of a program changed: faults that tests should see, and other ways to write the same.

A program is first put into a normal form (``normal``: no comments, no docstrings, a statement a line), so that a change
of one expression changes one line. Whether a fault is one is for tests to say: ``judge`` the mutant.
"""

from __future__ import annotations

import ast
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


def _changed(source: str, ways: Callable[[ast.AST], Iterator[str]]) -> list[Mutant]:
    """``ways`` changes a node in one way after another, and takes each back before the next."""
    tree, lines, found = _parsed(source), source.splitlines(), list[Mutant]()
    seen = {source.strip()}
    for node in list(ast.walk(tree)):
        for what in ways(node):
            text = ast.unparse(ast.fix_missing_locations(tree))
            rows = text.splitlines()
            differ = [i for i, (a, b) in enumerate(zip(lines, rows, strict=False)) if a != b]
            if len(rows) == len(lines) and len(differ) == 1 and text not in seen:
                seen.add(text)
                found.append(Mutant(differ[0], text, what))
    return sorted(found, key=lambda mutant: mutant.line)


def _with(node: ast.AST, what: str, **fields: object) -> Iterator[str]:
    """A node with other fields for a moment."""
    old = {name: getattr(node, name) for name in fields}
    vars(node).update(fields)
    yield what
    vars(node).update(old)


def _faults(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield from _with(node, "comparison", ops=[_COMPARE[type(node.ops[0])](), *node.ops[1:]])
        if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield from _with(node, "comparison", ops=[_OTHER_SIDE[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield from _with(node, "operator", op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield from _with(node, "and, or", op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from _with(node, "number", value=node.value + 1)
        if node.value > 0:
            yield from _with(node, "number", value=node.value - 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield from _with(node, "truth", value=not node.value)
    elif isinstance(node, ast.If | ast.While):
        yield from _with(node, "condition", test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _with(node, "nothing returned", value=ast.Constant(None))
    for name, before, statement, behind in _statements(node):
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            yield from _with(node, "left out", **{name: [*before, ast.Pass(), *behind]})
        elif isinstance(statement, ast.Break | ast.Continue):
            turned = ast.Continue() if isinstance(statement, ast.Break) else ast.Break()
            yield from _with(node, "loop", **{name: [*before, turned, *behind]})


def _rewritings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OTHER_SIDE:
        turned = _OTHER_SIDE[type(node.ops[0])]()
        yield from _with(node, "sides swapped", left=node.comparators[0], comparators=[node.left], ops=[turned])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        yield from _with(node, "terms swapped", left=node.right, right=node.left)
    for name, before, statement, behind in _statements(node):
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            value = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
            whole = ast.Assign([ast.Name(statement.target.id, ast.Store())], value)
            yield from _with(node, "written out", **{name: [*before, whole, *behind]})


def _statements(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt], ast.stmt, list[ast.stmt]]]:
    """Each statement inside a node: the field in which it stands, what stands before it there, and what behind."""
    for name in ("body", "orelse"):
        # a lambda and a conditional expression have one expression there
        found: Any = getattr(node, name, None)
        body: list[ast.stmt] = found if isinstance(found, list) else []
        for i, statement in enumerate(body):
            yield name, body[:i], statement, body[i + 1 :]


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput("no Python program", got=str(error), where="sandbox.mutants") from error
