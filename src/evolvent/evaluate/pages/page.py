"""A self-contained HTML page: style inside, nothing fetched, no script but this package's own, named by its hash.

All text goes through ``text``.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from evolvent.evaluate.live import cell_text

_SECURITY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(
    title: str,
    body: Sequence[str],
    *,
    styles: Sequence[str] = ("report.css",),
    scripts: Sequence[str] = (),
    frames: bool = False,
) -> str:
    """The whole document, with style sheets of this package and, at its end, scripts of it; no other script runs.

    ``frames``: pages beside it may be shown in frames, which have to confine them.
    """
    style = "".join(_own(name) for name in styles)
    security = f"{_SECURITY}; script-src{''.join(map(_permit, scripts))}" if scripts else _SECURITY
    security += "; frame-src 'self'" if frames else ""
    code = "".join(f"<script>{_own(name)}</script>\n" for name in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{security}">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + f"\n</main>\n{code}</body>\n</html>\n"
    )


def renewed(html: str) -> str:
    """A page as a server gives it out while a run goes on: it asks for itself again and puts in what is new."""
    start = html.index(_SECURITY) + len(_SECURITY)
    rest = html[start:]
    rest = rest if rest.startswith("; script-src") else f"; script-src{rest}"
    permits = f"; connect-src 'self'; script-src{_permit('live.js')}"
    code = f"<script>{_own('live.js')}</script>\n</body>"
    return html[:start] + permits + rest.removeprefix("; script-src").replace("</body>", code)


def _permit(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(_own(script).encode()).digest()).decode("ascii")
    return f" 'sha256-{digest}'"


def _own(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def text(value: object) -> str:
    """``value`` as harmless HTML text; control characters except line breaks become blanks, half characters ``�``."""
    return escape("".join(_harmless(c) for c in str(value)))


def _harmless(c: str) -> str:
    if c in "\n\t" or c.isprintable():
        return c
    return "�" if "\ud800" <= c <= "\udfff" else " "


def way(target: Path, at: Path) -> str:
    """The address of a file as a page in the folder ``at`` links it."""
    return quote(Path(os.path.relpath(target, at)).as_posix())


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    left: Sequence[int] = (0,),
    name: str = "table",
    marked: Sequence[int] = (),
    cell: Callable[[int, object], str] = lambda column, value: text(cell_text(value)),
) -> str:
    """A table that scrolls sideways where it must; columns not in ``left`` are numbers; ``cell``: a cell as HTML.

    Rows ``marked`` stand out.
    """
    if not rows:
        return ""
    kind = ["first" if c in left else "n" for c in range(len(columns))]
    head = "".join(f'<th class="{k}">{text(column)}</th>' for k, column in zip(kind, columns, strict=True))
    lines = ""
    for i, row in enumerate(rows):
        cells = "".join(f'<td class="{k}">{cell(c, v)}</td>' for c, (k, v) in enumerate(zip(kind, row, strict=True)))
        kind_of_row = ' class="marked"' if i in marked else ""
        lines += f"<tr{kind_of_row}>{cells}</tr>"
    return scroll(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>", name)


def scroll(inside: str, name: str) -> str:
    """What may be wider than the page: it scrolls sideways, by keyboard too, and its edges show that there is more."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{text(name)}">{inside}</div>'


def tiles(values: Mapping[str, object]) -> str:
    """Named numbers in a grid."""
    items = [
        f"<div><b>{text(cell_text(value))}</b><span class='soft small'>{text(name)}</span></div>"
        for name, value in values.items()
    ]
    return f'<div class="tiles">{"".join(items)}</div>' if items else ""


def fold(title: str, inside: str, *, opened: bool = False) -> str:
    """A part that opens on a click, without script."""
    return f"<details{' open' if opened else ''}><summary>{text(title)}</summary>{inside}</details>" if inside else ""


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Pictures under their titles, beside one another where there is room."""
    shown = "".join(f'<div class="card"><h2>{text(title)}</h2>{picture}</div>' for title, picture in items)
    return f'<div class="cards">{shown}</div>' if shown else ""


def section(title: str, inside: str) -> str:
    """A part under its heading; nothing where there is nothing."""
    return f"<section><h2>{text(title)}</h2>{inside}</section>" if inside else ""
