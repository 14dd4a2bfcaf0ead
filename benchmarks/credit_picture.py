"""docs/results/token-credit.svg: one attempt of a run, each token coloured by its credit under several rules.

    python benchmarks/credit_picture.py RUN/credit.json      # keeps an attempt of it in results/token_credit.json
    python benchmarks/credit_picture.py                      # draws that again

The attempt is the shortest that failed in a group of which another succeeded, or else the first; all rules are
recomputed from its record, so they judge the same tokens with the same critic.
"""

import argparse
import json
from html import escape
from pathlib import Path

from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.credit_book import SHADES, Attempt, CreditBook, Rule, Turn, read, shade
from evolvent.evaluate.credit_page import signed

HERE = Path(__file__).parent
KEPT = HERE / "results" / "token_credit.json"
PICTURE = HERE.parent / "docs" / "results" / "token-credit.svg"
RULES = {"poad": "POAD", "ntpo": "NTPO", "turn_gae": "PPO, whole actions", "group_std": "GRPO"}
LEFT, CHAR, ROW, GAP, WIDTH = 150, 7.25, 19, 14, 980
STYLE = """
text { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, monospace; fill: #1d1d1f; white-space: pre; }
.soft { fill: #6b6b70; font-family: system-ui, sans-serif; } .name { font-family: system-ui, sans-serif; }
.paper { fill: #fff; } .p { fill: #1f6fb8; } .n { fill: #d0761a; } .z { fill: #8881; }
@media (prefers-color-scheme: dark) {
  text { fill: #ececf0; } .soft { fill: #a0a0a8; } .paper { fill: #17181b; } .p { fill: #2a78c4; } .n { fill: #b5640f; }
}
"""


def main() -> None:
    """Keep an attempt where a run is named, and draw the one that is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("credit", nargs="?", type=Path, help="credit.json of a run")
    given = parser.parse_args().credit
    if given:
        content = json.loads(given.read_text("utf-8"))
        content["episodes"] = [_telling(content["episodes"])]
        content["rules"] = [rule for rule in content["rules"] if rule["name"] in RULES]
        write_atomic(KEPT, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    PICTURE.write_text(draw(read(KEPT)), "utf-8")
    print(PICTURE)


def _telling(episodes: list[dict]) -> dict:
    won = {e["group"] for e in episodes if e["success"]}
    lost = [e for e in episodes if not e["success"] and e["group"] in won]
    return min(lost or episodes[:1], key=lambda e: len(e["nodes"]))


def draw(book: CreditBook) -> str:
    """The picture."""
    order = [next(i for i, rule in enumerate(book.rules) if rule.name == name) for name in RULES]
    attempt = book.attempts[0]
    parts, y = _legend(book, attempt), 64
    for number, node in enumerate(attempt.nodes):
        if isinstance(node, Turn):
            for i in order:
                parts.append(_line(node, i, book.rules[i], book, y))
                y += ROW
            y += GAP
        else:
            shown = " ".join(node.text.split())
            parts.append(_text(LEFT, y, shown if len(shown) < 128 else shown[:126] + " …", "soft"))
            y += ROW + (4 if number else 6)
    outcome = "success" if attempt.success else "no success"
    parts.append(_text(LEFT, y, f"end: return {attempt.total:g}, {outcome}", "soft"))
    height = y + 16
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return f'{head}<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


def _legend(book: CreditBook, attempt: Attempt) -> list[str]:
    trained = RULES.get(book.rules[book.first].name, book.rules[book.first].name)
    told = f"an attempt of update {attempt.update} of a run trained by {trained}; each rule has a scale of its own"
    parts = [_text(LEFT, 20, told, "soft"), _text(LEFT, 40, "made less likely", "soft")]
    for k in range(-SHADES, SHADES + 1):
        x = LEFT + 110 + (k + SHADES) * 13
        parts.append(_box(x, 30, 13, "z" if k == 0 else f"{'p' if k > 0 else 'n'}{abs(k)}", 13))
    return [*parts, _text(LEFT + 110 + (2 * SHADES + 1) * 13 + 10, 40, "made more likely", "soft")]


def _line(turn: Turn, i: int, rule: Rule, book: CreditBook, y: int) -> str:
    parts, x = [_text(8, y, RULES[rule.name], "name")], float(LEFT)
    for piece, value in zip(turn.tokens, turn.credit[i], strict=True):
        width = CHAR * len(piece)
        parts.append(_box(x, y - 13, width - 1, shade(value, book.full[i])))
        parts.append(f'<text x="{x:.1f}" y="{y}" textLength="{width:.1f}">{escape(piece)}</text>')
        x += width
    kind = "turn" if rule.unit == "turn" else "sum"
    return "".join([*parts, _text(x + 10, y, f"{kind} {signed(turn.worth[i])}", "soft")])


def _box(x: float, y: float, width: float, colour: str, height: int = 17) -> str:
    kind, strength = colour[0], int(colour[1:] or 0)
    faint = f' fill-opacity="{0.05 + 0.75 * strength / SHADES:.2f}"' if strength else ""
    name = kind if kind in "pn" else "z"
    return f'<rect class="{name}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"{faint}/>'


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
