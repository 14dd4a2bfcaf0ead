"""Hammer: calls learned with names that change, so that a model reads what a function does, not what it is called.

Paper: Lin et al. 2024, Hammer: Robust Function-Calling for On-Device Language Models via Function Masking (arXiv
2410.04587).

    each epoch, each row:  with ``irrelevant``  the tools that are called are taken away; the answer is []
                           with ``mask``        functions and parameters get random names, and a default that the
                                                answer uses another value
    L = - mean over the tokens of an update's answers of log pi(w | all before it)

Rows are the training tasks of ``functions:fc/``, a folder of ``evolvent data functions``. What is drawn depends on
seed, epoch and row alone. The summary has calls, functions, arguments, refusals and the call rate of held-out tasks
before and after, with their own names and with random ones, of seen and unseen functions (``calls_before``, ``calls``).
Controls: ``--mask 0``, ``--irrelevant 0``; both are SFT.

Deviations: published are 60,000 rows of xLAM and 7,500 without a right tool, copied three times, two thirds of the
copies masked, one epoch over all; here three epochs are the copies, and a row loses its tools in some of them. Names,
defaults and duplicates as in ``data.masking``, which mends faults of the released code. The prompt is that of
``functions:``. LoRA of ``--lora-rank`` with a rate for it (published: 32 on all linear layers, 5e-5, decay .01).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.data.irrelevance import before, without_its_tools
from evolvent.data.masking import mask
from evolvent.data.rows import Row
from evolvent.data.schemas import Tool
from evolvent.envs.text.functions import Functions
from evolvent.evaluate.live import Live
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.system import LanguageRun, Needs, Rule, open_language
from evolvent.runs.language.tuning import Source, TuningConfig, answered, tuned

PAPER = "arXiv 2410.04587"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule("example", "step", "1 for the answer of every row", imitated)


@dataclass(frozen=True)
class Config(TuningConfig):
    """Settings of Hammer; ``group`` is for systems that sample, and not read."""

    EXAMPLE = "evolvent run hammer --env functions:fc/"

    env: str = ""
    """functions:DIR, a folder of evolvent data functions: its training rows are learned, its held-out ones judge."""
    mask: float = 0.67
    """Share of the rows of an epoch whose functions and parameters get random names."""
    irrelevant: float = 0.11
    """Share of the rows of an epoch whose tools are taken away, so that nothing is to be called."""
    tasks: int = 10_000
    """Training rows, at most."""
    prompts: int = 8
    """Rows in an update: the batch size."""
    warmup: float = 0.00833
    """Share of the updates in which the learning rate rises."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    shares = ("mask", "irrelevant", "warmup")
    at_least(config, {**dict.fromkeys(shares, 0), "tasks": 1}, dict.fromkeys(shares, 1))
    if config.plan.memory:
        raise BadInput("no attempts, no memory", got=f"--memory {config.plan.memory}", expected="none", where="--env")
    with open_language(config, folder, live, resume=resume, needs=Needs(training=False, recorded=True)) as run:
        world = _own_names(run)
        # rows whose tools were taken away when the data was made are left to `irrelevant`
        tuning, _ = tuned(run, Source(), resume=resume, keep=lambda task: world.row(task.id).kind != "irrelevant")
        rows = [world.row(example.task_id) for example in tuning.train]
        tools = list({tool["name"]: tool for row in rows for tool in row.tools}.values())
        for update in tuning.updates():
            drawn = [varied(rows[i], epoch, config, tools) for epoch, i in tuning.places(update)]  # ACT and STEP
            examples = _examples(run, drawn)
            with run.clock("credit"):  # CREDIT
                ledger = RULE.assign(examples)
            with run.clock("learn"):  # LEARN
                metrics = imitate(run, ledger, minibatches=config.minibatches, distance=False)
            metrics["masked"] = sum(bool(row.mask) for row in drawn) / len(drawn)
            metrics["irrelevant"] = sum(row.kind == "irrelevant" for row in drawn) / len(drawn)
            tuning.log(examples, ledger, metrics)
        return tuning.finish("hammer", RULE)


def varied(row: Row, epoch: int, config: Config, tools: Sequence[Tool]) -> Row:
    """The row as it is learned from in an epoch; ``tools`` may be listed where nothing else is left."""
    draw = random.Random(f"{config.seed}/hammer/{epoch}/{row.id}")
    gone, hidden = draw.random() < config.irrelevant, draw.random() < config.mask
    if gone and row.gold and not before(row):
        row = without_its_tools(row, tools, draw) or row
    row = mask(row, draw) if hidden else row
    return dataclasses.replace(row, id=f"{row.id}/{epoch}")


def _examples(run: LanguageRun, rows: Sequence[Row]) -> list[Episode]:
    """The rows as attempts with the right answer, in the prompts of the run."""
    world: Any = Functions(rows, "own", "all")
    return answered(run, world.tasks("train", len(rows), 0), world)


def _own_names(run: LanguageRun) -> Functions:
    """The environment of the run.

    Raises:
        BadInput: another one, or one that changes names itself.
    """
    spec = run.config.env
    if not isinstance(run.env, Functions) or "names=" in spec:
        do = "evolvent data functions tools.json calls.jsonl --irrelevant .1 --out fc/ makes such a folder"
        raise BadInput("Hammer masks rows of calls", got=spec or "none", expected="functions:DIR", where="--env", do=do)
    return run.env
