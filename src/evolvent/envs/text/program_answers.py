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
_ENDS = re.compile(r"(\"\"\"|''')|\n[^\S\n]*\n(?=[A-Z][a-z']*,? [a-z])")
"""Where a text in a program begins or ends, and where a sentence begins behind a program without a code block: no line
of Python begins so, but of a text in it."""
_MOST_BEGINS, _MOST_READ = 60, 4 * MOST_CHARS
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITION = ast.Import | ast.ImportFrom | _FUNCTION | ast.ClassDef | ast.Assign | ast.AnnAssign


def extract(answer: str, name: str = "") -> str:
    """The program in an answer: its first code block that defines ``name`` (else that has a program), with the imports
    and definitions of those before it; without blocks, what begins with definitions and ends before a sentence.
    """
    answer = unix(answer)[: 4 * MOST_CHARS]
    blocks = [dedent(block.strip("\n")).rstrip() for block in code_blocks(answer) if _BLOCK.search(block)]
    if blocks:
        at = next((i for i, block in enumerate(blocks) if _ahead(block, name)[0] is not None), 0)
        before = [block for block in blocks[:at] if _defines_only(block) and f"import {name}" not in block]
        return "\n\n".join([*before, blocks[at]])[:MOST_CHARS]
    begin = _BARE.search(answer.lstrip())
    bare = _before_prose(answer.lstrip()[begin.start() :]) if begin else ""
    return (_found(answer[:MOST_CHARS], name) if name else "") or bare


def _found(text: str, name: str) -> str:
    """The program that defines ``name`` behind the first lines of ``text``, which may be prose; "" where none does.

    Every line is tried as its begin until ``_MOST_READ`` characters were read; after that a begin that fails takes
    along all lines that were read with it, so that no answer costs more than a few times its length.
    """
    lines, at = text.splitlines(keepends=True), 0
    left = _MOST_READ
    while at < min(len(lines), _MOST_BEGINS):
        rest = "".join(lines[at:])
        most = 1
        # its first line may have another indentation
        for source in dict.fromkeys(map(_before_prose, (rest.lstrip(), dedent(rest)))):
            ahead, read = _ahead(source, name)
            if ahead is not None and not any(map(_is_word, ahead)):
                return source
            left, most = left - sum(map(len, lines[at : at + read])), max(most, read)
        at += 1 if left > 0 else most
    return ""


def first_line(answer: str) -> str:
    """The value in an answer: the first line of its code block, or of all of it."""
    blocks = [block.strip() for block in code_blocks(answer)]
    return (next(filter(None, blocks), "") or answer.strip()).partition("\n")[0].strip("` ")


def parsed(source: str) -> ast.Module | None:
    """Its tree, or ``None``. It is not compiled out here: that can take any time and memory, the sandbox bounds it."""
    return _parsed(source)[0]


def _parsed(source: str) -> tuple[ast.Module | None, int]:
    """The tree of a program, or ``None``, and how many of its lines were read for it."""
    lines = source.count("\n") + 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source), lines
    except SyntaxError as error:
        return None, min(error.lineno or lines, lines)
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None, lines


def _before_prose(text: str) -> str:
    text, inside = text[:MOST_CHARS].partition("```")[0].rstrip(), set[str]()
    for found in _ENDS.finditer(text):
        if found[1]:
            inside ^= {found[1]}
        elif not inside:
            return text[: found.start()].rstrip()
    return text


def _ahead(source: str, name: str) -> tuple[list[ast.stmt] | None, int]:
    """What stands before the definition of ``name``, and how many lines were read for it; ``None``: there is none."""
    tree, read = _parsed(source)
    body = tree.body if tree else []
    at = next((i for i, node in enumerate(body) if name in _defined(node)), None)
    return (None if at is None else body[:at]), read


def _is_word(node: ast.stmt) -> bool:
    """Whether it is a line of prose that happens to be Python: ``Sure``, ``Note: this``."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Name | ast.Attribute | ast.Tuple)
    return isinstance(node, ast.AnnAssign) and node.value is None


def _defines_only(source: str) -> bool:
    tree = parsed(source)
    return tree is not None and all(isinstance(node, _DEFINITION) for node in tree.body)


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, _FUNCTION | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()
