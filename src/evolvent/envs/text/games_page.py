"""A game as one HTML page: a frame that runs, mechanics between marks, and what can be said without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape

from evolvent.envs.text._text import code_blocks, unix
from evolvent.sandbox.browser import POLICY

_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%(title)s</title>
<style>html, body { margin: 0; background: #111; } canvas { display: block; margin: auto; max-width: 100%%; }</style>
</head><body><canvas id="game" width="480" height="320"></canvas>
<script>
"use strict";
const canvas = document.getElementById("game"), g = canvas.getContext("2d"), W = 480, H = 320;
const keys = {}, mechanics = [];
const s = {
  t: 0, score: 0, lives: 3, over: false, background: "#124", things: [],
  player: { x: 228, y: 280, w: 24, h: 24, vx: 0, vy: 0, color: "#4cf" },
};
function hit(a, b) { return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h; }
addEventListener("keydown", (e) => { keys[e.key] = true; if (/^( |Arrow)/.test(e.key)) e.preventDefault(); });
addEventListener("keyup", (e) => { keys[e.key] = false; });
function loop() {
  s.t += 1;
  if (!s.over) for (const m of mechanics) if (m.step) m.step(s, keys);
  g.fillStyle = s.background;
  g.fillRect(0, 0, W, H);
  for (const a of [...s.things, s.player]) { g.fillStyle = a.color || "#fc6"; g.fillRect(a.x, a.y, a.w, a.h); }
  for (const m of mechanics) if (m.draw) m.draw(s, g);
  g.fillStyle = "#fff";
  g.font = "14px sans-serif";
  g.fillText(s.over ? "over: " + s.score + " points" : "score " + s.score + "  lives " + s.lives, 8, 18);
  requestAnimationFrame(loop);
}
%(blocks)s%(last)s
</script></body></html>
"""
_LAST = 'addEventListener("load", () => { for (const m of mechanics) if (m.start) m.start(s); loop(); });'
# what is judged here was written by whoever wants it to pass: none of these looks at a text more often than a few times
_BLOCK = re.compile(
    r"^[ \t]*// mechanic: (\w[\w-]*)\n((?:(?![ \t]*// (?:end\n|mechanic: )).*\n)*+)[ \t]*// end\n", re.M
)
_MARK = re.compile(r"^[ \t]*// (?:mechanic: .*|end)$\n?", re.M)
_WHOLE = re.compile(r"<!doctype html|<html|<canvas", re.I)
_CHANGES_STATE = re.compile(
    r"(?<=[\w\]])\.\w++\s*+(?:[-+*/%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*+\w|\.(?:push|splice|pop|shift|add)\("
)
_OPENS = re.compile(r"""[`"']|//[^\n]*+|/\*""")
_INSIDE = {
    "`": re.compile(r"(?:\\.|[^`\\])*+", re.S),
    '"': re.compile(r'(?:\\.|[^"\\\n])*+', re.S),
    "'": re.compile(r"(?:\\.|[^'\\\n])*+", re.S),
}
_MOST = 200_000
"""Characters of a page."""
_REACHES = re.compile(
    r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts|sendBeacon|RTCPeerConnection|localStorage"
    r"|sessionStorage|indexedDB|alert|confirm|prompt|eval)\b\s*[.(]|\b(?:window|document|self|top|parent)\.(location|open)\b"
    r"|(?<![\w.])(location)\s*(?:=|\.)|(?<![\w.])(open)\s*\("
)
_ADDRESS = re.compile(r"(?:https?|wss?)://(?!www\.w3\.org/)")
_CHECKS: Mapping[str, tuple[str, str]] = {
    "canvas": (r"getContext\s*\(", "no canvas is drawn on: there is no getContext()"),
    "loop": (r"requestAnimationFrame\s*\(|setInterval\s*\(", "nothing runs: requestAnimationFrame() is never called"),
    "input": (
        r"addEventListener\s*\(\s*[\"'](?:key|mouse|pointer|touch|click)|\bon(?:key|mouse|pointer|click)\w*\s*=",
        "it listens to no key and no mouse",
    ),
    "render": (r"\.(?:fillRect|strokeRect|drawImage|fillText|stroke|fill|putImageData)\s*\(", "nothing is drawn"),
    "state": (_CHANGES_STATE.pattern, "no state ever changes"),
    "start": (
        r"[\"'](?:load|DOMContentLoaded)[\"']|\bonload\b|^[ \t]*\w+\s*\(\s*\)\s*;"
        r"|requestAnimationFrame\s*\(\s*\w+\s*\)",
        "nothing starts it",
    ),
}
NECESSARY = ("canvas", "loop", "input")
"""What a later version must not lose."""


def assemble(title: str, blocks: Mapping[str, str]) -> str:
    """The frame with mechanics (name → code) in it."""
    inside = "".join(f"// mechanic: {name}\n{code.strip()}\n// end\n" for name, code in blocks.items())
    return guarded(_FRAME % {"title": escape(title), "blocks": inside, "last": _LAST})


def blocks_of(page: str) -> dict[str, str]:
    """The mechanics of a page by name: what stands between ``// mechanic: NAME`` and ``// end``."""
    return {name: code.strip() for name, code in _BLOCK.findall(page)}


