"""Parts of docs/results/search-*.md, and their pictures: python benchmarks/search_pages.py writes both pages."""

import json
from pathlib import Path
from typing import Any

from speed import command_of

from evolvent.formulas.statistics import wilson

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "results"
NOISY, FIRST, SPEED, BUDGETS, TASKS = (
    HERE / "results" / f"{name}.json"
    for name in ("search_noisy_oracle", "search_first_error", "bench_search", "search_budgets", "search_tasks")
)
TOLD = {"one sample": "one", "majority of samples": "majority", "best of samples": "best of", "sum over samples": "sum"}
TREES = ("BFS-V, 2 go on", "beam, 4, 2 go on", "MCTS-Rollout", "MCTS-alpha")
SHOWN = ("majority of samples", "best of samples", *TREES[1:])
TOYS = {
    "toy": "a toy game a second, 1, 8, 64 trees",
    "toy_mctx": "the same, mctx",
    "toy_mctx_asks_python": "the same, mctx, values from Python",
}
COLOURS = {
    "majority of samples": "#aaaaaa",
    "sum over samples": "#8a6fb0",
    "best of samples": "#555555",
    "BFS-V, 2 go on": "#1f6fb8",
    "beam, 4, 2 go on": "#2a9d8f",
    "MCTS-Rollout": "#d0761a",
    "MCTS-alpha": "#b5380f",
}


def main() -> None:
    """Write both pages and their pictures."""
    import search_deep_page
    import search_learning_page

    search_deep_page.main()
    search_learning_page.main()
    noisy_picture(json.loads(NOISY.read_text("utf-8")), DOCS / "search-noisy-oracle.svg")
    budgets_picture(json.loads(BUDGETS.read_text("utf-8")), DOCS / "search-budgets.svg")


def file(path: Path) -> str:
    """A link to a result file."""
    return f"[{path.name}](../../benchmarks/results/{path.name})"


def span(right: float, ci95: list[float], oracle: float | None = None) -> str:
    """A share with its interval in %, and in brackets how often a right answer was among those found."""
    text = f"{100 * right:.0f} [{100 * ci95[0]:.0f}, {100 * ci95[1]:.0f}]"
    return text if oracle is None else f"{text} ({100 * oracle:.0f})"


# ------------------------------------------------------------------------------------------------ choosing samples
def tasks_section(families: dict) -> list[str]:
    """Ways to choose among the samples of a frozen model, a line each."""
    lines = ["| tasks | way | right, % | 95 % | p |", "|---|---|---|---|---|"]
    notes = []
    for family, result in families.items():
        rows, n = result["rows"], len(result["rows"])
        seeds = result["seeds"] if "seeds" in result else [result["seed"]]
        different = len({row["task"] for row in rows})
        drawn, tokens = (sum(row[key] for row in rows) / n for key in ("samples", "tokens"))
        notes.append(
            f"*{family}*: {n} tasks ({different} different) of `{result['env']}`, {result['model']}, seeds "
            f"{', '.join(map(str, seeds))}, {drawn:.1f} samples and {tokens:.0f} tokens a task"
        )
        for way, one in result["ways"].items():
            low, high = (f"{100 * x:.0f}" for x in one["ci95"])
            p = "" if way == "majority" else f"{one['p_vote']:.2g}"
            right = f"{100 * one['mean']:.0f}" if len(seeds) > 1 else f"{one['right']} of {one['n']}"
            lines.append(f"| {family} | {way} | {right} | [{low}, {high}] | {p} |")
    result = next(iter(families.values()))
    return [
        *lines,
        "",
        "All but the greedy way choose among the same samples; *oracle*: a right one was among them. Means over "
        f"seeds, Student's interval; p: exact McNemar against the majority, not corrected. {'; '.join(notes)}. "
        f"Temperature {result['temperature']:g}, commit {result['commit']['id'][:10]}, {file(TASKS)}.",
    ]


