"""What the page of a run shows, as typed blocks: a kind of run makes them, ``page.json`` keeps them, pages draw them.

A page is a function of the files of its run (``runs/<kind>/account.py``). What reads it knows no kind of run and no
column of the metrics. All text is data; a file that a block names lies inside the run folder.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from evolvent.core.config import from_json
from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.strict_json import escape, plain

SCHEMA = 1
FILE = "page.json"
_DAMAGED = (ArithmeticError, RecursionError, TypeError, ValueError)  # BadInput is a ValueError
DEPTH = 24
"""Sections inside sections; what lies deeper is not read."""
Mark = Literal["dots", "line", "points", "level"]
Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Number:
    """A measured number with its 95 % interval.

    Attributes:
        rate: it is a share, 0 to 1, that is written in per cent.
        n: outcomes behind it; ``None`` = not known.
        higher_is_better: of a score.
        over: what the interval is over, e.g. ``"attempts"``.
    """

    name: str
    value: float | None
    ci95: Ends | None = None
    rate: bool = False
    n: float | None = None
    higher_is_better: bool = True
    over: str = ""


@dataclass(frozen=True)
class Headline:
    """Numbers in large figures, the first of them the most important."""

    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Tiles:
    """Named numbers in a grid."""

    values: dict[str, str | float | int | bool | None]
    title: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs; ``code`` keeps its line breaks, ``said`` stands on the terminal when the run ends, too."""

    lines: tuple[str, ...]
    tone: Literal["plain", "soft", "bad", "warning", "code"] = "plain"
    title: str = ""
    said: bool = False


@dataclass(frozen=True)
class Line:
    """A value and an interval at each position ``x``; ``style`` 0 to 5 picks the colour.

    Attributes:
        mark: ``"dots"`` joined, with whiskers; ``"line"`` alone with its band; ``"points"``, not joined;
            ``"level"``, dashed across the picture at its first value.
        n: outcomes behind each value, where it is a share of them: several seeds are then taken together by outcomes.
        role: what a comparison of several runs draws: how the run was ``"judged"`` while it learned, or, where that
            was too seldom, what it came to on what it learned from (``"learned"``); of ``"level"`` lines the first.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    lo: tuple[float | None, ...] = ()
    hi: tuple[float | None, ...] = ()
    style: int = 0
    mark: Mark = "dots"
    n: tuple[int, ...] = ()
    role: Literal["", "judged", "learned"] = ""

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y), *(len(one) for one in (self.lo, self.hi, self.n) if len(one))}
        if len(lengths) > 1:
            raise BadInput("a line of several lengths", got=sorted(lengths), expected="one", where=self.name)


@dataclass(frozen=True)
class Curve:
    """Lines over a common axis. ``rate``: 0 to 100 %; ``zero``: the axis begins at 0; ``small``: one of many."""

    title: str
    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    rate: bool = False
    zero: bool = False
    small: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    """Positions and labels of the axis; none: round numbers of steps from 0 on."""


@dataclass(frozen=True)
class Shares:
    """A map of shares: a row a name, a cell a position, the darker the larger."""

    title: str
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    x_label: str
    last: float


@dataclass(frozen=True)
class Spans:
    """What happens when: a row a name, its spans as start, end, colour and label; the axis ends at ``last``."""

    title: str
    rows: tuple[tuple[str, tuple[tuple[float, float, int, str], ...]], ...]
    x_label: str
    last: float


@dataclass(frozen=True)
class Split:
    """How a whole is divided, as one bar."""

    parts: dict[str, float]
    title: str = ""


@dataclass(frozen=True)
class Bars:
    """Numbers with their intervals on one axis; ``styles``: their colours; ``zero``: the axis holds 0."""

    title: str
    numbers: tuple[Number, ...]
    styles: tuple[int, ...] = ()
    zero: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under names; columns in ``left`` are text. ``meter``: a column of shares, drawn with a bar.

    ``shaded``: counts, the darker the larger their share of the row; ``marked``: rows that stand out.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | bool | None, ...], ...]
    title: str = ""
    left: tuple[int, ...] = (0,)
    meter: int | None = None
    said: bool = False
    shaded: bool = False
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The score, or ``subject``, against one other thing: outcomes of the same tasks in pairs, or two numbers.

    Attributes:
        pairs: task, own outcome and the other one, 0 or 1.
        thing: what a pair is, in words.
        own, other: two numbers, where there are no pairs.
    """

    name: str
    subject: str = ""
    pairs: tuple[tuple[str, int, int], ...] = ()
    thing: str = "task"
    own: Number | None = None
    other: Number | None = None

    def __post_init__(self) -> None:
        _check_outcomes([won for _, *both in self.pairs for won in both], self.name)


