"""P3: the policy itself says which examples it imitates next: not too hard for it yet, and unlike one another.

Paper: Yang et al. 2024, P3: A Policy-Driven, Pace-Adaptive, and Diversity-Promoted Framework for Data Pruning (arXiv
2408.05541).

    each epoch: f(x) = 1 - mean over the lines a of x's answer of P(a), by the policy as it is now
                eligible: f(x) at most the percentile s + (t - s) epoch / epochs of all f
                chosen:   ``select`` of them by a greedy determinant of f(x) phi(x) . phi(y) f(y)
                one epoch of imitation on what was chosen

phi holds the 30 smallest token probabilities of a prompt (``pruning``). One update is one epoch; scoring is a
forward pass over *all* examples in each, and its CPU seconds stand beside those of learning in metrics and summary.

The score is the loss on held-out rows; with ``--env`` the return of held-out tasks.

Published: five epochs of 10,000 examples, percentiles 45 to 95 (30 to 95 without diversity), rate 4e-4, batches of 5.

Controls: ``--choose pace`` (no diversity), ``random`` (as many, not scored), ``all``.

Deviations: LoRA of ``--lora-rank`` (published: 64, dropout .15, a base in 4 bits), no weight decay (published 1e-4).
What the released code has switched off, a trend of difficulty and a band of it, is not here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evolvent.algos.p3.pruning import difficulty, diverse, eligible, pace, rarest
from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.seeding import rng
from evolvent.evaluate.live import Live
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.system import LanguageConfig, LanguageRun, Needs, Rule, open_language
from evolvent.runs.language.tuning import examples_of, tuned

if TYPE_CHECKING:
    from evolvent.models.language.model import Row

PAPER = "arXiv 2408.05541"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule("example", "step", "1 for every answer of a chosen example", imitated)
PACE = {"p3": (45.0, 95.0), "pace": (30.0, 95.0)}
PORTION = 64  # examples scored between two words on progress
CPU: tuple[str, ...] = ("scoring_cpu_s", "choosing_cpu_s", "learning_cpu_s")


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of P3; an update is an epoch."""

    EXTENDABLE = (("plan.minutes", "t"),)  # the pace follows the number of epochs

    env: str = ""
    """Environment whose held-out tasks are attempted before and after; empty = the held-out loss alone."""
    data: str = ""
    """File of rows, as for sft: JSON lines of messages and tools, or of prompt and completion."""
    recorded: str = ""
    """Run folder, or its episodes.jsonl, with recorded attempts to choose from."""
    which: Literal["successes", "all"] = "successes"
    """Recorded attempts that are chosen from: those that succeeded (or earned more than 0), or all."""
    tasks: int = 1000
    """Training tasks whose answers are chosen from, where there is neither --data nor --recorded."""
    heldout: float = 0.1
    """Share of the examples that are held out."""
    max_length: int = 0
    """Largest number of tokens of an answer with all before it; 0 = the model's context."""
    choose: Literal["p3", "pace", "random", "all"] = "p3"
    """How an epoch's examples are chosen: p3, its pace without diversity, at random, or all there are."""
    select: int = 10_000
    """Examples of an epoch, at most."""
    updates: int = 5
    """Epochs: score, choose, imitate."""
    prompts: int = 5
    """Examples of an optimiser step: the batch size."""
    lr: float = 4e-4
    """Learning rate of AdamW."""


@dataclass(frozen=True)
class Scored:
    """What the policy says of every example: difficulties ``[N]``, features of the prompts ``[N, 30]``."""

    difficulty_N: np.ndarray
    features_ND: np.ndarray


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    at_least(config, {"select": 1})
    source = examples_of(config)
    needs = Needs(training=False, recorded=True)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        tuning, counts = tuned(run, source, resume=resume)
        run.shell.total = config.updates  # epochs, where tuning counts its steps
        for update in run.updates():
            cpu = [time.process_time()]
            with run.clock("act"):  # ACT and STEP: answers are given; how likely they are now is what is found out
                scored = score(run, tuning.train) if config.choose in PACE else None
            cpu.append(time.process_time())
            with run.clock("credit"):  # CREDIT
                chosen, metrics = choose(config, update, len(tuning.train), scored)
                examples = [tuning.train[i] for i in chosen.tolist()]
                ledger = imitated(examples)
            cpu.append(time.process_time())
            with run.clock("learn"):  # LEARN
                steps = math.ceil(len(examples) / config.prompts)
                metrics |= imitate(run, ledger, minibatches=steps, distance=False)
            cpu.append(time.process_time())
            _keep(folder, update, chosen, scored)
            spent = dict(zip(CPU, np.diff(cpu).round(3).tolist(), strict=True))
            run.attempts += len(examples)
            run.logged({"examples": len(examples), **spent}, examples, ledger, metrics)
            run.shell.tell([f"loss {metrics['loss']:.3g}", f"{len(examples)} of {len(tuning.train)} examples"])
        rows = folder.read_metrics()
        total = {name: round(sum(row.get(name, 0.0) for row in rows), 3) for name in CPU}
        return tuning.finish("p3", RULE, **counts) | total


