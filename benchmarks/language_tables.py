"""docs/results/language.md from the result files of the language scripts: python benchmarks/language_tables.py

A section stands where its result file exists; to add one, add a ``Section``. What all its runs have in common is told
under its introduction, whatever it is. ``table_of(algo)`` gives the lines of one system for its own page.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from marl_tables import provenance

from evolvent.formulas.statistics import student_interval

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results" / "language.md"
Row = dict[str, Any]
COLUMNS: dict[str, tuple[str, Callable[[Sequence[Row]], str]]] = {
    "world": ("world", lambda rows: rows[0]["task"]),
    "env": ("environment", lambda rows: f"`{rows[0]['config']['env']}`"),
    "system": ("system", lambda rows: f"`{rows[0]['arm']}`"),
    "seeds": ("seeds", lambda rows: str(len(rows))),
    "chance": ("chance", lambda rows: _mean([row["random"]["success_mean"] for row in rows])),
    "before": ("held out before", lambda rows: _mean([row["evaluations"][0]["success_mean"] for row in rows])),
    "after": ("greedy after [95 %]", lambda rows: _mean([row["greedy"]["success_mean"] for row in rows], each=True)),
    "sampled": ("sampled after", lambda rows: _mean([row["sampled"]["success_mean"] for row in rows])),
    "learning": ("return while learning [95 %]", lambda rows: _interval([_area(row) for row in rows])),
    "updates": ("updates", lambda rows: ", ".join(str(n) for n in sorted({row["updates"] for row in rows}))),
    "tokens": ("sampled tokens", lambda rows: _tokens(rows)),
    "cpu": ("CPU-minutes", lambda rows: _cpu(rows)),
    "minutes": ("minutes", lambda rows: f"{np.mean([sum(row['seconds'].values()) / 60 for row in rows]):.1f}"),
}
PATH = ("world", "system", "chance", "before", "learning", "after", "sampled", "updates", "minutes")
USUAL = ("world", "system", "before", "after", "sampled", "updates", "tokens", "minutes")


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: of the script and its result file.
        title: above the table.
        intro: what is asked and compared, before the settings that all runs share.
        columns: names of ``COLUMNS``.
        after: what stands under the table.
    """

    name: str
    title: str
    intro: str
    columns: tuple[str, ...] = USUAL
    after: str = ""


SECTIONS = (
    Section(
        "language_arithmetic",
        "Rules that compare attempts, on equal tokens",
        "Which of three digits is the largest? A run ends when it has sampled its tokens; `dapo` draws tasks again for "
        "groups that do not differ.",
    ),
    Section(
        "language_memory",
        "Weights and a memory in one run",
        "The same task. `memory` learns with the weights fixed (memlift by its rule of 22 November, three memories in "
        "sight), `both` learns both. Equal are the tokens that are sampled, not those that are read.",
    ),
    Section(
        "language_worlds",
        "Worlds that a small model learns in minutes",
        "GRPO with settings found by short trials. Held-out tasks start otherwise, or ask something else. Chance: "
        "random commands, or an empty answer.",
        ("env", "system", "chance", "before", "after", "sampled", "updates", "tokens", "cpu"),
    ),
    Section(
        "language_programs",
        "Rewards from execution",
        "In the loop and with the loss of GRPO, `outcome` pays 1 where all tests pass (GRPO), `graded` by how far a "
        "program came (CodeRL), `test-weighted` each test, hard and distinctive ones more (VeRPO); "
        "[the rules](../programs.md). Equal attempts; float32; the first three on one H200, the others on one H100. "
        "`immediate` ran without the warm-up of its critic that its page advises.",
        ("env", "system", "before", "learning", "after", "sampled", "updates", "tokens"),
    ),
    Section(
        "language_actions",
        "Commands of eight and more tokens",
        "Credit inside commands (`poad`), a discount at every token (`ntpo`), whole commands (`twosome`), groups "
        "(`grpo`), soft values (`etpo`), on equal attempts. *Return while learning*: mean over all attempts, -1 to 1 "
        "in the microwave world, a success rate in food. `-99`: a discount of 0.99 instead of 0.95; `-trace-1`: a "
        "trace of 1 instead of 0.95 at every token, `-inside-1` within a command only; `-critic-first`: the critic "
        "learns alone for six updates, `-critic-more` for three and in 40 passes. In food most greedy attempts "
        "repeat the likeliest command: look at those that were drawn.",
        PATH,
        "Credit of two attempts by several rules, with POAD's critic (`python benchmarks/credit_picture.py`): in the "
        "success the wasted first command is worth about nothing to POAD, as much as the others to GRPO, and NTPO "
        "blames all but the last; in the failure all blame the last command most or as much, the only right one, "
        "where the punishment came.\n\n![Two attempts, each token coloured by its credit under POAD, NTPO, PPO over "
        "whole actions, and GRPO](token-credit.svg)",
    ),
    Section(
        "marft_pair",
        "Two agents against one, on equal tokens",
        "MARFT: `one` agent, or a solver and a checker that reads it and answers (`pair`, both learn in every update; "
        "`pair-in-turn`, five updates each; `pair-tokens`, credit and ratios for tokens). One agent makes twice the "
        "attempts.",
        PATH,
    ),
)


def main() -> None:
    """Write the page if there is a result file."""
    text = page()
    if text:
        PAGE.write_text(text, encoding="utf-8")


