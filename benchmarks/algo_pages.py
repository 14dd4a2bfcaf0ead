"""The generated parts of docs/algos, the index and each algorithm's rows of the result files, and of
docs/search.md, docs/functions.md, docs/robust.md and docs/source_search.md.

    python benchmarks/algo_pages.py

A part stands between ``<!-- NAME: begin … -->`` and ``<!-- NAME: end -->``; everything else is written by hand.
"""

import re
from pathlib import Path

import agdc
import agent_scaling
import bfcl_frozen
import doc
import hammer
import holos
import jssp
import language_tables
import madt
import p3
import parl_mt
import psro
import recorded
import robust
import robust_tasks
import shapley_flow
import single
import tables
import tau2_replay
from marl_tables import table_of

from evolvent import catalogue
from evolvent.learn.tokens.objectives_of_papers import CHOICES, table

MEMORY = {
    "memlift": "memlift",
    "memrl": "memrl",
    "memq": "memq",
    "memp": "memp",
    "rag": "rag",
    "icl": "icl",
    "no_memory": "none",
}
"""Pages of memory systems, and the arm of the grids that each one is."""
ELSEWHERE = {
    "ts_llm": "[a small network and SmolLM2-135M on sums and the Game of 24](../results/search-learning.md), "
    "and searching with a value of known noise, [search against voting](../results/search-deep.md)",
    "openr": "[finding the first wrong step, and process rewards on a small network](../results/search-learning.md)",
    "memento": "one correction in five wrong on the real model, [the analyst](../results/analyst.md) (`cases`), a "
    "[text world](../results/text-world.md), and [synthetic worlds](../results/memory-worlds.md)",
    "satori": "that it learns, on a toy of three letters (`tests/unit/algos/test_evolving_systems.py`)",
    "b_coder": "small programs beside other rules, 32 to 83 % [55, 100] of held-out tasks in three seeds "
    "([rewards from execution](../results/language.md#rewards-from-execution))",
    "spc": "that it learns, on a toy of three letters (`tests/unit/algos/test_spc.py`)",
    "evokernel": "[kernels](../results/kernels.md), three seeds where naive C is given, also with thirty attempts",
    "creative_game": "[how many pages of a small model play](../results/games.md), three seeds",
    "muse": "with scripted models only (`tests/unit/algos/test_muse.py`)",
    "policy_gradient": "three rules for [rewards from execution](../results/language.md)",
    "sft": "tokens, masks, losses and gradients equal TRL's (`tests/golden/test_sft_vectors.py`)",
    "raft": "that it learns, on a toy of three letters (`tests/unit/algos/test_sft.py`)",
    "iql": "beside [imitation](bc.md#results)",
    "td3_bc": "beside [imitation](bc.md#results)",
    "agdc": "beside planners, [source search](../source_search.md#results)",
    "fsp": "beside [PSRO](psro.md#results)",
    "infotaxis": "beside what learns, [source search](../source_search.md#results)",
    "self_play": "beside [PSRO](psro.md#results)",
    "dt": "where luck decides, beside [DoC](doc.md#results)",
    "atla": "[beside `ppo` under disturbance](../robust.md#what-was-measured)",
    "trad": "[steps, their parts, whole trajectories, nothing](../results/trad.md), a household task and ALFWorld",
}
"""Systems without rows of their own, and where they, or their parts, were measured."""
MEASURED = {
    "agent_scaling": agent_scaling,
    "doc": doc,
    "hammer": hammer,
    "holos": holos,
    "madt": madt,
    "jssp": jssp,
    "p3": p3,
    "parl_mt": parl_mt,
    "psro": psro,
    "bc": recorded,
    "shapley_flow": shapley_flow,
}
"""Systems with a script of their own that draws their table."""
PAGES = Path(__file__).parent.parent / "docs" / "algos"
NAMES = ("search", "functions", "robust", "source_search")
SEARCH, FUNCTIONS, ROBUST, SOURCES = (PAGES.parent / f"{name}.md" for name in NAMES)


def main() -> None:
    """Write the parts into the pages."""
    for page in [*sorted(PAGES.glob("*.md")), SEARCH, FUNCTIONS, ROBUST, SOURCES]:
        page.write_text(filled(page.read_text("utf-8"), parts_of(page.stem)), "utf-8")