def score(run: LanguageRun, examples: Sequence[Episode]) -> Scored:
    """Difficulty and features of every example by the policy as it is, in one pass over prompt and answers."""
    import torch

    difficulties, prompts = list[float](), list[np.ndarray]()
    for at in range(0, len(examples), PORTION):
        rows = [_rows(one) for one in examples[at : at + PORTION]]
        flat = [row for some in rows for row in some]
        with torch.no_grad():
            logp_K = run.logprobs("policy")(flat).logp_K.double().cpu().numpy()
        logps = iter(np.split(logp_K, np.cumsum([len(row.tokens) for row in flat])[:-1]))
        for episode, some in zip(examples[at : at + PORTION], rows, strict=True):
            found = [next(logps) for _ in some]
            prompt, found[0] = np.split(found[0], [len(found[0]) - len(episode.step_tokens(0))])
            prompts.append(np.exp(prompt))
            said = [[run.model.decode([i]) for i in episode.step_tokens(t)] for t in range(episode.n_steps)]
            lines = [line for logp, words in zip(found, said, strict=True) for line in np.split(logp, breaks(words))]
            difficulties.append(difficulty(lines))
        run.live.status(f"{at + len(rows):,} of {len(examples):,} examples scored")
    return Scored(np.array(difficulties), rarest(prompts))


def breaks(tokens: Sequence[str]) -> list[int]:
    """Where the lines of an answer begin, but the first: behind an end of line, at what is not blank itself."""
    found, said, ended = list[int](), False, False
    for i, text in enumerate(tokens):
        if text.strip():
            found += [i] if said and ended else []
            said, ended = True, False
        ended = ended or "\n" in text
    return found


def choose(config: Config, update: int, n: int, scored: Scored | None) -> tuple[np.ndarray, dict[str, float]]:
    """The examples of an epoch, int64 ``[<= n]``, and what to log of them."""
    if scored is None:
        order = rng(config.seed, "choose", update).permutation(n)
        return (order if config.choose == "all" else order[: config.select]), {}
    f_N, (start, end) = scored.difficulty_N, PACE[config.choose]
    percentile = pace(update, config.updates, start=start, end=end)
    open_N = np.flatnonzero(eligible(f_N, percentile))
    if config.choose == "p3":
        chosen = open_N[diverse(scored.features_ND[open_N], f_N[open_N], config.select)]
    else:
        chosen = rng(config.seed, "choose", update).permutation(open_N)[: config.select]
    means = {"difficulty": float(f_N.mean()), "difficulty_chosen": float(f_N[chosen].mean())}
    return chosen, {"percentile": percentile, "eligible": float(len(open_N)), **means}


def _rows(example: Episode) -> list[Row]:
    """An example as rows: the first one's tokens are all but the first of its prompt, too."""
    from evolvent.models.language.model import Row

    seen, said = ([f(t) for t in range(example.n_steps)] for f in (example.context_ids, example.step_tokens))
    first = Row(seen[0][:1], np.concatenate([seen[0][1:], said[0]]))
    return [first, *(Row(context, tokens) for context, tokens in zip(seen[1:], said[1:], strict=True))]


def _keep(folder: RunFolder, update: int, chosen: np.ndarray, scored: Scored | None) -> None:
    """What an epoch chose, and how difficult each example was: ``DIR/chosen/EPOCH.json``."""
    rounded = None if scored is None else [round(f, 4) for f in scored.difficulty_N.tolist()]
    place = folder.path / "chosen" / f"{update + 1}.json"
    place.parent.mkdir(exist_ok=True)
    write_atomic(place, dump({"chosen": chosen.tolist(), "difficulty": rounded}) + "\n")
