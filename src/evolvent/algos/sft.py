"""SFT: supervised fine-tuning on what an assistant should have said.

Paper: Ouyang et al. 2022, Training language models to follow instructions with human feedback (arXiv 2203.02155), its
first stage; as TRL's ``SFTTrainer`` does it with ``assistant_only_loss`` and ``completion_only_loss``.

    L = - mean over the tokens of an update's answers of log pi(w | all before it)

Examples are one of

    --data rows.jsonl      {"messages": […], "tools": […]} or {"prompt": …, "completion": …}, a row a line
    --recorded DIR         attempts of a run that succeeded, in the tokens that they were made of
    --env ENV alone        what the environment's reviewer says to its training tasks, in the prompts of attempts

All answers of a conversation are learned from, to the token that ends each; what users and tools say is never. Messages
go through the model's chat template; where that knows no tools, these are listed in words and calls are lines
``name(argument=value)``. Rows share a pass through the model and see nothing of one another.

The loss on held-out examples, before and after, is the score; with ``--env`` it is the return of held-out tasks.

Deviations: LoRA by default, and a rate for it. Rows that are too long are not cut: their answers that do not fit are
left out, and counted. Templates of TRL that also train the line break around an answer train what is never sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evolvent.core.config import at_least
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.language.learn import imitate, imitated
from evolvent.runs.language.pairs import find_attempts
from evolvent.runs.language.rows import read_rows
from evolvent.runs.language.system import ClippedConfig, Needs, Rule, evaluate_language, open_language
from evolvent.runs.language.tuning import Schedule, Source, successes, tuned

PAPER = "arXiv 2203.02155"
LEVELS = ("step",)
STATUS = "tested"
RULE = Rule("example", "step", "1 for every answer of an example", imitated)


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of SFT; an update is one optimiser step."""

    EXTENDABLE = (("plan.minutes", "t"),)  # the learning rate follows the number of updates

    env: str = ""
    """Environment whose held-out tasks are attempted before and after; empty = the held-out loss alone."""
    data: str = ""
    """File of rows: JSON lines of messages and tools, or of prompt and completion."""
    recorded: str = ""
    """Run folder, or its episodes.jsonl, with recorded attempts to learn from."""
    which: Literal["successes", "all"] = "successes"
    """Recorded attempts that are learned from: those that succeeded (or earned more than 0), or all."""
    tasks: int = 1000
    """Training tasks whose answers are learned from, where there is neither --data nor --recorded."""
    heldout: float = 0.1
    """Share of the examples that are held out; equal rows, and attempts at one task, stay together."""
    max_length: int = 0
    """Largest number of tokens of an answer with all before it; 0 = the model's context."""
    updates: int = 100_000
    """Largest number of updates; fewer where the passes over the examples are done sooner."""
    prompts: int = 16
    """Examples in an update: the batch size."""
    epochs: int = 3
    """Epochs: passes over all examples."""
    lr: float = 2e-4
    """Learning rate of AdamW, at its highest."""
    warmup: float = 0.03
    """Share of the updates in which the learning rate rises."""
    schedule: Schedule = "cosine"
    """How the learning rate falls afterwards: cosine, linear (both to 0), or constant."""
    temperature: float = 1.0
    """Divides the logits, of what is learned and of sampled attempts; 1 = the model as it is."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    found = examples_of(config)
    with open_language(config, folder, live, resume=resume, needs=Needs(training=False)) as run:
        tuning, counts = tuned(run, found, resume=resume)
        for update in tuning.updates():
            examples = tuning.batch(update)  # ACT and STEP: others did
            with run.clock("credit"):  # CREDIT
                ledger = RULE.assign(examples)
            with run.clock("learn"):  # LEARN
                metrics = imitate(run, ledger, distance=False)
            tuning.log(examples, ledger, metrics)
        return tuning.finish("sft", RULE, **counts)


def evaluate(folder: RunFolder, live: Live, episodes: int | None = None, *, env: str = "") -> dict[str, Any]:
    """Attempt held-out tasks with the newest checkpoint, frozen."""
    if not env and not folder.config["env"]:
        raise BadInput(
            "the run has no environment",
            got="held-out loss alone",
            expected="--env ENV",
            where=str(folder.path),
            do="name one to attempt; the held-out loss stands in summary.json",
        )
    return evaluate_language(Config, folder, live, episodes, env=env)


def examples_of(config: Config) -> Source:
    """Where the examples come from, read as far as it can be without a model.

    Raises:
        BadInput: no source or two, settings out of range, or rows that cannot be learned from.
    """
    at_least(config, {"heldout": 0, "warmup": 0, "max_length": 0, "tasks": 1}, {"heldout": 0.9, "warmup": 1})
    if (config.data and config.recorded) or not (config.data or config.recorded or config.env):
        raise BadInput(
            "examples come from one place",
            got="--data and --recorded" if config.data else "none",
            expected="--data FILE, --recorded DIR, or --env ENV, whose reviewer tells the answers",
            where="sft",
        )
    if config.plan.memory:
        raise BadInput("no attempts, no memory", got=f"--memory {config.plan.memory}", expected="none", where="sft")
    if config.data:
        path = Path(config.data).expanduser()
        return Source(path, rows=tuple(read_rows(path)))
    recorded = find_attempts(config.recorded)
    return Source() if recorded is None else Source(recorded.path, recorded=successes(recorded, config.which))