def parts_of(stem: str) -> dict[str, str]:
    """The generated parts of a page."""
    if stem == "README":
        return {"index": index()}
    if stem == SEARCH.stem:
        return {"searches": searches()}
    if stem == FUNCTIONS.stem:
        return {"tau2": "\n".join(tau2_replay.table()), "frozen": "\n".join(bfcl_frozen.table())}
    if stem == ROBUST.stem:
        return {"tasks": "\n".join(robust_tasks.table()), "results": "\n".join(robust.table())}
    if stem == SOURCES.stem:
        return {"results": "\n".join(agdc.table()) if agdc.OUT.exists() else "None published yet."}
    if stem in ELSEWHERE:
        return {"results": f"Measured: {ELSEWHERE[stem]}."}
    if stem in MEASURED:
        module = MEASURED[stem]
        return {"results": "\n".join(module.table()) if module.OUT.exists() else "None published yet."}
    if _choices(stem):
        rows = language_tables.table_of(stem)
        lines = [*rows, "", "Success in %; more: [results](../results/language.md)."]
        return {"results": "\n".join(lines) if rows else "None published yet.", **axes(stem)}
    if stem in MEMORY:
        rows = tables.table_of(MEMORY[stem])
        more = "Success in %; more: [the analyst](../results/analyst.md), [a text world](../results/text-world.md)."
        return {"results": "\n".join([*rows, "", more]) if rows else "None published yet."}
    if stem in {algo for algo, *_ in single.CELLS.values()}:
        return {"results": "\n".join(single.table_of(stem)) or "None published yet."}
    rows = table_of(stem)
    lines = [*rows, "", "Greedy play; more: [results](../results/marl.md)."]
    return {"results": "\n".join(lines) if rows else "None published yet."}


def axes(stem: str) -> dict[str, str]:
    """What a system chooses on each axis, where its page has a place for it: its rows of ``docs/objectives.md``."""
    if "<!-- axes: begin" not in (PAGES / f"{stem}.md").read_text("utf-8"):
        return {}
    head, *rows = table()
    mine = [dict(zip(head, row, strict=True)) for row in rows if row[0] in _choices(stem)]
    several = len(mine) > 1
    return {"axes": "\n\n".join(_line(row, several) for row in mine)}


def _line(row: dict[str, str], several: bool) -> str:
    """The choices of one system as a line; its name where a page has several."""
    shown = [f"{name} *{row[name]}*" for name in ("reward", "unit", "baseline", "spread", "loss")]
    start = f"`{row['system']}`: " if several else ""
    return f"{start}[Axes](../objectives.md): {', '.join(shown)}."


def _choices(stem: str) -> list[str]:
    """The system's own row, and those of its parts: a replay, the levels of MARFT."""
    return [name for name in (stem, f"{stem}_replay", f"{stem}_a", f"{stem}_t") if name in CHOICES]


def filled(text: str, parts: dict[str, str]) -> str:
    """``text`` with the named parts replaced."""
    for name, part in parts.items():
        pattern = re.compile(rf"(<!-- {name}: begin[^>]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"no part {name!r}")
        text = pattern.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)
    return text


def index() -> str:
    """A table a kind, with one row an algorithm, from its module's first line and constants."""
    lines: list[str] = []
    for title, group in catalogue.by_kind().items():
        head, _, rest = title.partition(": ")
        lines += [f"### {head.capitalize()}: {rest}", ""]
        lines += ["| algorithm | what it is | tested |", "|---|---|---|", *map(_row, group), ""]
    return "\n".join(lines[:-1])


def searches() -> str:
    """A table with one row a search, from its module's first line and constants."""
    lines = ["| search | answer by | paper | |", "|---|---|---|---|"]
    for entry in catalogue.entries("search"):
        result = entry.constants
        answer, paper = result.get("AGGREGATE", "last_max"), result.get("PAPER", "")
        lines.append(f"| `{entry.name}` | {answer} | {paper} | {_says(entry)} |")
    return "\n".join(lines)


def _says(entry: catalogue.Entry) -> str:
    return entry.summary.partition(": ")[2] or entry.summary


def _row(entry: catalogue.Entry) -> str:
    name = f"[`{entry.name}`]({entry.name}.md)" if (PAGES / f"{entry.name}.md").exists() else f"`{entry.name}`"
    summary = _says(entry).removesuffix(f" ({entry.constants.get('PAPER')})")
    return f"| {name} | {summary} | {'yes' if entry.constants.get('STATUS') == 'tested' else 'lightly'} |"


if __name__ == "__main__":
    main()
