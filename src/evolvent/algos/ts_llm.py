"""TS-LLM: search the training tasks with a learned value, distil the paths that were right, retrain the value.

Paper: Feng et al. 2023, Alphazero-like Tree-Search can Guide Large Language Model Decoding and Training (arXiv
2309.17179).

    before:      rollouts of the policy as it comes; V learns from them
    search:      MCTS-alpha, moves drawn by visits:  V(n) + c p(a) sqrt(N) / (1 + n_a),  pi(a) ~ N_a
    distil:      L_pi = - mean log pi(w) over the tokens of the distinct paths that were right
    value:       L_V  = mean (V(s_t) - G_t)^2 over new and old paths,  G = TD(lambda) of +1 right, -1 wrong at the end

One update is one iteration. The value is a head on the hidden state behind the last token of a step, over LoRA weights
of its own (``lora``) or over the frozen policy's states (``probe``, which is free while searching). A run leaves the
policy in ``model/`` and the value in ``value/``; any search decodes with them: ``evolvent run search --model
train:DIR/model --value DIR/value``.

Published for GSM8K: width 10, depth 8, 12 paths a task, 5 simulations a move, c 3, 51 rollouts, 39 old paths a task
beside 12 new ones, three epochs. Ours: 32 tasks an iteration, rates for LoRA.

Control: ``--value none`` distils what was right among independent samples: expert iteration without a search.

Deviations: distilling goes on from the policy as it is, with what this iteration found, instead of from the base with
gold solutions added (a world has none). Each iteration has tasks of its own. A value goes on from its weights, a probe
is refitted after every distillation, since what it reads has moved.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Task
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_wanted
from evolvent.evaluate.live import Live
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.searching import Row, ValueRows, trees
from evolvent.runs.language.system import CRITIC, LanguageConfig, LanguageRun, Needs, Rule, open_language
from evolvent.runs.search.drawing import TREES, drawn, save_trees
from evolvent.runs.search.grow import ended, outcome, value_rows
from evolvent.search import best_of_n, mcts_alpha
from evolvent.search.search import Search, Value, flat

if TYPE_CHECKING:
    from evolvent.learn.critics.search_value import SearchValue

PAPER = "arXiv 2309.17179"
LEVELS = ("step",)
STATUS = "lightly tested"
BATCH = 16  # attempts of a step of distilling


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of TS-LLM; ``group`` is the number of paths a task, ``epochs`` are those of distilling."""

    env: str = "game24"
    """Environment with its options; a model must have seen the form of its answers."""
    updates: int = 2
    """Iterations: search, distil, retrain the value."""
    prompts: int = 32
    """Tasks an iteration."""
    group: int = 12
    """Paths a task that an iteration's search finds."""
    epochs: int = 3
    """Epochs over the paths that were right."""
    value: Literal["lora", "probe", "none"] = "lora"
    """What the value trains: LoRA weights of its own with a linear head, or a small network on the policy's states;
    none = no search, independent samples (the control)."""
    value_lr: float = 2e-4
    """Learning rate of a value with LoRA."""
    rollouts: int = 51
    """Rollouts a task that the first value learns from."""
    keep: int = 39
    """Old paths a task that a value learns from beside the new ones."""
    value_lambda: float = 1.0
    """λ of the value's targets: 1 = the outcome (as released), 0.95 = TD(λ)."""
    simulations: int = 5
    """Simulations before each move."""
    widths: tuple[int, ...] = (10,)
    """Moves that are asked for at each depth; the last number holds for all below."""
    longest: int = 64
    """Largest number of tokens of a line."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.critics.search_value import SearchValue

    at_least(config, {"value_lambda": 0}, {"value_lambda": 1})
    frozen, searches = config.value != "lora", config.value != "none"
    needs = Needs(base="" if frozen else CRITIC, even=True)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        seed = seed_tree(config.seed, "value") % 2**31
        value = SearchValue(run.model, frozen=frozen, adapter="policy" if frozen else "value", seed=seed)
        rows = ValueRows(config.keep, seed)
        run.keep(value=value, rows=rows)
        rollouts = best_of_n.Config(paths=config.rollouts, parallel=16)
        for update in run.updates():
            tasks = run.tasks_of(update)
            alpha = mcts_alpha.Config(config.group, config.simulations, sample=True, seed=seed_tree(seed, update))
            by = partial(mcts_alpha.run, config=alpha)
            if not searches:
                by = partial(best_of_n.run, config=best_of_n.Config(config.group, parallel=16))
            with run.clock("act"):  # ACT and STEP
                if searches and not len(rows):
                    live.status(f"{config.rollouts} rollouts a task, for the first value")
                    _paths(run, tasks, rows, lambda search: best_of_n.run(search, rollouts), flat, update)
                    _fit(run, value, rows)
                live.status("searching the training tasks")
                episodes, found = _paths(run, tasks, rows, by, value if searches else flat, update)
            with run.clock("credit"):  # CREDIT
                ledger = step_wanted.assign(episodes)
            with run.clock("learn"):  # LEARN
                metrics = found | _distil(run, episodes, ledger) | (_fit(run, value, rows) if searches else {})
            if searches:
                value.save(folder.path / "value")
            run.log(episodes, ledger, **metrics)
        if searches:
            at = folder.path
            learned = shlex.join(["--model", f"train:{at}/model", "--value", f"{at}/value"])
            live.note(f"search with it: evolvent run search {learned}")
        return run.finish("ts_llm", Rule.of(step_wanted, "wanted", "right or wrong"))


def _paths(
    run: LanguageRun, tasks: list[Task], rows: ValueRows, by: Callable[[Search], None], value: Value, update: int
) -> tuple[list[Episode], dict[str, float]]:
    """What a search finds in the training tasks: distinct attempts; what a value learns from them goes to ``rows``."""
    config: Any = run.config
    episodes, new = list[Episode](), list[tuple[str, list[Row]]]()
    tokens, states, solved, done, best = 0, 0, 0, 0, -np.inf
    grown = trees(run, tasks, by, value, widths=config.widths, longest=config.longest, seed=seed_tree(update, "tree"))
    for search, space in grown:
        own = range(len(space.starts))
        for task in own:
            paths = ended(search, space, task)
            for one in paths:
                new.append((one[1].task_id, value_rows(search, space, [one], gae_lambda=config.value_lambda)))
                episodes.append(one[1])
            solved += any(outcome(episode) > 0 for _, episode in paths)
            best = max([best, *(path.value for path, _ in paths)])
        if not done and value is not flat:
            name = f"iteration {update + 1}"
            drawings = [drawn(search, space, task, search.of(task)[0], name) for task in own[:TREES]]
            save_trees(run.folder.path, update, drawings)
        tokens, states, done = tokens + int(search.meter.tokens.sum()), states + len(search.tree), done + len(own)
        said = f"{done} of {len(tasks)} tasks searched, {solved} solved, {tokens:,} tokens, {states:,} states"
        run.live.status(f"{said}, best value {best:.2g}")
    rows.add(new, update)
    n = len(tasks)
    counts = {"paths": len(episodes), "solved": solved, "search_tokens": tokens, "states": states}
    return episodes, {name: count / n for name, count in counts.items()}


def _distil(run: LanguageRun, episodes: list[Episode], ledger: Ledger) -> dict[str, float]:
    """Likelihood of the attempts that were right; nothing where none was."""
    side = ledger.values("step")[np.searchsorted(ledger.episode_index("step"), np.arange(len(episodes)))]
    good = [episode for episode, s in zip(episodes, side.tolist(), strict=True) if s > 0]
    if not good:
        return {"right": 0.0}
    epochs, steps = run.config.epochs, -(-len(good) // BATCH)
    return imitate(run, imitated(good), epochs=epochs, minibatches=steps, distance=False) | {"right": float(len(good))}


def _fit(run: LanguageRun, value: SearchValue, rows: ValueRows) -> dict[str, float]:
    """Train the value on the rows there are."""
    from evolvent.learn.critics.search_value import Fit

    config: Any = run.config
    if not len(rows):
        raise BadInput(
            "a value has nothing to learn from",
            got="no attempt that came to an end",
            where="ts_llm",
            expected="answers with words that end by themselves",
            do="look at some (evolvent run search --model train:MODEL --search greedy), allow longer lines, "
            "or let the model see the form of answers first",
        )
    how = None if value.frozen else Fit(lr=config.value_lr)
    progress = run.live.advancing(f"the value learns from {len(rows):,} states")
    return value.fit(*rows.columns(), how, seed=seed_tree(config.seed, "fit", run.update) % 2**31, progress=progress)