# ------------------------------------------------------------------------------------------------ the first error
def first_error_section(found: dict) -> list[str]:
    """How often the first wrong step is found, and for how many samples."""
    rows = found["rows"]
    samples, ways = (list(dict.fromkeys(row[key] for row in rows)) for key in ("samples", "way"))
    lines = ["| steps, luck | way | " + " | ".join(f"{n} samples" for n in samples) + " |"]
    lines += ["|---|---|" + "---|" * len(samples)]
    for steps, luck in dict.fromkeys((row["steps"], row["luck"]) for row in rows):
        for way in ways:
            mine = [r for r in rows if (r["steps"], r["luck"], r["way"]) == (steps, luck, way)]
            cells = [f"{span(r['right'], r['ci95'])}; {r['spent']:.0f}" for r in mine]
            lines.append(f"| {steps}, {luck:g} | {way} | " + " | ".join(cells) + " |")
    return [
        *lines,
        "",
        "Wrong chains whose first wrong step was found, in %, and samples spent on one. A scripted policy, right with "
        f"chance {found['right']:g} a step; a wrong step is never mended, with *luck* a wrong chain ends right all the "
        f"same. `{found['command']}`, {found['questions']} questions for each of {len(found['seeds'])} seeds, commit "
        f"{found['commit']['id'][:10]}, {file(FIRST)}.",
    ]


# ------------------------------------------------------------------------------------------------ equal tokens
def _by_budget(rows: list[dict]) -> dict[tuple[str, str], dict[int, dict]]:
    """Of every value and way, by budget: right and tried by seed, an oracle's choice, and ranks, over all seeds."""
    found: dict[tuple[str, str], dict[int, dict]] = {}
    for value, name in dict.fromkeys((row["value"], arm["name"]) for row in rows for arm in row["arms"]):
        for budget in sorted({row["budget"] for row in rows}):
            result = [
                arm
                for row in rows
                if (row["value"], row["budget"]) == (value, budget)
                for arm in row["arms"]
                if arm["name"] == name
            ]
            if result:
                n, ranks = [arm["n"] for arm in result], [arm["ranks"] for arm in result if arm["ranks"] is not None]
                found.setdefault((value, name), {})[budget] = {
                    "won": [arm["successes"] for arm in result],
                    "n": n,
                    "oracle": sum(arm["oracle"] * m for arm, m in zip(result, n, strict=True)) / sum(n),
                    "ranks": sum(ranks) / len(ranks) if ranks else None,
                }
    return found


def _way(value: str, name: str) -> str:
    return {"greedy": "greedy", "cot_sc": "majority of samples"}.get(name, f"{name}, {value}")


def budgets_section(rows: list[dict]) -> list[str]:
    """Searches at equal tokens: some budgets of those in the picture."""
    found, seeds = _by_budget(rows), sorted({row["seed"] for row in rows})
    commits = ", ".join(dict.fromkeys(row["commit"]["id"][:10] for row in rows))
    budgets, answer = sorted({row["budget"] for row in rows})[::2], min(r["settings"]["budget_tokens"] for r in rows)
    prm = [row["prm"] for row in rows if row.get("prm") and row["budget"] == 0]
    lines = [f"| answers' tokens | {' | '.join(str(2**b) for b in budgets)} | ranks |", "|---|" + "---|" * len(budgets)]
    lines[-1] += "---|"
    for (value, name), mine in found.items():
        cells = [_right(mine[b]) if b in mine else "" for b in budgets]
        ranks = "–" if value == "flat" else f"{100 * mine[max(mine)]['ranks']:.0f}"
        lines.append(f"| {_way(value, name)} | {' | '.join(cells)} | {ranks} |")
    return [
        "![Right by budget](search-budgets.svg)",
        "",
        *lines,
        "",
        f"Percent right over seeds {', '.join(map(str, seeds))}, {rows[0]['settings']['tasks']} held-out tasks each; "
        "in brackets: a right answer was found. *Ranks*: as above, at the largest budget. The world: "
        f"`{rows[0]['settings']['env']}`, a network of 0.3M parameters; {answer} tokens an answer. *Likelihood*: mean "
        "log-probability; *prm*: a process reward model that learned OmegaPRM's labels of the same policy (AUC "
        f"{', '.join(format(one['value_auc'], '.2f') for one in prm)}). Until commit 23745d99 a tree's first moves "
        f"could all be cut short by a small budget. `{rows[0]['command']}`, commit {commits}, {file(BUDGETS)}.",
    ]


