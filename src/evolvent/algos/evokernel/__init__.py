"""EvoKernel: a frozen model drafts and refines kernels; what helps it is learned as memory values, one a stage.

Paper: arXiv 2603.10846. The task is an operator, an attempt is one program in C, and the outcome is a fact: the gates
of ``envs/text/kernels`` (no tricks, compiles, right, how fast). A kernel is *feasible* when it passes the first three.
In rounds over the kernels, T attempts each:

    draft    until one is feasible:  recall by Q_draft, write, r = +1 feasible, -1 not
    refine   from then on:           a start point p of all feasible ones by Q_refine, other memories by Q_refine, and
                                     what was tried from p; r = tanh(ln best - ln latency), -1 where not feasible
             rhat = (r - mean) / sd, running over all refinements; the best is the one before this attempt
    Q(m) <- Q(m) + alpha (r or rhat - Q(m))  for the start point and for every memory that was shown

What is remembered: templates and best practices (seeds), traces (right and faster programs), failures (with the
compiler's or the checker's words), start points, and what made a kernel faster, in the lines that did. Candidates are
the nearest by cosine, ranked by value, epsilon-greedy (``memory/rules/evokernel.py``). ``--memory STORE`` begins with
the memory of another run, of other kernels or a stronger model; what it holds of these kernels is put away first.

Controls: ``--select similar`` (cosine alone), ``random``, ``none`` (refinement without memory), ``--no-refine`` (drafts
alone, pass@k), ``--lesson`` (one piece of advice for everyone), ``--env kernels:fast_math=true``. With ``--env
kernels:faster`` nothing is drafted: the naive kernel is the first start point.

Deviations: kernels are C on a processor, not for an accelerator. Latency is a ratio to a naive kernel, counted from
1.15. The anti-hack gate has rules and a dynamic part, no model. Lessons are written by rules, not by a model (a diff's
telling lines, the compiler's words). Memories of other kernels are recalled; a kernel's own history is given as its
state. One memory a prompt (the paper's N is not known): a model of 1.5B carries one line. New memories begin at 1,
failures and drafts at 0, other start points at the rhat that made them, cut at 1. The first rewards count in the
statistics before they are normalised, -1 does, too; sd below 1e-6 gives 0; rhat is cut at 10. Their budget is 30
attempts a kernel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

from evolvent.algos.evokernel.session import (
    FRESH,
    REWARDS,
    Breaks,
    ProgramsConfig,
    Session,
    Start,
    Work,
    left_out,
    opened_session,
)
from evolvent.algos.evokernel.summary import summarise
from evolvent.algos.evokernel.texts import lesson_of, outcome, report, tell, writing
from evolvent.core.config import at_least
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import shorten_home
from evolvent.core.protocols import Model, Task
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live, one_line
from evolvent.formulas.refinement import GAIN, Running, draft_reward, refine_reward
from evolvent.memory.policies import preset
from evolvent.play.answered import Answered
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.together import run_players
from evolvent.runs.memory import cursor
from evolvent.runs.shell import Shell

PAPER = "arXiv 2603.10846"
LEVELS = ("memory",)
STATUS = "lightly tested"
KINDS = {"draft": ("template", "trace", "failure"), "refine": ("practice", "trace", "failure")}
"""What may be recalled in each stage, beside start points."""
_FAILURE = 0.0  # where a failure's value begins: advice that nobody has tried comes first


@dataclass(frozen=True)
class Config(ProgramsConfig):
    """Settings of EvoKernel."""

    refine: bool = True
    """Refine what is right; otherwise every attempt is a draft of its own (pass@k)."""
    select: Literal["value", "similar", "random", "none"] = "value"
    """What chooses memories: learned values (the start point, too: otherwise the fastest program), cosine alone,
    chance; none = no memory."""
    lesson: str = ""
    """One piece of advice for every attempt, whatever is recalled (control)."""
    k: int = 1
    """Memories shown beside a start point (N)."""
    multiplier: int = 15
    """Candidates for each memory that is shown (K = multiplier × N)."""
    epsilon: float = 0.1
    """Exploration ε: probability of random candidates instead of the best."""
    alpha: float = 0.2
    """Learning rate of the values."""
    chars: int = 1500
    """Characters of memories in a prompt; what does not fit is neither shown nor credited."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, {"k": 1, "multiplier": 1, "chars": 0, "epsilon": 0, "alpha": 0}, {"epsilon": 1, "alpha": 1})


@dataclass
class Context(Answered):
    """One attempt: its stage, where it begins, and what was recalled."""

    stage: str = "draft"
    start: Start | None = None
    origin: str = ""
    """Memory of the start point."""


