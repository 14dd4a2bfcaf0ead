"""How fast a search goes: batches against one call at a time on the same model, the arrays' share, prefixes reused.

The tree of MCTS-Rollout over lines of at most 12 tokens, tasks of game24, SmolLM2-135M, one thread, CPU seconds. *One
call at a time* is the pattern of the released code (TS-LLM, OpenR): one task, one simulation, one completion a call;
the same search otherwise. The toy game has no model: random binary moves, values from a table, all trees in one set of
arrays. Where mctx is installed (``pip install mctx``), it plays the same game in the same run: compiled into one
program with it, and with the values asked from Python, as a model's are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from evolvent import envs, models
from evolvent.core.errors import missing_extra
from evolvent.core.protocols import Completion, Engine, Request
from evolvent.core.seeding import seed_tree
from evolvent.models.served.acting import Served
from evolvent.play.attempt import play
from evolvent.play.renderers import Plain, Text
from evolvent.play.settings import AttemptSettings
from evolvent.search.attempts import Attempts
from evolvent.search.budget import Meter
from evolvent.search.search import Moves, Search, State
from evolvent.search.simulate import Puct, simulate
from evolvent.search.tree import Tree
from evolvent.search.values import likelihood

from . import _search_mctx

MODEL, GGUF = "train:smollm2-135m", "smollm2-135m"
ENV, WIDTH, LONGEST = "game24:shots=4", 4, 12
TREES, ROUNDS = (1, 8, 64), 200  # of the toy game: trees side by side, simulations of each
TARGETS = {"one_at_a_time_over_batch": 3.0, "prefix_reuse": 0.9, "tree_share": 0.05}
Progress = Callable[[str], None]


def run(
    seed: int = 0,
    tasks: int = 8,
    simulations: int = 8,
    progress: Progress | None = None,
    model: str = MODEL,
    gguf: str = GGUF,
) -> dict[str, Any]:
    """Measure; about three minutes on an idle core.

    Args:
        seed: of tasks and draws.
        tasks: searched side by side; one call at a time is measured on the first.
        simulations: of each task.
        progress: called with a line of text now and then.
        model: in torch, for batches against single calls.
        gguf: in llama.cpp, which keeps prompts too; "" leaves it out.

    Returns:
        ``ratios`` (seconds a simulation, theirs over ours), ``simulations_per_second``, ``tree_share`` of the time in
        all that is neither model nor value, ``tokens`` (evaluated, in the tree), ``prefix_reuse`` (share of prompt
        tokens that were kept), ``toy`` (simulations a second, all trees together) and ``toy_mctx…``, ``checks``.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "train", "python -m benchmarks.speed search") from error
    say, threads = progress or (lambda text: None), torch.get_num_threads()
    torch.set_num_threads(1)
    load = [round(x, 1) for x in os.getloadavg()]
    result: dict[str, Any] = {"name": "search", "seed": seed, "model": model, "load_before": load}
    try:
        with closing(models.load(model)) as loaded:
            from evolvent.models.language.acting import Acting

            language: Any = loaded
            engine, renderer = Acting(language, "sum", 1.0), Plain(language)
            say("many at once")
            with language.keeping():
                ours = _measure(engine, renderer, seed, tasks, 4, simulations)
            say("many at once, nothing kept")
            fresh = _measure(engine, renderer, seed, tasks, 4, simulations)
            say("one call at a time")
            single = _measure(_OneByOne(engine), renderer, seed, 1, 1, simulations)
    finally:
        torch.set_num_threads(threads)
    sides = {"batch": ours, "batch_nothing_kept": fresh, "one_at_a_time": single}
    result["simulations_per_second"] = {name: side["per_second"] for name, side in sides.items()}
    result["ratios"] = {
        f"{name}_over_batch": ours["per_second"] / sides[name]["per_second"] for name in list(sides)[1:]
    }
    result["tree_share"] = ours["tree_share"]
    result["tokens"] = {"torch": ours["tokens"], "torch_nothing_kept": fresh["tokens"]}
    result["prefix_reuse"] = {"torch": ours["reuse"]}
    if gguf:
        say("prefixes in llama.cpp")
        with closing(models.load(gguf)) as served:
            kept = _measure(Served(served, 1.0), Text(), seed, 1, 1, simulations)
        result["tokens"]["llama"] = kept["tokens"]
        result["prefix_reuse"]["llama"] = kept["reuse"]
    say("toy game")
    result["toy"] = {f"trees_{n}": round(_toy(n, seed)) for n in TREES}
    if _search_mctx.there:
        table = _Toy(Tree(1), seed).values
        for name, called in (("toy_mctx", False), ("toy_mctx_asks_python", True)):
            result[name] = {f"trees_{n}": round(_search_mctx.toy(n, table, ROUNDS, called=called)) for n in TREES}
    result["checks"] = _checks(result)
    return result