def _right(one: dict) -> str:
    low, high = wilson(sum(one["won"]), sum(one["n"]))
    rate = sum(one["won"]) / sum(one["n"])
    return f"{100 * rate:.0f} [{100 * low:.0f}, {100 * high:.0f}] ({100 * one['oracle']:.0f})"


def budgets_picture(rows: list[dict], target: Path) -> None:
    """Percent right by budget, a line a value and way."""
    plt, found = _plain(), _by_budget(rows)
    figure, panel = plt.subplots(figsize=(7.2, 4.2))
    colours = iter(("#1f6fb8", "#2a9d8f", "#777777", "#d0761a", "#b5380f", "#8a6fb0", "#333333"))
    for (value, name), mine in found.items():
        x, won, n = list(mine), [sum(one["won"]) for one in mine.values()], [sum(one["n"]) for one in mine.values()]
        y, style = [100 * w / m for w, m in zip(won, n, strict=True)], "--" if name == "cot_sc" else "-"
        if name == "greedy":  # one answer, whatever the budget
            panel.axhline(y[0], color="#333333", linewidth=0.8, linestyle=":", label="greedy, one answer")
            continue
        colour, spans = next(colours), [wilson(w, m) for w, m in zip(won, n, strict=True)]
        low, high = ([100 * span[k] for span in spans] for k in (0, 1))
        panel.plot(x, y, style, color=colour, marker="o", markersize=3, linewidth=1.6, label=_way(value, name))
        panel.fill_between(x, low, high, color=colour, alpha=0.1, linewidth=0)
    panel.set_xticks(sorted({row["budget"] for row in rows}), [str(2**b) for b in sorted({r["budget"] for r in rows})])
    panel.set_xlabel("budget, tokens of one answer")
    panel.set_ylabel("right, %")
    panel.set_ylim(0, 100)
    panel.legend(fontsize=8, frameon=False, ncol=2)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


# ------------------------------------------------------------------------------------------------ speed
def speed_section(row: dict) -> list[str]:
    """What a search costs beside the model."""
    found = row["result"]
    rate, tokens, toy = found["simulations_per_second"], found["tokens"], found["toy"]
    reuse, gain = found["prefix_reuse"], found["ratios"]["batch_nothing_kept_over_batch"]
    times = f"{found['ratios']['one_at_a_time_over_batch']:.1f}"
    return [
        "| simulations | | wanted |",
        "|---|---|---|",
        f"| a second, in batches against one at a time | {rate['batch']:.1f} against "
        f"{rate['one_at_a_time']:.2f}: **{times} times** | 3 times |",
        f"| share of the time in neither model nor value | **{100 * found['tree_share']:.1f} %** | at most 5 % |",
        f"| prompt tokens that were retained: torch, llama.cpp | **{100 * reuse['torch']:.1f} %** of "
        f"{tokens['torch']['prompt']:,}, **{100 * reuse['llama']:.1f} %** of {tokens['llama']['prompt']:,} | 90 % |",
        f"| a second, retained against not | {rate['batch']:.1f} against "
        f"{rate['batch_nothing_kept']:.1f}: **{gain:.2f} times** | |",
        *[f"| {who} | {', '.join(f'{found[name][n]:,}' for n in toy)} | |" for name, who in TOYS.items()],
        "",
        "MCTS-Rollout over lines of `game24`, SmolLM2-135M: eight tasks and four simulations each under way, against "
        "one at a time, as in released code. In the toy game mctx, which compiles it with the tree, is faster; where "
        f"it asks Python for a value, one tree is about as fast. {command_of(row)}, commit "
        f"{row['commit']['id'][:10]}, {row['machine']['cores']} cores of an {row['machine']['cpu']}, one thread, "
        f"load before {found['load_before'][0]:g}, {file(SPEED)}.",
    ]