@dataclass(frozen=True)
class Outcomes:
    """The outcomes that the score counts, by which runs are compared in pairs: task, 0 or 1, kind of task.

    ``name``: of what, where there are several ("programs that are right"). Nothing is drawn.
    """

    rows: tuple[tuple[str, int, str], ...]
    name: str = ""
    thing: str = "task"

    def __post_init__(self) -> None:
        _check_outcomes([won for _, won, _ in self.rows], self.name)


def _check_outcomes(found: Sequence[int], where: str) -> None:
    if not set(found) <= {0, 1}:
        raise BadInput("an outcome is 0 or 1", got=sorted(set(found) - {0, 1})[:3], where=where)


@dataclass(frozen=True)
class Pair:
    """Two texts beside one another: before and after, ours and theirs."""

    names: tuple[str, str]
    texts: tuple[str, str]
    title: str = ""


@dataclass(frozen=True)
class Pictures:
    """Images of the run folder (PNG, JPEG), with what they show in words."""

    files: tuple[str, ...]
    words: tuple[str, ...]
    title: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Note:
    """A thing that was said or learned, e.g. a memory: heading, body, facts, and why it stands here."""

    heading: str
    body: str
    facts: str = ""
    why: str = ""


@dataclass(frozen=True)
class Notes:
    """Notes one below another; ``bad``: those that did harm."""

    notes: tuple[Note, ...]
    title: str = ""
    bad: bool = False
    said: bool = False


@dataclass(frozen=True)
class Attempts:
    """Attempts, each with its mark: ``True`` right, ``False`` wrong; question, answer, facts."""

    rows: tuple[tuple[bool, str, str, str], ...]


@dataclass(frozen=True)
class Node:
    """A state of a tree; ``parent`` is its place in the list, −1 for none.

    Attributes:
        strong: ``text`` is a heading, not code.
        tags: short words behind the text, each with its tone.
        hue: 0 (red) to 1 (green); ``None`` = without.
        weight: 0 to 1, how thick its line is.
        taken: it lies on the path that was taken.
        inside: what opens with it.
    """

    parent: int
    text: str
    strong: bool = False
    tags: tuple[tuple[Literal["good", "bad", ""], str], ...] = ()
    facts: str = ""
    hue: float | None = None
    weight: float = 0.0
    taken: bool = False
    inside: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Tree:
    """States and what followed each; opens on a click."""

    title: str
    nodes: tuple[Node, ...]
    after: str = ""
    """What is said below it."""
    opened: bool = False


@dataclass(frozen=True)
class Frame:
    """A page of the run folder with scripts: begun by a click, in a frame that reaches nothing, ``tall`` or wide."""

    file: str
    name: str
    how: str = ""
    tall: bool = False