class _OneByOne:
    """An engine that is asked for one completion at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._engine([request])[0] for request in requests]


def _measure(engine: Engine, renderer: Any, seed: int, tasks: int, parallel: int, simulations: int) -> dict[str, Any]:
    """Simulations of some tasks, together or one task after another."""
    worlds = [envs.load(ENV) for _ in range(tasks)]
    asked = worlds[0].tasks("heldout", tasks, seed)

    def start(i: int) -> Callable[[int], Any]:
        return lambda limit: play(worlds[i], asked[i], AttemptSettings(renderer), seed=seed_tree(seed, i))

    tree = Tree(tasks)
    space = Attempts(tree, [start(i) for i in range(tasks)], engine, [one.text for one in asked], longest=LONGEST)
    search = Search(tree, space, likelihood, (WIDTH,))
    meter = search.meter = Meter(tasks, search.budget, time.process_time)
    began, count = time.process_time(), 0
    for _ in range(-(-simulations // parallel)):
        count += len(simulate(search, tree.roots.tolist(), Puct(), parallel=parallel))
    spent = time.process_time() - began
    contexts = [space.state(int(root)).context for root in tree.roots]
    inside = int(tree.tokens[: tree.n].sum()) + sum(len(c) for c in contexts if c is not None)
    evaluated = meter.prompt - meter.cached + int(meter.tokens.sum())
    return {
        "per_second": count / spent,
        "tree_share": (spent - meter.model_s - meter.value_s) / spent,
        "tokens": {"prompt": meter.prompt, "cached": meter.cached, "evaluated": evaluated, "in_tree": inside},
        "reuse": meter.cached / meter.prompt if meter.prompt else 0.0,
    }


class _Toy:
    """Random binary moves, eight deep, values from a table."""

    def __init__(self, tree: Tree, seed: int) -> None:
        self.tree, self.values = tree, np.random.default_rng(seed).random(1 << 16)
        self._prior, self._tokens = np.array([0.5, 0.5]), np.ones(2, np.int64)

    def propose(self, nodes: Sequence[int], widths: Sequence[int], meter: Meter) -> list[Moves | None]:
        return [Moves(self._prior, self._tokens)] * len(nodes)

    def made(self, parent: int, children: np.ndarray) -> None:
        pass

    def twin(self, node: int, new: int) -> None:
        pass

    def enter(self, nodes: Sequence[int]) -> list[float | None]:
        return [1.0 if deep else None for deep in self.tree.depth[list(nodes)] >= 8]

    def state(self, node: int) -> State:
        return State(node, 0, "", ())

    def key(self, node: int) -> str | None:
        return None


def _toy(trees: int, seed: int, rounds: int = ROUNDS) -> float:
    tree = Tree(trees)
    space = _Toy(tree, seed)
    search = Search(tree, space, lambda states: space.values[[s.node & 0xFFFF for s in states]], (2,))
    roots = tree.roots.tolist()
    began = time.process_time()
    for _ in range(rounds):
        simulate(search, roots, Puct())
    return rounds * trees / (time.process_time() - began)


def _checks(result: dict[str, Any]) -> dict[str, bool]:
    ratio, least = result["ratios"]["one_at_a_time_over_batch"], TARGETS["one_at_a_time_over_batch"]
    checks = {f"batch_over_one_at_a_time_of_{least:g}": ratio >= least}
    checks[f"tree_share_within_{TARGETS['tree_share']:g}"] = result["tree_share"] <= TARGETS["tree_share"]
    for name, reuse in result["prefix_reuse"].items():
        checks[f"prefix_reuse_{name}_of_{TARGETS['prefix_reuse']:g}"] = reuse >= TARGETS["prefix_reuse"]
    return checks