# -------------------------------------------------------------------------------- a value of known noise
def noisy_section(found: dict) -> list[str]:
    """Searches against samples by the noise of the value."""
    rows = found["rows"]
    lines = ["| skill, lines, AUC | " + " | ".join(SHOWN) + " | oracle over samples |"]
    lines += ["|---|" + "---|" * (len(SHOWN) + 1)]
    for skill, budget, noise in dict.fromkeys((row["skill"], row["budget"], row["noise"]) for row in rows):
        cell = {r["way"]: r for r in rows if (r["skill"], r["budget"], r["noise"]) == (skill, budget, noise)}
        cells = [span(cell[way]["right"], cell[way]["ci95"]) for way in SHOWN]
        auc, best = cell["best of samples"]["auc"], cell["best of samples"]["oracle"]
        lines.append(f"| {skill:g}, {budget}, {auc:.3f} | {' | '.join(cells)} | {100 * best:.0f} |")
    counts = "; ".join(f"{auc:.3f}: {above} and {beyond}" for auc, above, beyond, _ in above_samples(rows))
    n = above_samples(rows)[0][3]
    return [
        "![Right by noise of the value](search-noisy-oracle.svg)",
        "",
        *lines,
        "",
        "Game of 24 by enumeration, no model; percent right, 95 % interval. The policy writes a legal line, with the "
        "chance of its *skill* one from which 24 can still be reached; every way may write as many *lines*. A "
        "state's value is 1 where 24 can be reached, else 0, plus normal noise, the same each time; it judges "
        f"finished answers, too. Of {n} searches so many have a lower end above the best choice among samples, and a "
        f"mean above an oracle's, by AUC: {counts}. `{found['command']} --tasks {found['tasks']}`, {found['tasks']} "
        f"puzzles for each of {len(found['seeds'])} seeds, commit {found['commit']['id'][:10]}, {file(NOISY)}.",
    ]


def above_samples(rows: list[dict]) -> list[tuple[float, int, int, int]]:
    """By AUC: searches surely above the best way to choose among samples, above an oracle's choice, and of how many."""
    found = []
    for noise in dict.fromkeys(row["noise"] for row in rows):
        above = beyond = n = 0
        for skill, budget in dict.fromkeys((row["skill"], row["budget"]) for row in rows):
            cell = {r["way"]: r for r in rows if (r["skill"], r["budget"], r["noise"]) == (skill, budget, noise)}
            samples = max(cell[way]["right"] for way in TOLD)
            n += len(TREES)
            above += sum(cell[way]["ci95"][0] > samples for way in TREES)
            beyond += sum(cell[way]["right"] > cell["best of samples"]["oracle"] for way in TREES)
        found.append((next(row["auc"] for row in rows if row["noise"] == noise), above, beyond, n))
    return found


def _plain() -> Any:
    """Matplotlib's pyplot, for drawings that are the same text wherever they are made."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "evolvent",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.fonttype": "none",
        }
    )
    import matplotlib.pyplot as plt

    return plt


def noisy_picture(found: dict, target: Path) -> None:
    """Percent right by noise, a panel a skill and budget."""
    plt, rows = _plain(), found["rows"]
    skills, budgets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("skill", "budget"))
    figure, axes = plt.subplots(len(skills), len(budgets), figsize=(7.6, 5.4), sharex=True, sharey=True, squeeze=False)
    for panels, skill in zip(axes, skills, strict=True):
        for panel, budget in zip(panels, budgets, strict=True):
            mine = [row for row in rows if (row["skill"], row["budget"]) == (skill, budget)]
            for way, colour in COLOURS.items():
                some = [row for row in mine if row["way"] == way]
                x, y = [r["auc"] for r in some], [100 * r["right"] for r in some]
                low, high = ([100 * r["ci95"][k] for r in some] for k in (0, 1))
                style = "--" if "samples" in way else "-"
                panel.plot(x, y, style, color=colour, marker="o", markersize=3, label=way, linewidth=1.6)
                panel.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
            most = 100 * max(r["oracle"] for r in mine if r["way"] == "best of samples")
            panel.axhline(most, color="#bbbbbb", linewidth=0.8)
            panel.text(0.62, most + 1.5, "an oracle over samples", fontsize=7, color="#777777")
            panel.set_title(f"skill {skill:g}, {budget} lines a puzzle", fontsize=9)
            panel.set_ylim(0, 100)
    for panel in axes[-1]:
        panel.set_xlabel("AUC of the value (1 = exact)")
    for panels in axes:
        panels[0].set_ylabel("puzzles right, %")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncol=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
