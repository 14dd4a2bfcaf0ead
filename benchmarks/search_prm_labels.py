"""What judges steps: models of step labels, and the probability of a line by a network that learned more worked sums.

    WARM="--env chain:steps=4,digits=1 --scratch --batch 64"
    python benchmarks/search_warm.py runs/search_policy $WARM --examples 20480
    python benchmarks/search_warm.py runs/search_policy $WARM --examples 2560 --seed 1     # the policy
    cp -r runs/search_policy runs/search_judge; cp -r runs/search_policy runs/search_more
    python benchmarks/search_warm.py runs/search_judge $WARM --examples 15360 --seed 2     # knows all sums
    python benchmarks/search_warm.py runs/search_more $WARM --examples 1280 --seed 2
    python benchmarks/search_prm_labels.py             # minutes; rows that are there are not run again

Sums of five one-digit numbers, .3M parameters. Labels: of every question the lines of the right chain, of each of them
two with another result, and three chains that the policy wrote, up to their first wrong line, as the world's checker
says. All weights of ``search_judge`` learn, with a linear head behind a line's last token; right and wrong weigh the
same in all. The other judge has seen no label: of every line its probability by a network, the least counts. What
ranks (AUC above .85 on chains of the policy) is searched with, at the tokens of 16 answers.
"""

import argparse
import os
import random
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import team_grid
import torch
import torch.nn.functional as F

from evolvent import envs
from evolvent.algos import search
from evolvent.core.config import with_fields
from evolvent.core.machine import provenance
from evolvent.envs.text import chain
from evolvent.formulas.statistics import auc
from evolvent.learn.critics.search_value import context_of
from evolvent.models.language import model as language
from evolvent.models.language.acting import Acting
from evolvent.play.renderers import Plain
from evolvent.runs.language.searching import line_ends
from evolvent.runs.search.outcome import chosen
from evolvent.runs.search.run import Backend, searched

RESULT, COMMAND = Path(__file__).parent / "results" / "search_prm_labels.json", "python benchmarks/search_prm_labels.py"
ENV, LINES, SEEDS = "chain:steps=4,digits=1", 4, (0, 1, 2)
LABELS = ((2_900, 450), (40_000, 450), (40_000, 1_800))
"""Labels and updates of the models that learn from them."""
QUESTIONS, LR, CHANGED, WROTE, TESTED, WORKS = 16, 1e-3, 2, 3, 300, 0.85
ANSWER, BUDGET, TASKS = 28, 16, 64
COUNTED = ("right", "oracle", "tokens", "ranked", "pairs")
WAYS = {
    "best_of_n": ("majority", "last_max", "last_vote", "min_max", "min_vote"),
    "beam": ("last_max",),
    "mcts_rollout": ("last_max",),
}
"""Searches, and how one answer is chosen of what they found; the samples of the first are chosen among in five ways."""


class Prm:
    """All weights of a network and a linear head: the chance that every line up to here is right."""

    def __init__(self, folder, seed):
        self.model = language.load(folder, lora_rank=0, dtype="float32", seed=seed)
        torch.manual_seed(seed)
        self.head = torch.nn.Linear(self.model.width, 1)

    def logits(self, contexts):
        rows = [language.Row(ids, np.zeros(1, np.int32)) for ids in contexts]
        return self.head(self.model.states(rows, adapter="policy"))[:, 0]

    @torch.no_grad()
    def judge(self, contexts):
        """float64 ``[N]`` in 0..1."""
        parts = [contexts[i : i + 128] for i in range(0, len(contexts), 128)]
        return np.concatenate([self.logits(part).sigmoid().double().numpy() for part in parts])

    def __call__(self, states):
        return self.judge([context_of(state) for state in states])

    def fit(self, questions, updates, seed):
        """Learn from questions, each its labelled contexts; equal weight for right and wrong."""
        parameters = [*self.model.trainable(), *self.head.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=LR, weight_decay=0.01)
        draw, order = random.Random(seed), list[int]()
        right = np.mean([label for rows in questions for _, label in rows])
        for step in range(updates):
            if len(order) < QUESTIONS:
                order += draw.sample(range(len(questions)), len(questions))
            rows, order = [row for i in order[:QUESTIONS] for row in questions[i]], order[QUESTIONS:]
            z = torch.tensor([label for _, label in rows], dtype=torch.float32)
            weight = torch.where(z > 0, 0.5 / right, 0.5 / (1.0 - right))
            for group in optimizer.param_groups:
                group["lr"] = LR * min(1.0, (step + 1) / 20, 5.0 * (1.0 - step / updates))
            loss = F.binary_cross_entropy_with_logits(self.logits([ids for ids, _ in rows]), z, weight=weight)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()


