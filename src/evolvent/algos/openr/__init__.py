"""OpenR: labels of steps by OmegaPRM, a process reward model learned from them, and RL that it pays step by step.

Paper: Wang et al. 2024, OpenR: An Open Source Framework for Advanced Reasoning with LLMs (arXiv 2410.09671).

    data:  MC(s) of the policy's own states, the first error of wrong answers by bisection   (``algos.openr.omega``)
    PRM:   p(s) = sigmoid(f(h(s)));  labels [MC > 0.5] (hard) or MC itself (soft)
    RL:    r_t = p(s_t) behind every line t,  L = mean max(-r A, -clip(r, 1 +- .2) A) - .01 H
           appo  ratio of a whole line, mean over lines;  A by GAE over lines     gamma = lambda = .95
           tppo  ratio of a token, mean over tokens;  GAE over tokens, discounted between lines only (POAD's backup)
           grpo  as tppo without a critic: rewards normalised over the group, summed to go (DeepSeekMath)
           grpo_coded  as appo without a critic: rewards normalised over the batch, a line is paid for itself alone

``--labels mutants`` (PRLCoder): a line of a right program is changed, the program is run, and the label of the line is
whether it still passes; for worlds that can do it (``line_labels``: ``program``). It costs no samples of the policy.

``outcome`` adds the world's own reward at the end; with it ``process`` 0 is RL by the outcome alone, the control, which
labels nothing. The model is left in ``prm/`` with its labels in ``prm_labels.json``; any search decodes with it:
``evolvent run search --model train:DIR/model --value DIR/prm --aggregate min_vote``; ``--labels DIR/prm`` learns
with one that is there.

Published: gamma, lambda, clip, entropy, KL 0.02, gradient norm .5; 16 samples, 20 bisections, 200 rollouts a question;
LoRA rank 8. Ours: 64 questions, 8 x 4 attempts an update, rates for LoRA.

Deviations: the label stands at the state behind the line's last token, where it is read (the released trainer shifts it
by one token). PRLCoder's teacher is a model, here it is a list of changes (``sandbox.mutants``). Right is what the
world's checker says, not a substring. With the numbers of samples of MedS3 the label is the share of right ones, where
MedS3 takes the value that its tree backs up. The entropy bonus of a line is the mean over its tokens. Advantages are
normalised once an optimiser step. The critic reads the frozen base and makes its passes first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evolvent.algos.openr import omega
from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_gae, step_process_std, token_bad
from evolvent.evaluate.live import Live
from evolvent.formulas.process_supervision import labels
from evolvent.runs.language.searching import Row, behind_lines, labelled_lines, lines, trees
from evolvent.runs.language.system import CRITIC, LanguageConfig, LanguageRun, Needs, Rule, learn, open_language
from evolvent.runs.language.tasks import drawn
from evolvent.search.record import divided

if TYPE_CHECKING:
    from evolvent.learn.critics.search_value import SearchValue

PAPER = "arXiv 2410.09671"
LEVELS = ("step", "token")
STATUS = "lightly tested"
GAMMA = GAE_LAMBDA = 0.95
LABELS = ("hard", "soft", "mutants")
CLIP, ENTROPY, KL_STOP, CRITIC_LR = 0.2, 0.01, 0.02, 1e-4
OF_LINES = {"ratio": "turn", "aggregate": "turn_mean", "normalise": "turns"}
OF_TOKENS = {"ratio": "token", "aggregate": "token_mean", "normalise": "minibatch"}
RULES = {
    "appo": Rule.of(step_gae, "turn_gae", "GAE over lines", step_gae.Config(gamma=GAMMA, gae_lambda=GAE_LAMBDA)),
    "tppo": Rule.of(token_bad, "poad", "GAE over tokens", token_bad.Config(gamma=GAMMA, gae_lambda=GAE_LAMBDA)),
    "grpo": Rule.of(step_process_std, "process_std", "against the group's lines, to go", step_process_std.Config()),
    "grpo_coded": Rule.of(
        step_process_std, "process_std", "against all lines", step_process_std.Config("batch", to_go=False)
    ),
}


@dataclass(frozen=True)
class Config(LanguageConfig):
    """Settings of OpenR."""

    grad_clip = 0.5

    env: str = "game24"
    """Environment with its options; a model must have seen the form of its answers."""
    how: Literal["appo", "tppo", "grpo", "grpo_coded"] = "appo"
    """How the policy learns from process rewards."""
    questions: int = 64
    """Training tasks whose states are labelled."""
    samples: int | tuple[int, int] = 16
    """Samples behind a state that is estimated; of two numbers, such as 20 5, the first at the question and fewer
    below, max(20 // (depth + 1), 5), as many as MedS3 takes."""
    rollouts: int = 200
    """Samples of a question after which no further bisection begins."""
    labels: str = "hard"
    """What the process reward model learns: hard (more than half of the samples come right), soft (their share),
    mutants (PRLCoder's); or the folder of one that has learned, such as another run's ``prm``."""
    prm_lr: float = 1e-4
    """Learning rate of the process reward model."""
    process: float = 1.0
    """Weight of the process rewards."""
    outcome: float = 0.0
    """Weight of the world's own reward, at the end."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.learn.critics.search_value import NOTE
    from evolvent.learn.tokens.objective import Objective

    at_least(config, {"process": 0, "outcome": 0})
    samples, *least = config.samples if isinstance(config.samples, tuple) else (config.samples,)
    how = omega.Config(samples, least[0] if least else 0, rollouts=config.rollouts)
    if config.process == config.outcome == 0.0:
        raise BadInput("nothing is paid", got=(0.0, 0.0), expected="a weight above 0", where="--process, --outcome")
    if config.labels not in LABELS and not (Path(config.labels).expanduser() / NOTE).is_file():
        raise BadInput(
            "no such labels",
            got=config.labels,
            expected=f"{', '.join(LABELS)} or a folder with {NOTE}",
            where="--labels",
        )
    rule = RULES[config.how]
    over = OF_LINES if config.how in ("appo", "grpo_coded") else OF_TOKENS
    objective = replace(Objective(clip_low=CLIP, clip_high=CLIP, entropy=ENTROPY), **over)
    needs = Needs(base=CRITIC, labels=config.labels == "mutants" and config.process != 0.0)
    with open_language(config, folder, live, resume=resume, needs=needs) as run:
        prm = _process_model(run, config, folder, how) if config.process else None

        def collect(update: int) -> tuple[list[Episode], dict[str, float]]:
            played = run.collect()
            with run.clock("credit"):
                return _paid(run, prm, played, config)

        critic = run.critic(CRITIC_LR, CLIP) if config.how in ("appo", "tppo") else None
        return learn(run, "openr", rule, objective, collect=collect, critic=critic, kl_stop=KL_STOP)


def _process_model(run: LanguageRun, config: Config, folder: RunFolder, how: omega.Config) -> SearchValue:
    """The process reward model: the run's or the one asked for, where there is one, otherwise labelled and trained."""
    from evolvent.learn.critics.search_value import Fit, SearchValue

    place = folder.path / "prm"
    if (place / "value.json").is_file():
        return SearchValue.load(run.model, place)
    if config.labels not in LABELS:
        prm = SearchValue.load(run.model, config.labels)
        prm.save(place)
        return prm
    seed = seed_tree(config.seed, "prm") % 2**31
    rows, report = _labelled(run, config, seed, how)
    good = sum(label for _, label in rows)
    if not 0 < good < len(rows):
        label, do = ("right", "harder ones") if good else ("wrong", "a policy that is sometimes right")
        raise BadInput(
            "a process reward model needs right and wrong steps",
            where="openr",
            got=f"{len(rows)} states, all {label}" if rows else "no state: no answer came to an end of a line",
            do=f"ask for more questions (--questions), or take {do}",
        )
    prm = SearchValue(run.model, "process", adapter="prm", seed=seed)
    on = run.live.advancing(f"the process reward model learns from {len(rows):,} states")
    report |= prm.fit(
        [ids for ids, _ in rows], [label for _, label in rows], Fit(lr=config.prm_lr), seed=seed, progress=on
    )
    run.live.note(f"process reward model: {report['states']} states, AUC {report['value_auc']:.2f} on them")
    prm.save(place)
    write_atomic(folder.path / "prm_labels.json", json.dumps(report, indent=1) + "\n")
    return prm


def _labelled(run: LanguageRun, config: Config, seed: int, how: omega.Config) -> tuple[list[Row], dict[str, Any]]:
    """OmegaPRM over some training tasks: what was read and its label, equal states once; what it cost."""
    tasks = drawn(run.env, config.questions, seed)
    if config.labels == "mutants":
        run.live.status(f"labelling the lines of {len(tasks)} questions by changing them")
        rows = labelled_lines(run.env, run.attempt_settings.renderer, run.model.decode, tasks)
        return rows, {"states": len(rows), "right": int(sum(label for _, label in rows)), "questions": len(tasks)}
    rows, estimates, samples, bisected, tokens = dict[bytes, Row](), 0, 0, 0, 0
    run.live.status(f"labelling the steps of {len(tasks)} questions")
    found = list[omega.Found]()

    def by(search: Any) -> None:
        found[:] = omega.run(search, how)

    for search, space in trees(run, tasks, by, widths=(1,), longest=config.plan.answer or 64, seed=seed):
        for one in found:
            estimates, samples = estimates + one.estimates, samples + one.samples
            bisected += len(one.errors)
            for node, mc in one.mc.items():
                context = space.state(node).context
                if isinstance(context, np.ndarray) and search.tree.depth[node] > 0:
                    label = mc if config.labels == "soft" else float(labels(mc))
                    rows[context.tobytes()] = (context, label)
        tokens += int(search.meter.tokens.sum())
    return list(rows.values()), {
        "states": len(rows),
        "estimates": estimates,
        "samples": samples,
        "bisected": bisected,
        "tokens": tokens,
        "questions": len(tasks),
    }


def _paid(
    run: LanguageRun, prm: SearchValue | None, played: list[Episode], config: Config
) -> tuple[list[Episode], dict[str, float]]:
    """The attempts with a decision a line, each paid what the model says of it."""
    answers = [lines(episode, run.model.decode) for episode in played]
    contexts = [behind_lines(episode, pieces) for episode, pieces in zip(played, answers, strict=True)]
    read = [ids for some in contexts for ids in some]
    scores = np.zeros(len(read)) if prm is None else prm.judge(read)
    parts = np.split(scores, np.cumsum([len(some) for some in contexts])[:-1]) if contexts else []
    out: list[Episode] = []
    for episode, pieces, said in zip(played, answers, parts, strict=True):
        pays = config.process * said
        pays[-1:] += config.outcome * episode.total_reward
        out.append(divided(episode, pieces, pays=pays.tolist()))
    return out, {"process_mean": float(scores.mean()) if len(scores) else 0.0}
