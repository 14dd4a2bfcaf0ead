"""What text worlds pay to chance, to silence and to a small model as it is; the table of docs/text-worlds.md.

    python benchmarks/text_baselines.py                      # every world that is installed
    python benchmarks/text_baselines.py --worlds microwave   # these rows only; the others of the file stay
    python benchmarks/text_baselines.py --page               # only write the table again

Held-out tasks, five seeds of tasks and draws. "random" is a random admissible command, or where any text is allowed the
answer to another question, if tasks carry answers; "nothing" is the empty text; the model samples at temperature 1,
free text as it comes, commands by the mean log-likelihood of their words (TWOSOME). A world that is not installed is
left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from algo_pages import filled

from evolvent import envs, models
from evolvent.core.errors import BadInput, MissingExtra
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Env, Turn
from evolvent.formulas.selection import softmax
from evolvent.runs.language import baselines as tb

HERE = Path(__file__).parent
SOURCE, PAGE = HERE / "results" / "text_baselines.json", HERE.parent / "docs" / "text-worlds.md"
MODEL = "smollm2-135m"
# what is asked, and attempts a seed of the baselines and of the model (0 = not asked: too slow)
WORLDS: dict[str, tuple[str, int, int]] = {
    "microwave": ("open the microwave, put the pancake in, close it", 400, 20),
    "microwave:long=true": ("the same in longer sentences", 400, 20),
    "household:food,rooms=2": ("fetch the pancake and heat it; two rooms", 200, 20),
    "household:food,rooms=2,long=true": ("the same in longer sentences", 200, 20),
    "household:food": ("fetch the pancake and heat it; four rooms", 200, 20),
    "household:food,long=true": ("the same in longer sentences", 200, 20),
    "household:entertainment,rooms=2": ("carry chips and milk to the TV, switch it on, sit down; two rooms", 200, 8),
    "household:entertainment": ("the same with four rooms", 200, 8),
    "overcooked:tomato-salad": ("chop the tomato and serve it in a bowl", 200, 10),
    "overcooked:tomato-salad,long=true": ("the same in longer sentences", 200, 10),
    "overcooked:tomato-lettuce-salad": ("chop tomato and lettuce, no onion, and serve both in a bowl", 200, 4),
    "arithmetic:largest": ("the largest of three digits", 100, 16),
    "arithmetic:smallest": ("the smallest of three digits", 100, 16),
    "arithmetic:addition": ("the sum of two digits", 100, 16),
    "arithmetic:addition2": ("the sum of two numbers of two digits", 100, 16),
    "arithmetic:subtraction": ("the difference of two numbers below 20", 100, 16),
    "arithmetic:count": ("how often a letter stands among six", 100, 16),
    "arithmetic:next": ("the next number of a row", 100, 16),
    "arithmetic:parity": ("whether a number is even or odd", 100, 16),
    "babyai:GoToRedBallNoDists": ("go to the red ball, alone in the room", 40, 4),
    "babyai:GoToObj": ("go to the thing, alone in the room", 40, 4),
    "babyai:GoToLocal": ("go to the thing named, among others", 40, 4),
    "reasoning_gym:basic_arithmetic": ("a sum of two to six numbers", 40, 8),
    "reasoning_gym:letter_counting": ("how often a letter stands in a text", 40, 8),
    "twx:game=twc": ("put the thing where it belongs", 40, 4),
    "twx:game=coin": ("find the coin", 40, 4),
    "textworld": ("a quest of three commands in three rooms", 4, 0),
    "textarena:GuessTheNumber-v0": ("find a number by asking", 2, 0),
}


def main() -> None:
    """Measure the worlds asked for, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), help="also worlds that are not in the list above")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--model", default=MODEL, help="'none' leaves it out and keeps what the file says of it")
    parser.add_argument("--page", action="store_true", help="write the table from the result file, measure nothing")
    parser.add_argument("--out", default=str(SOURCE))
    a = parser.parse_args()
    out = Path(a.out)
    for spec in () if a.page else a.worlds:
        try:
            row = measured(spec, range(a.seeds), a.model)
        except (BadInput, MissingExtra) as error:
            print(f"{spec}: left out, {error.what}", flush=True)
            continue
        rows = {r["spec"]: r for r in json.loads(out.read_text("utf-8"))} if out.exists() else {}
        rows[spec] = {"model": rows.get(spec, {}).get("model")} | row
        order = sorted(rows, key=lambda name: [*WORLDS, name].index(name))
        write_atomic(out, json.dumps([rows[name] for name in order], indent=1) + "\n")
        print(spec, {name: row[name]["return"]["mean"] for name in ("random", "nothing") if row[name]}, flush=True)
    if out == SOURCE:
        PAGE.write_text(filled(PAGE.read_text("utf-8"), parts(json.loads(SOURCE.read_text("utf-8")))), "utf-8")