class Probability:
    """Of every line its probability by a network, given what stands before; the least of all lines up to here."""

    def __init__(self, folder):
        self.model = language.load(folder, lora_rank=0, dtype="float32")
        self.head = len(self.model.encode("Steps:"))

    @torch.no_grad()
    def judge(self, contexts):
        """float64 ``[N]`` in 0..1."""
        starts = [line_ends(ids, self.model.decode)[0] + self.head for ids in contexts]
        rows = [language.Row(ids[:start], ids[start:]) for ids, start in zip(contexts, starts, strict=True)]
        logp = np.split(self.model.logprobs(rows).logp_K.numpy(), np.cumsum([len(row.tokens) for row in rows])[:-1])
        ends = [line_ends(row.tokens, self.model.decode) for row in rows]
        lines = [[part.sum() for part in np.split(one, end[:-1])] for one, end in zip(logp, ends, strict=True)]
        return np.exp([min(one) for one in lines]).astype(np.float64)

    def __call__(self, states):
        return self.judge([context_of(state) for state in states])


def least(prm, decode):
    """The least of what ``prm`` says of all lines up to here: behind a wrong line it has learned nothing."""

    def value(states):
        contexts = [context_of(state) for state in states]
        ends = [line_ends(ids, decode)[1:] for ids in contexts]  # the first line is the question
        said = prm.judge([ids[:end] for ids, mine in zip(contexts, ends, strict=True) for end in mine])
        return np.array([part.min() for part in np.split(said, np.cumsum([len(mine) for mine in ends])[:-1])])

    return value


def wrote(policy, renderer, env, tasks, n, seed):
    """Of each task ``n`` chains with four lines: contexts behind lines, lines that are right before a wrong one."""
    prompts = [np.asarray(renderer.first(env, env.reset(task))) for task in tasks]
    seeds = range(seed << 20, (seed << 20) + n * len(tasks))
    said = policy.sample(prompts, seeds=seeds, n=n, max_tokens=env.max_tokens, stop=env.stop)
    out = []
    for i, task in enumerate(tasks):
        mine = []
        for one in said[i * n : (i + 1) * n]:
            lines, ends = policy.decode(one.token_ids).split(), line_ends(one.token_ids, policy.decode)
            if len(lines) == len(ends) == LINES:
                contexts = [np.concatenate([prompts[i], one.token_ids[:end]]) for end in ends]
                mine.append((contexts, chain.first_wrong(task.text, lines), one))
        out.append(mine)
    return out


def changed(policy, renderer, env, task, draw):
    """Labelled contexts of the right chain, and of each line with two other results."""
    prompt, lines, rows = np.asarray(renderer.first(env, env.reset(task))), chain.worked(task.text).split(), []
    for number, line in enumerate(lines):
        asked, _, result = line.partition("=")
        others = [f"{asked}={(int(result) + k) % 10}" for k in draw.sample(range(1, 10), CHANGED)]
        for text in (line, *others):
            ids = np.asarray(renderer.command("\n".join([*lines[:number], text, *lines[number + 1 :]]) + env.stop[0]))
            rows.append((np.concatenate([prompt, ids[: line_ends(ids, policy.decode)[number]]]), float(text == line)))
    return rows


