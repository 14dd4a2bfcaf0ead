"""docs/results/token-credit.svg: two attempts of a run, each token coloured by its credit under several rules.

docs/pictures/credit.svg, for the README, has the first of them alone.

    python benchmarks/credit_picture.py RUN/credit.json      # keeps attempts of it in results/token_credit.json
    python benchmarks/credit_picture.py                      # draws those again

They are the longest success of a group and its shortest failure; all rules are recomputed from the record, so they
judge the same tokens with the same critic.
"""

import argparse
import json
from html import escape
from pathlib import Path

from evolvent.core.jsonfile import write_atomic
from evolvent.evaluate.pages.credit_book import SHADES, CreditBook, Decision, Rule, read, shade
from evolvent.evaluate.pages.credit_page import signed

HERE = Path(__file__).parent
KEPT = HERE / "results" / "token_credit.json"
PICTURE = HERE.parent / "docs" / "results" / "token-credit.svg"
ONE = HERE.parent / "docs" / "pictures" / "credit.svg"
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
    """Keep attempts where a run is named, and draw those that are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("credit", nargs="?", type=Path, help="credit.json of a run")
    given = parser.parse_args().credit
    if given:
        content = json.loads(given.read_text("utf-8"))
        content["episodes"] = _telling(content["episodes"])
        content["rules"] = [rule for rule in content["rules"] if rule["name"] in RULES]
        run = json.loads((given.parent / "config.json").read_text("utf-8"))
        content["run"] = {name: run[name] for name in ("algo", "env", "seed", "command", "commit")}
        write_atomic(KEPT, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    PICTURE.write_text(draw(read(KEPT)), "utf-8")
    ONE.write_text(draw(read(KEPT), 1), "utf-8")
    print(PICTURE, ONE)


def _telling(episodes: list[dict]) -> list[dict]:
    for group in dict.fromkeys(e["group"] for e in episodes):
        mine = sorted((e for e in episodes if e["group"] == group), key=lambda e: len(e["nodes"]))
        won, lost = ([e for e in mine if bool(e["success"]) == some] for some in (True, False))
        if won and lost:
            return [won[-1], lost[0]]
    return episodes[:2]


def draw(book: CreditBook, count: int = 2) -> str:
    """The picture of the first ``count`` attempts."""
    order = [next(i for i, rule in enumerate(book.rules) if rule.name == name) for name in RULES]
    parts, y = _legend(book, count), 70
    for attempt in book.attempts[:count]:
        for node in attempt.nodes:
            if isinstance(node, Decision):
                for i in order:
                    parts.append(_line(node, i, book.rules[i], book, y))
                    y += ROW
                y += GAP
            else:
                shown = " ".join(node.text.split())
                parts.append(_text(LEFT, y, shown if len(shown) < 128 else shown[:126] + " …", "soft"))
                y += ROW + 4
        outcome = "success" if attempt.success else "no success"
        parts.append(_text(8, y - 6, f"end of the attempt: {outcome}, return {attempt.total:g}", "name"))
        y += 2 * ROW
    height = y - ROW
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    return f'{head}<style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


def _legend(book: CreditBook, count: int) -> list[str]:
    trained = RULES.get(book.rules[book.first].name, book.rules[book.first].name)
    update = book.attempts[0].update
    which = "an attempt" if count == 1 else "two attempts at one task"
    text = f"{which} in update {update} of a run trained by {trained}; each rule has its own scale"
    parts = [_text(LEFT, 20, text, "soft"), _text(LEFT, 40, "made less likely", "soft")]
    for k in range(-SHADES, SHADES + 1):
        x = LEFT + 110 + (k + SHADES) * 13
        parts.append(_box(x, 30, 13, "z" if k == 0 else f"{'p' if k > 0 else 'n'}{abs(k)}", 13))
    return [*parts, _text(LEFT + 110 + (2 * SHADES + 1) * 13 + 10, 40, "made more likely", "soft")]


def _line(turn: Decision, i: int, rule: Rule, book: CreditBook, y: int) -> str:
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
