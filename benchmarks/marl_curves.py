"""docs/results/marl-*.svg: learning curves of the team scripts, a panel a task: python benchmarks/marl_curves.py

Returns while learning (actions are drawn): interquartile mean over seeds with a 95 % bootstrap band, faint lines for
the seeds, random actions dashed, what was played without training dotted. Means over five points of the 240 that a row
keeps; of robots over 64,000 steps, since all copies start anew at a checkpoint and the short attempts end first. Needs
the extra ``viz``. A picture is drawn where its result file exists.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from evolvent.formulas.statistics import iqm, stratified_bootstrap

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "results"
CYCLE = 64_000  # steps between the checkpoints of robots
PICTURES = {"marl_spread": 0, "marl_mujoco": CYCLE, "marl_few_shot": 0, "marl_baseline": CYCLE, "marl_games": 0}
SMOOTH = 5
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito's, safe without hues


def main() -> None:
    """Draw what there is."""
    mpl.rcParams.update(
        {
            "svg.hashsalt": "evolvent",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.fonttype": "none",
        }
    )
    for name, span in PICTURES.items():
        source = HERE / "results" / f"{name}.json"
        if source.exists():
            target = DOCS / f"{name.replace('_', '-')}.svg"
            draw(json.loads(source.read_text("utf-8")), target, span)
            print(target)


def draw(rows: Sequence[dict[str, Any]], target: Path, span: int) -> None:
    """One panel a task; ``span``: steps over which returns are averaged, 0 = five points."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = plt.subplots(1, len(tasks), figsize=(5.2 * len(tasks), 3.4), squeeze=False, layout="constrained")
    for axes, task in zip(panels[0], tasks, strict=True):
        panel(axes, task, [row for row in rows if row["task"] == task], span)
    panels[0][0].set_ylabel("return of an attempt")
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


def panel(axes: Axes, task: str, rows: Sequence[dict[str, Any]], span: int) -> None:
    """All arms of one task."""
    for colour, arm in zip(COLOURS, dict.fromkeys(row["arm"] for row in rows), strict=False):
        mine = [row for row in rows if row["arm"] == arm]
        if not mine[0]["curve"]:  # what was not trained is as good throughout
            level = float(iqm([row["sampled"]["value"] for row in mine]))
            axes.axhline(level, color=colour, linestyle=":", label=f"{arm} ({len(mine)})")
            continue
        found = [points(row, span) for row in mine]
        common = sorted(set.intersection(*(set(one) for one in found)))
        for one in found if len(found) > 1 else []:
            axes.plot(list(one), list(one.values()), color=colour, alpha=0.25, linewidth=0.7)
        columns = [[one[step] for one in found] for step in common]
        axes.plot(common, [iqm(column) for column in columns], color=colour, label=f"{arm} ({len(found)})")
        if len(found) > 1:
            ends = [stratified_bootstrap([column], iqm) for column in columns]
            low, high = zip(*ends, strict=True)
            axes.fill_between(common, low, high, color=colour, alpha=0.15, linewidth=0)
    chance = float(np.mean([row["random"]["value"] for row in rows]))
    axes.axhline(chance, color="#777", linestyle="--", linewidth=0.8, label="random actions")
    axes.set(title=task, xlabel="environment steps")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(title="arm (seeds)", frameon=False, fontsize=8)


def points(row: dict[str, Any], span: int) -> dict[int, float]:
    """Step → mean return of the attempts that ended around it, while learning."""
    steps, values = np.array(row["curve"]).T
    if span:
        return {int(step): float(values[np.abs(steps - step) <= span / 2].mean()) for step in steps}
    kernel = np.ones(min(SMOOTH, len(values)))
    mean = np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")
    return {int(step): float(value) for step, value in zip(steps, mean, strict=True)}


if __name__ == "__main__":
    main()