def run(
    config: Config, folder: RunFolder, live: Live, *, resume: bool = False, model: Model | None = None
) -> dict[str, Any]:
    """T rounds over the kernels; returns the summary. ``model``: one that is loaded, shared by several runs."""
    with opened_session(config, folder, live, resume, model) as session:
        if session.env.variant == "faster" and not config.refine:
            raise BadInput(
                "this world begins with a right kernel: nothing is drafted",
                got="--no-refine",
                where=config.env,
                do="leave --no-refine out, or draft with --env kernels",
            )
        memory, total = session.memory, config.budget * len(session.works)
        naive = {work.name: session.env.operators[work.name].source for work in session.works}
        shell = Shell(folder, live, total, resume=resume, unit="attempt")
        cursor.go_on(shell, memory)
        if resume:
            for row in folder.read_metrics():
                _advance(session, next(work for work in session.works if work.name == row["kernel"]), row)
        breaks = Breaks(session.works, live)
        for number in shell.updates():
            work = session.works[number % len(session.works)]
            if left_out(work):
                shell.update += 1
                continue
            if number % len(session.works) == 0:
                live.phase(f"Round {number // len(session.works) + 1} of {config.budget}")
            context = _context(config, session, work, number)
            if not live.plain or shell.update == shell.first:  # in a file, a line an attempt says it
                live.status(writing(work.name, context.stage, work.attempts + 1, shell))
            ended, row = _attempt(config, session, work, context, number)  # ACT, STEP
            _credit(session, work, context, row)
            with memory.transaction():  # LEARN
                if isinstance(ended, Episode):  # else nothing is settled: a run that ends so goes on before it
                    _learn(session, work, context, row)
                    folder.episode(ended, step=number + 1)
                    cursor.saved(memory, number + 1)
                folder.log(**row)
            _advance(session, work, row)
            tell(live, row, total)
            breaks.add(work, _broke(ended, row))
            shell.update += 1
        rows = folder.read_metrics()
        head = {"algo": "evokernel", "env": config.env, "model": session.model, "seed": config.seed}
        arm = {"select": config.select, "refine": config.refine, "references": naive}
        summary = head | summarise(rows, list(naive)) | arm
        folder.write_summary(summary)
        report(live, summary, rows)
    return summary


# ------------------------------------------------------------------------------------------------ an attempt
def _context(config: Config, session: Session, work: Work, number: int) -> Context:
    """The stage, a start point and memories: two receipts at most."""
    stage = "refine" if config.refine and work.starts else "draft"
    made = Context(stage=stage)
    policy = preset(
        "evokernel",
        epsilon=config.epsilon,
        alpha=config.alpha,
        k=config.k,
        pool=config.multiplier * config.k,
        q_init=FRESH,
    )
    if stage == "refine":
        made.origin = work.best
        if config.select == "value":
            every = replace(policy, k=1, pool=len(work.starts))  # all have the same key: none is nearer
            found = session.memory.recall(
                work.key,
                stage=stage,
                policy=every,
                kinds=["start"],
                filter={"kernel": work.name},
                seed=seed_tree(config.seed, "start", number),
            )
            made.origin = found[0].id
            made.recalls.append((found, (made.origin,)))
        made.start = work.starts[made.origin]
    if config.select != "none":
        if config.select != "value":
            policy = preset("rag" if config.select == "similar" else "random", k=config.k, pool=policy.pool)
        found = session.memory.recall(
            work.key,
            stage=stage,
            policy=policy,
            kinds=KINDS[stage],
            seed=seed_tree(config.seed, "recall", number),
            filter={"kernel": {"in": session.others[work.name]}},
        )
        left = config.chars
        for item in found:
            if len(item.body) <= left:
                made.shown.append(item)
                left -= len(item.body)
        ids = tuple(item.id for item in made.shown)
        session.memory.shown(found, ids)
        made.recalls.append((found, ids))
    return made


