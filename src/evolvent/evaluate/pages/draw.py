"""Blocks as HTML. All text goes through ``text``; files are read from the run folder alone."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evolvent.core.errors import BadInput
from evolvent.evaluate import blocks as b
from evolvent.evaluate.live import interval
from evolvent.evaluate.pages import credit_book, credit_page
from evolvent.evaluate.pages.page import cards, fold, scroll, section, table, text, tiles
from evolvent.evaluate.pages.png import bright
from evolvent.evaluate.pages.svg import HEIGHT, SMALL, WIDTH, bars, curves, shares, spans, step_ticks
from evolvent.evaluate.pages.tree import tree

_PICTURE_MAX = 16_000_000
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
_STYLES = (0, 1, 4, 2, 3, 5)
_SHADES = 5


def draw(blocks: Sequence[Any], folder: Path) -> str:
    """Blocks one below another; pictures beside one another, as many as there is room for.

    Files that blocks name are those of the run ``folder``.
    """
    out: list[str] = []
    for layout, group in groupby(blocks, _layout):
        members = list(group)
        if layout == "card":
            out.append(cards([(one.title, _block(one, folder)) for one in members]))
        elif layout == "small":
            inside = "".join(f"<div><h3>{text(one.title)}</h3>{_block(one, folder)}</div>" for one in members)
            out.append(f'<div class="small-cards">{inside}</div>')
        else:
            out += [_block(one, folder) for one in members]
    return "".join(out)


def _layout(block: Any) -> str:
    if isinstance(block, b.Curve | b.Bars | b.Spans):
        return "small" if isinstance(block, b.Curve) and block.small else "card"
    return ""


def _block(block: Any, folder: Path) -> str:
    try:
        shown = _shown(block, folder)
    except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:  # somebody damaged it
        return _unreadable(b.Unreadable(f"a block that cannot be drawn: {error}"))
    return section(block.title, shown) if isinstance(block, _HEADED) and block.title else shown


_HEADED = (b.Tiles, b.Text, b.Shares, b.Split, b.Table, b.Pair, b.Pictures, b.Notes, b.Credit)


def _shown(block: Any, folder: Path) -> str:
    """A block without its heading; nothing of comparisons, which the verdict says, and of outcomes."""
    match block:
        case b.Tiles():
            return tiles(block.values)
        case b.Bars():
            rates = all(one.rate for one in block.numbers)
            return bars(block.numbers, block.styles, rates=rates, zero=block.zero)
        case b.Tree():
            return tree(block, lambda blocks: draw(blocks, folder))
        case b.Section():
            shown = draw(block.blocks, folder)
            return fold(block.title, shown, opened=block.opened) if block.folded else section(block.title, shown)
        case b.Pictures():
            return _pictures(block, folder)
        case b.Frame():
            return _frame(block, folder)
        case b.Credit():
            return _credit(block, folder)
        case _:
            drawn = _DRAWN.get(type(block))
            return drawn(block) if drawn else ""


def inside(folder: Path, name: str) -> Path:
    """The file of the run folder that is called so.

    Raises:
        BadInput: it lies elsewhere, or there is none.
    """
    path = folder / name
    root = folder.resolve()
    if not name or Path(name).is_absolute() or not path.resolve().is_relative_to(root) or not path.is_file():
        raise BadInput("no such file in the run folder", got=name, where=str(folder))
    return path


# ------------------------------------------------------------------------------------------------ numbers, text
def _headline(block: b.Headline) -> str:
    shown = "".join(_figure(one, minor=i > 0) for i, one in enumerate(block.numbers) if one.value is not None)
    return f'<div class="hero">{shown}</div>' if shown else ""


def _figure(one: b.Number, *, minor: bool) -> str:
    number, _, ends = interval(one.value, one.ci95, rate=one.rate).partition(" [")
    below = f"{one.name}{', 95 % interval [' + ends if ends else ''}"
    kind = "figure minor" if minor else "figure"
    return f'<div class="{kind}"><b>{text(number)}</b><span class="soft small">{text(below)}</span></div>'


def _text(block: b.Text) -> str:
    if block.tone == "code":
        return "".join(f"<pre>{text(line)}</pre>" for line in block.lines)
    kind = {"soft": ' class="small soft"', "bad": ' class="bad"'}.get(block.tone, "")
    lines = "".join(f"<p{kind}>{text(line)}</p>" for line in block.lines)
    return f'<div class="warnings">{lines}</div>' if block.tone == "warning" and lines else lines


def _table(block: b.Table) -> str:
    if block.shaded:
        return _shaded(block)
    if block.meter is None or not 0 <= block.meter < len(block.columns):
        return table(block.columns, block.rows, left=block.left, marked=block.marked)
    at = block.meter
    most = max([float(row[at] or 0.0) for row in block.rows if isinstance(row[at], int | float)], default=0.0) or 1.0

    def cell(c: int, value: Any) -> str:
        share = f"{100 * value:.1f} %" if isinstance(value, float) else value  # all its numbers are shares
        width = f"{100 * float(value or 0.0) / most:.0f}" if c == at else ""
        bar = f'<span class="meter"><i style="width:{width}%"></i></span>' if width else ""
        return bar + text("–" if share is None else share)

    return table(block.columns, block.rows, left=block.left, name=block.title or "table", cell=cell)


def _shaded(block: b.Table) -> str:
    """A table of counts as a map; what stands in the row and the column of one name is bold."""
    lines = ""
    for name, *cells in block.rows:
        whole = sum(n for n in cells if isinstance(n, int)) or 1
        shown = [(column, n if isinstance(n, int) else 0) for column, n in zip(block.columns[1:], cells, strict=True)]
        lines += f'<tr><th scope="row" class="first">{_breaking(name)}</th>' + "".join(
            f'<td class="n shade{math.ceil(_SHADES * max(n, 0) / whole)}">'
            + (f"<b>{n}</b>" if n and column == name else f"{n or '·'}")
            + "</td>"
            for column, n in shown
        )
        lines += "</tr>"
    first, *others = block.columns
    cells = "".join(f'<th scope="col" class="n">{_breaking(name)}</th>' for name in others)
    head = f'<th class="first">{text(first)}</th>{cells}'
    whole = f'<table class="shaded"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
    return scroll(whole, block.title or first)


def _breaking(name: object) -> str:
    """A name that may go on in the next line behind its underscores and dots."""
    return text(name).replace("_", "_<wbr>").replace(".", ".<wbr>")


def _notes(block: b.Notes) -> str:
    kind = "memory worst" if block.bad else "memory"
    return "".join(
        f'<div class="{kind}"><div class="q">{text(one.heading)}</div><pre>{text(one.body)}</pre>'
        f'<p class="small soft">{text(one.facts)}</p><p class="small">{text(one.why)}</p></div>'
        for one in block.notes
    )


def _attempts(block: b.Attempts) -> str:
    marks = {True: '<span class="tag good">✓ right</span>', False: '<span class="tag bad">✗ wrong</span>'}
    return "".join(
        f'<div class="task"><div>{marks[right]}</div><div><div>{text(question)}</div>'
        + (f'<span class="mono">{text(answer)}</span>' if answer else "")
        + f'<div class="shown">{text(facts)}</div></div></div>'
        for right, question, answer, facts in block.rows
    )


def _unreadable(block: b.Unreadable) -> str:
    return f'<p class="small bad">Not shown: {text(block.what)}.</p>'


# ------------------------------------------------------------------------------------------------ pictures
def _curve(block: b.Curve) -> str:
    last = max([x for line in block.lines if line.mark != "level" for x in line.x], default=0.0)
    return curves(
        block.lines,
        ticks=block.ticks or step_ticks(last),
        x_label=block.x_label,
        y_label=block.y_label,
        rates=block.rate,
        zero=block.zero,
        size=SMALL if block.small else (WIDTH, HEIGHT),
    )


def _shares(block: b.Shares) -> str:
    last = block.last or 1.0
    ticks = [(step / last, said) for step, said in step_ticks(last)]
    return shares(block.rows, ticks=ticks, x_label=block.x_label)


def _spans(block: b.Spans) -> str:
    return spans(block.rows, ticks=step_ticks(block.last), last=block.last, x_label=block.x_label)


def _split(block: b.Split) -> str:
    whole = sum(block.parts.values())
    if whole <= 0:
        return ""
    styled = list(zip(block.parts.items(), _STYLES * len(block.parts), strict=False))
    pieces = "".join(f'<span class="s{s}" style="width:{100 * part / whole:.2f}%"></span>' for (_, part), s in styled)
    keys = "".join(
        f'<span class="key s{s}">{text(name)} {100 * part / whole:.0f} %</span>' for (name, part), s in styled
    )
    return f'<div class="legend">{keys}</div><div class="split">{pieces}</div>'


def _pictures(block: b.Pictures, folder: Path) -> str:
    out = ""
    for name, caption in zip(block.files, block.words, strict=True):
        path = inside(folder, name)
        kind = _IMAGES.get(path.suffix.lower())
        if kind is None or path.stat().st_size > _PICTURE_MAX:
            raise BadInput("a picture is PNG or JPEG, of at most 16 MB", got=name)
        data = path.read_bytes()
        white = " white" if kind == "image/png" and bright(data) else ""
        code = base64.b64encode(data).decode("ascii")
        out += f'<img class="frames{white}" alt="{text(caption)}" src="data:{kind};base64,{code}">'
    return out + (f'<p class="small soft">{text(block.caption)}</p>' if block.caption else "")


def _frame(block: b.Frame, folder: Path) -> str:
    inside(folder, block.file)
    name = f"play-{text(block.file)}"  # a name like _top would be the whole window
    # empty until the link is followed: nothing runs that nobody asked for
    start = f'<a href="{text(quote(block.file))}" target="{name}" rel="noreferrer">Start {text(block.name)}</a>'
    tall = ' class="tall"' if block.tall else ""
    shown = (
        f'<p class="small">{start}, {text(block.how)}</p>'
        f'<iframe name="{name}" title="{text(block.name)}"{tall} sandbox="allow-scripts"></iframe>'
    )
    return fold("play it", shown)


def _pair(block: b.Pair) -> str:
    pairs = zip(block.names, block.texts, strict=True)
    return cards([(name, scroll(f"<pre>{text(said)}</pre>", name)) for name, said in pairs if said])


def _credit(block: b.Credit, folder: Path) -> str:
    try:
        return credit_page.render(credit_book.read(inside(folder, block.file)))
    except BadInput as error:  # the rest of the page is worth having
        return f'<p class="bad">The credit of the attempts is not shown. {text(error)}</p>'


_DRAWN: dict[type[Any], Callable[[Any], str]] = {
    b.Headline: _headline,
    b.Text: _text,
    b.Curve: _curve,
    b.Shares: _shares,
    b.Spans: _spans,
    b.Split: _split,
    b.Table: _table,
    b.Pair: _pair,
    b.Notes: _notes,
    b.Attempts: _attempts,
    b.Unreadable: _unreadable,
}