def measured(spec: str, seeds: range, model: str) -> dict[str, Any]:
    """The row of one world."""
    facts = {row.name: row.summary for row in envs.available()}
    asked, n, n_model = WORLDS.get(spec) or (facts.get(spec.partition(":")[0], ""), 40, 8)
    with closing(envs.load(spec)) as env:
        tasks = {seed: env.tasks("heldout", n, seed) for seed in seeds}
        example = env.reset(tasks[0][0], tasks[0][0].seed)
        free = example.admissible is None
        offers: list[int] = []
        words: list[int] = []

        def watched(turn: Turn, draws: np.random.Generator) -> str:
            offers.append(len(turn.admissible or ()))
            words.extend(len(command.split()) for command in turn.admissible or ())
            return tb.random_command(turn, draws)

        train = env.tasks("train", n, 0) if free else []
        carried = any("answer" in task.meta for task in train)
        chance = (tb.borrowed(train) if carried else None) if free else watched
        row: dict[str, Any] = {
            "spec": spec,
            "asked": asked,
            "reward_range": list(env.reward_range),
            "seeds": len(seeds),
            "random": chance and tb.summary([tb.play(env, tasks[seed], chance, seed=seed) for seed in seeds]),
            "nothing": tb.summary([tb.play(env, tasks[seed], tb.nothing, seed=seed) for seed in seeds]),
            "commands": None if free else {"least": min(offers), "most": max(offers), "words": float(np.mean(words))},
            "answer_tokens": env.max_tokens if free else None,
        }
        if model != "none" and n_model:
            with closing(models.load(model, n_threads=1)) as engine:
                policy = by_model(env, engine)
                played = [tb.play(env, tasks[seed][:n_model], policy, seed=seed) for seed in seeds]
                row["model"] = {"name": model} | tb.summary(played)
    row["command"] = f"python benchmarks/text_baselines.py --worlds {spec} --seeds {len(seeds)} --model {model}"
    return row | provenance()


def by_model(env: Env, model: Any) -> tb.Policy:
    """Sample what the model says next, or one of the commands by its likelihood; situations are asked about once."""
    known: dict[tuple[str, tuple[str, ...]], np.ndarray] = {}
    question, answer = env.labels

    def policy(turn: Turn, draws: np.random.Generator) -> str:
        if turn.admissible is None:
            prompt = f"{env.instructions}{question}: {turn.observation}\n{answer}:"
            seed = int(draws.integers(2**31))
            return model.generate(prompt, max_tokens=env.max_tokens, temperature=1.0, seed=seed, stop=env.stop).text
        key = (turn.observation, turn.admissible)
        if key not in known:
            prompt = f"{env.instructions}{question}: {turn.observation}\n{answer}:"
            logp = model.score(prompt, [f" {command}\n" for command in turn.admissible])
            known[key] = softmax(logp / np.array([len(command.split()) for command in turn.admissible]), 1.0)
        return turn.admissible[int(draws.choice(len(turn.admissible), p=known[key]))]

    return policy


# ------------------------------------------------------------------------------------------------ the table
def parts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The generated part of the page."""
    head = ["world", "what is asked", "commands at once", "reward", "random", "nothing", f"`{MODEL}`"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        low, high = row["reward_range"]
        cells = [f"`{row['spec']}`", row["asked"], _commands(row), f"{low:.3g} to {high:.3g}"]
        cells += [_paid(row.get(name)) for name in ("random", "nothing", "model")]
        lines.append("| " + " | ".join(cells) + " |")
    commits = sorted({(row["commit"] or {}).get("id", "?")[:10] for row in rows})
    dirty = any((row["commit"] or {}).get("dirty") for row in rows)
    attempts = {name: _span([row[name]["attempts"] for row in rows if row.get(name)]) for name in ("random", "model")}
    lines += [
        "",
        f"Mean return of an attempt at a held-out task with a 95 % bootstrap interval over attempts, "
        f"{rows[0]['seeds']} seeds, {attempts['random']} attempts in all ({attempts['model']} by the model); "
        f"–: not asked yet. `python benchmarks/text_baselines.py`, commits {', '.join(commits)}"
        f"{' (with uncommitted changes)' if dirty else ''}.",
    ]
    return {"table": "\n".join(lines)}


def _commands(row: dict[str, Any]) -> str:
    offer = row["commands"]
    return f"any text of {row['answer_tokens']} tokens" if offer is None else _span([offer["least"], offer["most"]])


def _span(values: list[int]) -> str:
    if not values:
        return "–"
    return str(values[0]) if min(values) == max(values) else f"{min(values)}–{max(values)}"


def _paid(found: dict[str, Any] | None) -> str:
    if not found:
        return "–"
    result, (low, high) = found["return"], found["return"]["ci95"]
    return f"{result['mean']:.2f}" if high - low < 5e-3 else f"{result['mean']:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
