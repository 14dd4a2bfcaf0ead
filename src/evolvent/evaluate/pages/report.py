"""``report.html``: one self-contained page about a run, drawn from what the run tells of itself and its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolvent.core.config import flat
from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Credit, Frame, Headline, Page, Tree
from evolvent.evaluate.live import duration
from evolvent.evaluate.pages.draw import draw
from evolvent.evaluate.pages.page import fold, page, section, table, text
from evolvent.evaluate.verdict import Verdict, of_run, seeds_of

_FILES = (
    "config.json",
    "metrics.jsonl",
    "episodes.jsonl",
    "summary.json",
    "credit.json",
    "credit.html",
    "trees.jsonl",
    "heldout_before.jsonl",
    "heldout_after.jsonl",
)
_ARXIV = re.compile(r"arXiv[ :](\d{4}\.\d{4,5})")


def report(run: RunFolder, own_page: Page) -> str:
    """The page of a run as text, from its folder and what it wrote for its page; of a run that has not ended, too."""
    manifest, folder = run.manifest(), Path(run.path)
    summary = run.summary() if run.finished else {}
    verdict = of_run(manifest, own_page, folder, ended=run.finished, step=max(0, run.step))
    # the large figures first: what is said of them, p-values and links come after
    figures = [block for block in own_page.blocks if isinstance(block, Headline)][:1]
    rest = [block for block in own_page.blocks if block not in figures]
    top = draw(figures, folder) + verdict_block(verdict)
    trees, credit = own_page.of(Tree), own_page.of(Credit)
    inside = [one for tree in trees for node in tree.nodes for one in node.inside]
    frames = bool(own_page.of(Frame)) or any(isinstance(one, Frame) for one in inside)  # pages beside it are shown
    styles = ("report.css", *(("credit.css",) if credit else ()), *(("tree.css",) if trees else ()))
    return page(
        own_page.title or _title(manifest),
        [
            _head(manifest, summary, own_page, top, _links(folder, manifest)),
            draw(rest, folder),
            section("Configuration", _configuration(manifest)),
            _foot(manifest, own_page),
        ],
        styles=(*styles, *(("games.css",) if frames else ())),
        scripts=("credit.js",) if credit else (),
        frames=frames,
    )


def _title(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['algo']} on {manifest['env']}" if manifest.get("env") else str(manifest["algo"])


def _head(manifest: Mapping[str, Any], summary: Mapping[str, Any], own_page: Page, top: str, links: str) -> str:
    """Title, what the run came to, what it was in one line, its command, ways on."""
    facts = [*own_page.facts]
    if summary.get("seconds") is not None:
        facts.append(duration(summary["seconds"]))
    if summary.get("tokens"):
        facts.append(f"{summary['tokens']:,} tokens")
    facts.append(str(manifest.get("started", ""))[:10])
    state = "" if summary else '<p class="bad tag">This run has not ended; the page shows what there is so far.</p>'
    line = " · ".join(text(fact) for fact in facts if fact)
    command = f'<p class="small"><code>{text(manifest.get("command", ""))}</code></p>'
    kind = f'<p class="soft small">{text(own_page.kind)}</p>' if own_page.kind else ""
    title = f"{kind}<h1>{text(own_page.title or _title(manifest))}</h1>"
    return f'<header>{title}{state}{top}<p class="soft">{line}</p>{command}{links}</header>'


def verdict_block(verdict: Verdict) -> str:
    """What a run came to in a sentence, the numbers behind it, and what to try next, with a command to copy."""
    lines = "".join(f"<li>{text(line)}</li>" for line in verdict.lines())
    numbers = f'<ul class="small">{lines}</ul>' if lines else ""
    advice = f"Next: {verdict.advice}" if verdict.advice else "To go on:" if verdict.command else ""
    command = f'<code class="copy">{text(verdict.command)}</code>' if verdict.command else ""
    after = f'<p class="small">{text(advice)} {command}</p>' if advice else ""
    said = f"<p><b>{text(verdict.sentence)}</b> {text(verdict.note)}</p>"
    return f'<div class="verdict {verdict.state}">{said}{numbers}{after}</div>'


def _links(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Ways on from the page: the files of the run, its paper, the runs beside it."""
    found = [(name, name) for name in _FILES if (folder / name).exists()]
    found += [("other runs", "../runs.html" if (folder.parent / "runs.html").exists() else "../")]
    found += [("comparison", "../compare.html")] if (folder.parent / "compare.html").exists() else []
    paper = _ARXIV.search(str(manifest.get("paper", "")))
    found += [(paper[0], f"https://arxiv.org/abs/{paper[1]}")] if paper else []
    items = "".join(f'<a href="{text(where)}">{text(name)}</a>' for name, where in found)
    return f'<nav class="links small" aria-label="this run">{items}</nav>'


def _configuration(manifest: Mapping[str, Any]) -> str:
    """Every field, and with which command, code, machine and versions the run was made."""
    commit = manifest.get("commit")
    about = {"command": manifest.get("command", "")}
    about["commit"] = f"{commit['id']}{' with local changes' if commit['dirty'] else ''}" if commit else None
    about |= {**manifest.get("machine", {}), **manifest.get("versions", {})}
    fields = [[name, value if value != "" else None] for name, value in flat(manifest["config"]).items()]
    return fold("Every field", table(["field", "value"], fields, left=(0, 1))) + fold(
        "Command, code, machine, versions", table(["what", "value"], list(about.items()), left=(0, 1))
    )


def _foot(manifest: Mapping[str, Any], own_page: Page) -> str:
    """How to read the numbers, and what made the page."""
    version = manifest.get("versions", {}).get("evolvent", "")
    more = "One seed says little: <code>evolvent run … --seeds 0 1 2 3 4</code> says more."
    more = "" if own_page.hint.verdict or len(seeds_of(manifest)) > 1 else more
    return (
        f"<footer><p>{text(own_page.reading)} {more}</p>"
        f"<p>Made by evolvent {text(version)} from the files beside this page.</p></footer>"
    )