def page() -> str:
    """All sections."""
    parts: list[str] = []
    for section in SECTIONS:
        rows = rows_of(section.name)
        if rows:
            parts += [f"## {section.title}", "", section.intro, "", shared(rows), ""]
            one = len({row["config"]["env"] for row in rows}) == 1  # then it is said above the table
            parts += table(rows, [name for name in section.columns if not one or name not in ("world", "env")])
            parts += ["", provenance(rows, f"benchmarks/{section.name}.py"), ""]
            parts += [section.after, ""] if section.after else []
    head = [
        "# Which rules make a small language model learn?",
        "",
        "<!-- generated by benchmarks/language_tables.py from benchmarks/results/language_*.json; do not edit -->",
        "",
        _lead(),
        "",
        "Success on held-out tasks in %, means over seeds with a 95 % Student interval, single seeds in brackets "
        "(none: one seed). One thread, but where a GPU is named; the machine was shared, so minutes say little.",
        "",
    ]
    return "\n".join(head + parts) if parts else ""


def _lead() -> str:
    """What was asked, what came out, and what it does not show."""

    def after(section: str, arm: str) -> str:
        return _mean([r["greedy"]["success_mean"] for r in rows_of(section) if r["arm"] == arm], each=True)

    def learning(arm: str) -> str:
        return _interval([_area(r) for r in rows_of("language_actions") if (r["task"], r["arm"]) == ("food-long", arm)])

    arms = dict.fromkeys(row["arm"] for row in rows_of("language_arithmetic"))
    best = sorted(float(after("language_arithmetic", arm).split(" ")[0]) for arm in arms)
    before = _mean([row["evaluations"][0]["success_mean"] for row in rows_of("language_arithmetic")])
    return (
        f"On equal tokens all {len(arms)} rules that compare attempts take a 135M model from {before} to between "
        f"{best[0]:.0f} and {best[-1]:.0f} % of held-out questions (`grpo` {after('language_arithmetic', 'grpo')}), a "
        f"memory with the weights fixed to {after('language_memory', 'memory')}. On long commands in food POAD as "
        f"released has a return while learning of {learning('poad')}, with a trace of 1 {learning('poad-trace-1')}, "
        f"GRPO {learning('grpo')}. It does not show larger models or longer runs, and of three seeds few differences "
        "between rules."
    )


def shared(rows: Sequence[Row]) -> str:
    """The settings that all rows share, in words."""
    facts = {
        "model": "`{}`",
        "env": "`{}`",
        "plan.lora_rank": "LoRA of rank {}",
        "lr": "learning rate {:g}",
        "prompts": "{} tasks an update",
        "group": "{} attempts at each",
        "epochs": "epochs: {}",
        "minibatches": "minibatches: {}",
        "temperature": "temperature {:g}",
        "plan.sampled": "{:,} tokens sampled",
        "plan.eval_tasks": "{} held-out tasks",
    }
    configs = [row["config"] | {f"plan.{k}": v for k, v in row["config"]["plan"].items()} for row in rows]
    values = {name: [config.get(name) for config in configs] for name in facts}
    same = {name: v[0] for name, v in values.items() if v[0] and all(x == v[0] for x in v)}
    usual = {"epochs": 1, "minibatches": 1, "temperature": 1.0}
    words = [facts[name].format(value) for name, value in same.items() if usual.get(name) != value]
    return f"In all runs: {', '.join(words)}."


def table(rows: Sequence[Row], columns: Sequence[str] = USUAL) -> list[str]:
    """Head and one line for each world and system."""
    out = ["| " + " | ".join(COLUMNS[name][0] for name in columns) + " |", "|" + "---|" * len(columns)]
    for world, arm in dict.fromkeys((row["task"], row["arm"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["arm"]) == (world, arm)]
        out.append("| " + " | ".join(COLUMNS[name][1](mine) for name in columns) + " |")
    return out


def table_of(algo: str) -> list[str]:
    """The lines of one system over all result files, with their head; nothing where there is none."""
    mine = [row for section in SECTIONS for row in rows_of(section.name) if row["algo"] == algo]
    return table(mine, ("world", "system", "seeds", "before", "after")) if mine else []


def rows_of(name: str) -> list[Row]:
    """Rows of a result file, none where it is missing."""
    path = HERE / "results" / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _area(row: Row) -> float:
    """Mean return of all attempts of a run."""
    return float(np.mean([value for _, value in row["curve"]]))


def _interval(values: Sequence[float]) -> str:
    low, high = student_interval(values) if len(values) > 1 else (np.nan, np.nan)
    return f"{np.mean(values):.2f}" + (f" [{low:.2f}, {high:.2f}]" if len(values) > 1 else "")


def _tokens(rows: Sequence[Row]) -> str:
    """What was sampled, or the budget in rows of before that was kept."""
    counts = [row.get("tokens") or row["config"]["plan"]["sampled"] for row in rows]
    return f"{np.mean(counts):,.0f}" if all(counts) else "–"


def _cpu(rows: Sequence[Row]) -> str:
    """Of the processor, with model and evaluations; rows that were stopped and went on do not know it."""
    known = [row["cpu_s"] / 60 for row in rows if "cpu_s" in row]
    return f"{np.mean(known):.1f}" if known else "–"


def _mean(values: Sequence[float], *, each: bool = False) -> str:
    low, high = student_interval(values) if len(values) > 1 else (np.nan, np.nan)
    text = f"{100 * np.mean(values):.0f}"
    if not each or len(values) < 2:
        return text
    single = ", ".join(f"{100 * v:.0f}" for v in values)
    return f"{text} [{100 * max(0.0, low):.0f}, {100 * min(1.0, high):.0f}] ({single})"


if __name__ == "__main__":
    main()