def _attempt(
    config: Config, session: Session, work: Work, context: Context, number: int
) -> tuple[Episode | EnvError, dict[str, Any]]:
    """Write a program and judge it; the episode, or why the world broke, and the line of the log as far as known."""
    env, start = session.env, context.start
    text = env.asked(work.name, "" if start is None else start.source)
    if config.refine and start is None and work.failed:
        text += f"\nThe last try failed: {work.failed}"
    if start is not None and start.tried:
        text += "\nTried before: " + "; ".join(start.tried[-2:])
    for item in context.shown:
        text += f"\n{env.advice(item.kind, item.key, item.body)}"
    text += f"\n{env.advice('practice', '', config.lesson)}" if config.lesson else ""
    seed = seed_tree(config.seed, "attempt", number)
    settings = AttemptSettings(Text(), budget=Budget(answer=config.tokens))
    player = play(
        env,
        Task(f"{work.name}#{number}", text, work.name),
        settings,
        seed=seed,
        group=work.name,
        world=seed,
        experience=context,
    )
    started = time.perf_counter()
    session.ask.reset()
    try:
        (ended,) = run_players([player], session.ask)
    except EnvError as broke:  # what answers may be a world of its own
        ended = broke
    best = work.starts[work.best].ratio if work.starts else None
    if isinstance(ended, EnvError):
        error = one_line(shorten_home(str(ended)))
        info: dict[str, Any] = {"gate": "harness", "words": error, "ratio": 0.0, "action": "", "valid": False}
    else:
        assert context.last is not None
        info = dict(context.last.info) | {"valid": context.last.valid}
    if (known := work.known(info["action"])) and info["gate"] == "":  # a copy is as fast as it was: clocks differ
        info |= {"ratio": known.ratio, "low": known.low, "high": known.high, "action": known.source}
    return ended, {
        "step": number + 1,
        "phase": context.stage,
        "kernel": work.name,
        "attempt": work.attempts + 1,
        "gate": info["gate"],
        "words": info["words"],
        "ratio": info["ratio"],
        "low": info.get("low"),
        "high": info.get("high"),
        "us": info.get("us"),
        "valid": int(info["valid"]),
        "best_before": best,
        "start": None if start is None else start.step,
        "origin": context.origin,
        "source": info["action"],
        "gain": info["ratio"] / (start.ratio if start else best or max(info["ratio"], 1.0)),
        "advice": [{"id": m.id, "kind": m.kind, "body": m.body[:300], "value": m.value} for m in context.shown],
        "tokens": (ended.n_tokens or session.ask.sampled) if isinstance(ended, Episode) else 0,
        "prompt_tokens": session.ask.prompt_tokens,
        "seconds": round(time.perf_counter() - started, 3),
        "memory": None,
        "values": {},
        **({} if info["valid"] else {"error": info["words"]}),
    }


def _broke(ended: Episode | EnvError, row: dict[str, Any]) -> EnvError | None:
    """Why nobody could judge an attempt: the world's error, or that the sandbox failed."""
    if isinstance(ended, EnvError):
        return ended
    if row["valid"]:
        return None
    return EnvError("the sandbox failed", got=row["words"], where=row["kernel"], do="see `evolvent sandbox check`")


def _credit(session: Session, work: Work, context: Context, row: dict[str, Any]) -> None:
    """The reward of the stage, and what settles the receipts."""  # CREDIT
    feasible = row["gate"] == ""
    if context.stage == "draft":
        row["reward"] = row["settled"] = draft_reward(feasible)
        return
    row["reward"] = refine_reward(feasible, 1.0 / row["best_before"], 1.0 / row["ratio"] if feasible else 1.0)
    ahead = Running(session.running.n, session.running.mean, session.running.m2)
    ahead.push(row["reward"])
    row["settled"] = min(max(ahead.norm(row["reward"]), REWARDS[0]), REWARDS[1])


def _learn(session: Session, work: Work, context: Context, row: dict[str, Any]) -> None:
    """Remember the program, and what it taught, and settle what was recalled: one transaction."""
    memory, valid = session.memory, bool(row["valid"])
    parents = [*([context.origin] if context.origin else []), *(item.id for item in context.shown)]
    about: dict[str, Any] = {"kernel": work.name, "stage": context.stage, "step": row["step"]}

    def remember(kind: str, body: str, **more: Any) -> str:
        return memory.remember(work.key, body, kind=kind, parents=parents, metadata=about, source="tests", **more)

    better = row["gain"] >= GAIN
    if valid and row["gate"] == "":
        if work.known(row["source"]) is None:
            worth = 0.0 if context.stage == "draft" else max(-1.0, min(1.0, row["settled"]))
            row["memory"] = remember("start", row["source"], polarity="success", value=worth, merge=None)
            if better or not work.starts:
                remember("trace", row["source"], polarity="success")
            if better and context.start and (lesson := lesson_of(context.start.source, row["source"])):
                remember("practice", lesson, polarity="success")
    elif valid and row["gate"] != "text":
        row["memory"] = remember("failure", f"{row['gate']}: {row['words']}", polarity="failure", value=_FAILURE)
    for recall, ids in context.recalls:
        changes = memory.settle(
            recall, row["settled"] if valid else None, source="tests", valid=valid, action=row["source"] or None
        )
        row["values"] |= {change.id: round(change.q_after, 4) for change in changes if change.id in ids}


def _advance(session: Session, work: Work, row: dict[str, Any]) -> None:
    """What an attempt changes of the state: the same from a row of the log, where a run goes on."""
    work.attempts += 1
    work.broken = 0 if row["valid"] else work.broken + 1
    if not row["valid"]:
        return
    work.judged = True
    if row["phase"] == "refine":
        session.running.push(row["reward"])
        start = next(one for one in work.starts.values() if one.step == row["start"])
        start.tried.append(outcome(row, start.ratio))
    if row["gate"] == "":
        if row["memory"] is not None:
            work.starts[row["memory"]] = Start(row["source"], row["ratio"], row["low"], row["high"], row["step"])
    elif row["phase"] == "draft":
        work.failed = row["words"]
