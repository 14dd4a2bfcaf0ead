"""The program, or the value, in what a model said."""

from __future__ import annotations

import ast
import re
import warnings
from textwrap import dedent

from evolvent.envs.text._text import code_blocks, unix
from evolvent.envs.text.program_problems import BEGIN

MOST_CHARS = 8000
_BLOCK = re.compile(r"^[^\S\n]*(def |async def |import |from |class |@)|= *lambda\b", re.M)
_BARE = re.compile(rf"{BEGIN.pattern}|^(async def |[A-Z][A-Z0-9_]* *= )", re.M)
"""What makes a program of a code block, and where one begins in an answer without any."""
_PROSE = re.compile(r"\n[^\S\n]*\n(?=[A-Z][a-z']*,? [a-z])")
"""Where a sentence begins behind a program without a code block; no line of Python begins so, but of a text in it."""
_MOST_BEGINS = 60
_DEFINITIONS = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
)  # fmt: skip


def extract(answer: str, name: str = "") -> str:
    """The program in an answer: its first code block that defines ``name`` (else that has a program), with the imports
    and definitions of those before it; without blocks, what begins with definitions and ends before a sentence.
    """
    answer = unix(answer)[: 4 * MOST_CHARS]
    blocks = [dedent(block.strip("\n")).rstrip() for block in code_blocks(answer) if _BLOCK.search(block)]
    if blocks:
        at = next((i for i, block in enumerate(blocks) if _before(block, name) is not None), 0)
        before = [block for block in blocks[:at] if _defines_only(block) and f"import {name}" not in block]
        return "\n\n".join([*before, blocks[at]])[:MOST_CHARS]
    begin = _BARE.search(answer.lstrip())
    bare = _before_prose(answer.lstrip()[begin.start() :]) if begin else ""
    lines = answer[:MOST_CHARS].splitlines(keepends=True)
    for i in range(min(len(lines), _MOST_BEGINS) if name else 0):
        rest = "".join(lines[i:])
        for source in map(_before_prose, (rest.lstrip(), dedent(rest))):  # its first line may have another indentation
            ahead = _before(source, name)
            if ahead is not None and not any(map(_is_word, ahead)):
                return source
    return bare


def first_line(answer: str) -> str:
    """The value in an answer: the first line of its code block, or of all of it."""
    blocks = [block.strip() for block in code_blocks(answer)]
    return (next(filter(None, blocks), "") or answer.strip()).partition("\n")[0].strip("` ")


def parsed(source: str) -> ast.Module | None:
    """Its tree, or ``None``. It is not compiled out here: that can take any time and memory, the sandbox bounds it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _before_prose(text: str) -> str:
    text = text[:MOST_CHARS].partition("```")[0].rstrip()
    ends = (found.start() for found in _PROSE.finditer(text))
    whole = next((end for end in ends if not any(text[:end].count(q) % 2 for q in ('"""', "'''"))), None)
    return text[:whole].rstrip()


def _before(source: str, name: str) -> list[ast.stmt] | None:
    """What stands before the definition of ``name``; ``None`` where there is none, or it cannot be read."""
    tree = parsed(source)
    body = tree.body if tree else []
    at = next((i for i, node in enumerate(body) if name in _defined(node)), None)
    return None if at is None else body[:at]


def _is_word(node: ast.stmt) -> bool:
    """Whether it is a line of prose that happens to be Python: ``Sure``, ``Note: this``."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Name | ast.Attribute | ast.Tuple)
    return isinstance(node, ast.AnnAssign) and node.value is None


def _defines_only(source: str) -> bool:
    tree = parsed(source)
    return tree is not None and all(isinstance(node, _DEFINITIONS) for node in tree.body)


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()