def labelled(policy, renderer, env, n, seed):
    """Questions with labelled contexts, equal ones once, until there are ``n`` labels."""
    tasks, draw = env.tasks("train", n // 12, seed), random.Random(seed)
    out, count = [], 0
    for start in range(0, len(tasks), 200):
        some = tasks[start : start + 200]
        for task, chains in zip(some, wrote(policy, renderer, env, some, WROTE, seed), strict=True):
            rows = changed(policy, renderer, env, task, draw)
            for contexts, fine, _ in chains:
                rows += [(ids, float(i < fine)) for i, ids in enumerate(contexts[: fine + 1])]
            out.append([*{ids.tobytes(): (ids, label) for ids, label in rows}.values()])
            count += len(out[-1])
            if count >= n:
                return out
    return out


def tested(prm, chains, policy_logp):
    """How well steps are classified on chains of the policy, up to the first wrong one, and whether that is found."""
    scores = prm.judge([ids for contexts, _, _ in chains for ids in contexts]).reshape(-1, LINES)
    fine = np.array([right for _, right, _ in chains])
    return {
        "prm": _measures(scores, fine, 0.5),
        "likelihood": _measures(policy_logp, fine, None),
        "chains": len(chains),
    }


def _measures(scores_BT, fine, threshold):
    """AUC of steps; first-error accuracy on wrong chains, and on right ones that none is called wrong; their F1."""
    seen = np.arange(LINES)[None] <= fine[:, None]
    right = np.arange(LINES)[None] < fine[:, None]
    ranked = float(auc(scores_BT[seen], right[seen]))

    def accuracies(limit):
        called = np.where((scores_BT < limit).any(1), (scores_BT < limit).argmax(1), LINES)
        wrong, sound = (float(np.mean(called[some] == fine[some])) for some in (fine < LINES, fine == LINES))
        return {"first_error": wrong, "none_in_right": sound, "f1": 2 * wrong * sound / max(wrong + sound, 1e-9)}

    if threshold is None:  # the best of all for this score: more than it could know
        return {"auc": ranked} | max(
            (accuracies(x) for x in np.quantile(scores_BT, np.linspace(0, 1, 41))), key=lambda measures: measures["f1"]
        )
    return {"auc": ranked} | accuracies(threshold)


def decoded(policy, prm, renderer, seed):
    """Right answers of each search and way to choose, of ``TASKS``, at the tokens of 16 answers."""
    worlds, out = [envs.load(ENV) for _ in range(32)], {}
    tasks = worlds[0].tasks("heldout", TASKS, seed)
    engines = lambda temperature: Acting(policy, "sum", temperature)  # noqa: E731
    backend = Backend("policy", engines, renderer, policy.decode, worlds, prm, keeping=policy.keeping)
    config = with_fields(
        search.Config(),
        env=ENV,
        tasks=TASKS,
        batch=32,
        budget_tokens=ANSWER * BUDGET,
        longest=12,
        widths=(16, 4),
        keep=(4,),
        seed=seed,
    )
    for name, ways in ({"greedy": ("last_max",)} | WAYS).items():
        for start in range(0, TASKS, 32):
            found, space = searched(name, tasks[start : start + 32], config, backend)
            for task in range(32):
                for how in ways:
                    one = chosen(found, space, task, how)
                    facts = out.setdefault(f"{name}/{how}", dict.fromkeys(COUNTED, 0))
                    right, tokens = bool(one.episode and one.episode.success), int(found.meter.tokens[task])
                    for what, more in zip(COUNTED, (right, one.right_somewhere, tokens, *one.pairs), strict=True):
                        facts[what] += more
    return out


def cell(policy, judge, n, updates, seed):
    """One row: a judge of steps (learned from ``n`` labels, or none), what it knows, what it is worth to a search."""
    env, renderer, began = envs.load(ENV), Plain(policy), time.process_time()
    row = {}
    if n:
        questions = labelled(policy, renderer, env, n, seed)
        prm = Prm(judge, seed)
        prm.fit(questions, updates, seed)
        row = {
            "labels": sum(map(len, questions)),
            "questions": len(questions),
            "right": float(np.mean([z for rows in questions for _, z in rows])),
        }
    else:
        prm = Probability(judge)
    test = [one for mine in wrote(policy, renderer, env, env.tasks("heldout", TESTED, seed), 1, seed) for one in mine]
    logp = np.array(
        [
            [float(part.mean()) for part in np.split(one.logp, line_ends(one.token_ids, policy.decode)[:-1])]
            for _, _, one in test
        ]
    )
    draw = random.Random(seed)
    others = [row for task in env.tasks("heldout", 100, seed) for row in changed(policy, renderer, env, task, draw)]
    row["auc_changed"] = float(auc(prm.judge([ids for ids, _ in others]), np.array([label > 0 for _, label in others])))
    row |= tested(prm, test, logp)
    if row["prm"]["auc"] > WORKS:
        row["searches"] = decoded(policy, prm, renderer, seed)
        if n:
            row["searches_least"] = decoded(policy, least(prm, policy.decode), renderer, seed)
    return row | {"cpu_s": round(time.process_time() - began, 1)}


def main():
    """Run the missing cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="runs", help="where search_policy, search_judge and search_more are")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=RESULT)
    a = parser.parse_args()
    torch.set_num_threads(1)
    policy = language.load(f"{a.runs}/search_policy", lora_rank=0, dtype="float32")
    cells = [("search_more", 0, 0), ("search_judge", 0, 0), *(("search_judge", *one) for one in LABELS)]
    begun = provenance()
    for seed in a.seeds:
        for judge, n, updates in cells:
            key = {"judge": judge, "asked": n, "seed": seed} | ({"updates": updates} if n else {})
            if not any(key.items() <= row.items() for row in team_grid.rows(a.out)):
                facts = {**key, "command": COMMAND, "tasks": TASKS, "budget": BUDGET}
                team_grid.add(a.out, {**facts, **cell(policy, f"{a.runs}/{judge}", n, updates, seed), **begun})


if __name__ == "__main__":
    main()