@dataclass(frozen=True)
class Credit:
    """The credit of every token, as ``credit.json`` of the run folder has it."""

    file: str
    title: str = ""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; ``folded``: they open on a click."""

    title: str
    blocks: tuple[Any, ...]
    folded: bool = False
    opened: bool = False


@dataclass(frozen=True)
class Unreadable:
    """A block that is not known here, or damaged: a line says so."""

    what: str


@dataclass(frozen=True)
class Hint:
    """What to try next, where no comparison says it: words, and flags with which the run's command goes on or begins.

    Attributes:
        flags: for the run's own command; ``resume``: it goes on with these instead; ``folder``: a command of its own,
            whose word ``DIR`` is the run folder.
        always: also where everything is better than what it is compared with.
        verdict: in place of any verdict, e.g. of a control.
    """

    words: str = ""
    flags: tuple[str, ...] = ()
    resume: bool = False
    command: tuple[str, ...] = ()
    always: bool = False
    verdict: str = ""


Block = (
    Headline
    | Tiles
    | Text
    | Curve
    | Shares
    | Spans
    | Split
    | Bars
    | Table
    | Comparison
    | Outcomes
    | Pair
    | Pictures
    | Notes
    | Attempts
    | Tree
    | Frame
    | Credit
    | Section
    | Unreadable
)
_TYPES: dict[str, type[Any]] = {
    one.__name__.lower(): one for one in cast("tuple[type[Any], ...]", Block.__args__) if one is not Unreadable
}


@dataclass(frozen=True)
class Page:
    """What a run tells of itself.

    Attributes:
        kind: the kind of run, in words.
        score: the number that comparisons are about; of a run that goes on, where it stands.
        facts: in one line: model, seed, how much was done.
        steps: how far it went, in ``unit``; ``None`` where steps say nothing.
        hint: what to try next.
        reading: how the numbers are to be read, in a sentence or two.
        title: what the page is headed by; "" = the system and its environment.
    """

    kind: str
    blocks: tuple[Block, ...]
    score: Number | None = None
    facts: tuple[str, ...] = ()
    steps: int | None = None
    unit: str = "steps"
    hint: Hint = Hint()
    reading: str = ""
    title: str = ""

    def of(self, kind: type[Any]) -> list[Any]:
        """All blocks of one type, those inside sections too, in order."""
        return [block for block in _walk(self.blocks) if isinstance(block, kind)]


def _walk(blocks: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for block in blocks:
        out.append(block)
        if isinstance(block, Section):
            out += _walk(block.blocks)
    return out


# ------------------------------------------------------------------------------------------------ files
def write(folder: Path, page: Page) -> None:
    """Put the page into a run folder, atomically."""
    write_atomic(folder / FILE, dumps(page))


def dumps(page: Page) -> str:
    """The content of ``page.json``."""
    return dump({"schema": SCHEMA, **to_json(page)}) + "\n"


def read(folder: Path) -> Page | None:
    """The page of a run folder; ``None`` where there is none, it is torn, or of another schema.

    A block that is not known, or holds something else than it should, becomes ``Unreadable``.
    """
    try:
        return loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def loads(text: str) -> Page | None:
    """The page that ``dumps`` gave, as ``read`` reads it."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
            return None
        blocks = content.pop("blocks", [])
        page = from_json(Page, {**content, "blocks": []}, FILE)
    except _DAMAGED:
        return None
    value = page.score.value if page.score else None
    if (value is not None and not math.isfinite(value)) or abs(page.steps or 0) > 2**53:
        return None  # numbers that nobody measured: whatever reads pages counts on them
    return dataclasses.replace(page, blocks=_blocks(blocks, 0))


def to_json(page: Page) -> dict[str, Any]:
    """The page as JSON types: each block is an object with its ``type``; fields at their defaults are left out."""
    return cast("dict[str, Any]", escape(plain(_open(page), "page")))


def _open(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        every = dataclasses.fields(value)
        values, usual = {one.name: getattr(value, one.name) for one in every}, {one.name: one.default for one in every}
        fields = {name: one for name, one in values.items() if type(one) is not type(usual[name]) or one != usual[name]}
        named = {"type": type(value).__name__.lower()} if type(value).__name__.lower() in _TYPES else {}
        return named | {name: _open(one) for name, one in fields.items()}
    if isinstance(value, Mapping):
        return {str(key): _open(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [_open(one) for one in cast("Sequence[Any]", value)]
    return value


def _blocks(found: Any, depth: int) -> tuple[Any, ...]:
    if not isinstance(found, list) or depth > DEPTH:
        deep = f"more than {DEPTH} sections inside one another"
        return (Unreadable(deep if isinstance(found, list) else "blocks that are no list"),)
    return tuple(_block(one, depth) for one in cast("list[Any]", found))


def _block(found: Any, depth: int) -> Any:
    if not isinstance(found, dict):
        return Unreadable("a block that is no object")
    fields = dict(cast("dict[str, Any]", found))
    kind = fields.pop("type", None)
    cls = _TYPES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        said = repr(kind) if isinstance(kind, str | None) else "that is no word"
        return Unreadable(f"a block of the type {said}, which this version does not know")
    try:
        if cls is Section:
            inner = _blocks(fields.pop("blocks", None), depth + 1)
            return dataclasses.replace(from_json(Section, {**fields, "blocks": []}, "section"), blocks=inner)
        if cls is Tree and isinstance(fields.get("nodes"), list):
            nodes = [dict(cast("dict[str, Any]", n)) if isinstance(n, dict) else {} for n in fields["nodes"]]
            inside = [_blocks(node.pop("inside", []), depth + 1) for node in nodes]
            tree = from_json(Tree, {**fields, "nodes": nodes}, "tree")
            pairs = zip(tree.nodes, inside, strict=True)
            return dataclasses.replace(tree, nodes=tuple(dataclasses.replace(n, inside=i) for n, i in pairs))
        return from_json(cls, fields, str(kind))
    except _DAMAGED as error:
        return Unreadable(f"a damaged block of the type {kind!r}: {error}".replace("\n", ";"))