def added(page: str, name: str, code: str) -> str:
    """The page with one mechanic put in, or in place of the one of that name; a whole page takes its place.

    Marks in the code are left out: a mechanic must not pass for several.
    """
    if _WHOLE.search(code):
        return guarded(code)
    block = f"// mechanic: {name}\n{_MARK.sub('', code).strip()}\n// end\n"
    if found := next((one for one in _BLOCK.finditer(page) if one[1] == name), None):
        return page[: found.start()] + block + page[found.end() :]
    at = page.rfind(_LAST)
    at = at if at >= 0 else max(page.rfind("</script>"), 0)
    return page[:at] + block + page[at:]


def without(page: str, name: str) -> str:
    """The page without the mechanic of that name."""
    found = next((one for one in _BLOCK.finditer(page) if one[1] == name), None)
    return page[: found.start()] + page[found.end() :] if found else page


def guarded(page: str) -> str:
    """The page with a policy of its own, so that it loads nothing wherever it is opened."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    if meta in page:
        return page
    tags = [re.search(rf"<{tag}(?:\s[^<>]*+)?>", page, re.I) for tag in ("head", "html", "!doctype")]
    end = next((tag.end() for tag in tags if tag), 0)
    return page[:end] + meta + page[end:]


def extract(answer: str) -> str:
    """The program of an answer: what is fenced, or all of it where it looks like one; else nothing."""
    if blocks := code_blocks(answer):
        return blocks[0].strip()
    text = unix(answer).strip()
    return (
        text if _WHOLE.match(text) or text.startswith(("mechanics.push", "//", "const ", "let ", "function ")) else ""
    )


def is_mechanic(code: str) -> bool:
    """Whether code has the form that was asked for."""
    return bool(_WHOLE.search(code)) or (
        "mechanics.push" in code and re.search(r"\b(?:start|step|draw)\b", code) is not None
    )


def real(code: str) -> bool:
    """Whether a mechanic changes anything of the game but its looks: the gate of existence, by its text."""
    rules = re.sub(r"\bdraw\s*\(.*?\n  \},?|\bdraw\s*[:(].*", "", code, flags=re.S) if "draw" in code else code
    return bool(
        re.search(r"\b(?:start|step)\b", rules) and _CHANGES_STATE.search(_bare(rules.replace("mechanics.push", "")))
    )


def static_check(page: str) -> tuple[list[str], list[str]]:
    """Errors and warnings of a page by its text: brackets, the eight checks of the paper as far as they are named, and
    what reaches out of the page.
    """
    if len(page) > _MOST:
        return [f"a page of more than {_MOST:,} characters"], []
    scripts = "\n".join(re.findall(r"<script[^<>]*+>(.*?)(?:</script>|\Z)", page, re.I | re.S))
    bare = _bare(scripts, short=24)
    errors = [message for pattern, message in _CHECKS.values() if not re.search(pattern, bare, re.M)]
    code = _bare(scripts)
    errors += [
        f"{a}{b} do not match: {code.count(a)} and {code.count(b)}"
        for a, b in ("()", "[]", "{}")
        if code.count(a) != code.count(b)
    ]
    called = re.search(r"requestAnimationFrame\s*\(\s*(\w+)", code)
    if called and len(re.findall(rf"\b{called[1]}\b", code)) < 2:
        errors.append(f"the loop {called[1]} does not exist")
    if found := _REACHES.search(code):
        errors.append(f"it reaches out of its page: {next(filter(None, found.groups()), found[0])}")
    if any(scripts[start] in "\"'`" and _ADDRESS.match(scripts, start + 1) for start, _ in _texts(scripts)):
        errors.append("it reaches out of its page: an address")
    warnings = (
        ["a loop without an end"] if re.search(r"while\s*\(\s*(?:true|1)\s*\)|for\s*\(\s*;\s*;\s*\)", code) else []
    )
    return errors, warnings


def _texts(code: str) -> Iterator[tuple[int, int]]:
    """Where strings and comments stand. A quote that is not closed is none; each part is read once."""
    at, never, last = 0, dict.fromkeys(_INSIDE, 0), code.rfind("*/")
    while found := _OPENS.search(code, at):
        at, mark = found.end(), found[0]
        if mark in _INSIDE:
            if found.start() < never[mark]:  # one before it ran to there without an end, over the same escapes
                continue
            inside = _INSIDE[mark].match(code, at)
            end = inside.end() if inside else at
            if code[end : end + 1] != mark:
                never[mark] = end
                continue
            at = end + 1
        elif mark == "/*":
            if last < at:  # not closed
                continue
            at = code.find("*/", at) + 2
        yield found.start(), at


def _bare(code: str, short: int = 0) -> str:
    """The code without what its strings and comments say; strings of fewer than ``short`` characters stay."""
    parts, at = list[str](), 0
    for start, end in _texts(code):
        stays = end - start < short and code[start] in "\"'"
        parts += [code[at:start], code[start:end] if stays else '""']
        at = end
    return "".join([*parts, code[at:]])


def missing(page: str) -> list[str]:
    """Which of ``NECESSARY`` a page lacks."""
    return [name for name in NECESSARY if not re.search(_CHECKS[name][0], page, re.M)]
