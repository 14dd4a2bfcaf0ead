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
from typing import Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.language.imitation import imitate, imitated
from evolvent.runs.language.system import Needs, Rule, open_language
from evolvent.runs.language.tuning import TuningConfig, examples_of, tuned

PAPER = "arXiv 2203.02155"
LEVELS = ("step",)
STATUS = "tested"
RULE = Rule("example", "step", "1 for every answer of an example", imitated)


@dataclass(frozen=True)
class Config(TuningConfig):
    """Settings of SFT; ``group`` is for systems that sample, and not read."""

    EXAMPLE = "evolvent run sft --env arithmetic:addition --epochs 1"

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
    temperature: float = 1.0
    """Divides the logits, of what is learned and of sampled attempts; 1 = the model as it is."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    found = examples_of(config)
    with open_language(config, folder, live, resume=resume, needs=Needs(training=False, recorded=True)) as run:
        tuning, counts = tuned(run, found, resume=resume)
        for update in tuning.updates():
            examples = tuning.batch(update)  # ACT and STEP: others did
            with run.clock("credit"):  # CREDIT
                ledger = RULE.assign(examples)
            with run.clock("learn"):  # LEARN
                metrics = imitate(run, ledger, minibatches=config.minibatches, distance=False)
            tuning.log(examples, ledger, metrics)
        return tuning.finish("sft", RULE, **counts)
