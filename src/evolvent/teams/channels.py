"""What the answers of a team have in common, and what that lets a vote gain: from answers alone, without running it.

    K*           effective channels of the embedded answers (``formulas.diversity``), the mean over questions
    vote         plurality, ties by lot: two agents score exactly the mean of the two
    pooled       the answer with the largest sum of log-probabilities over the team, where agents have one for every
                 answer; with that of their own answer alone, the answer with the largest sum of probabilities
    either       some member is right: what a perfect judge of the members' answers would score

Teams are chosen on one half of the questions and judged on the other, beside the best single agent of the first half.
None of this says what an agent is worth: without it the others would have done something else (``evolvent.worth``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Embedder
from evolvent.formulas import diversity
from evolvent.formulas.statistics import paired_bootstrap, paired_rates_interval, student_interval, wilson
from evolvent.teams.table import Answers

Rule = Callable[[Answers, Sequence[int]], np.ndarray]
MOST = 2000  # teams of one size; of more so many are drawn
FEWEST = 20  # questions from which a team is chosen on one half and judged on the other


# ------------------------------------------------------------------------------------------------ aggregation
def vote(answers: Answers, members: Sequence[int]) -> np.ndarray:
    """The chance that a plurality of ``members`` is right, ``[Q]``."""
    at = list(members)
    return diversity.vote(answers.answer_QA[:, at], answers.right_QA[:, at])


def pooled(answers: Answers, members: Sequence[int]) -> np.ndarray:
    """The chance that the answer with the largest sum of scores of ``members`` is right, ties by lot, ``[Q]``.

    Answers for which a member has no log-probability cannot win.
    """
    if answers.score_QAN is None:
        raise BadInput("no log-probabilities", expected="Answers.score_QAN", where="teams.channels.pooled")
    sum_QN = answers.score_QAN[:, list(members)].sum(1)
    sum_QN = np.where(np.isnan(sum_QN), -np.inf, sum_QN)
    top_Q1 = sum_QN.max(1, keepdims=True)
    won_QN = (sum_QN >= top_Q1 - 1e-12) & np.isfinite(top_Q1)
    return (won_QN * answers.right_QN).sum(1) / np.maximum(won_QN.sum(1), 1)


def either(answers: Answers, members: Sequence[int]) -> np.ndarray:
    """1 where some member is right, ``[Q]``."""
    return answers.right_QA[:, list(members)].max(1)


def rules(answers: Answers) -> dict[str, Rule]:
    """The ways in which these answers can be put together, by name."""
    return {"vote": vote} | ({} if answers.score_QAN is None else {"pooled": pooled})


def subsets(agents: int, size: int, seed: int = 0) -> list[tuple[int, ...]]:
    """All teams of one size where there are at most ``MOST``, else so many that are drawn."""
    if math.comb(agents, size) <= MOST:
        return list(combinations(range(agents), size))
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(agents, size, replace=False).tolist()) for _ in range(MOST)]


# ------------------------------------------------------------------------------------------------ measures
def measure(answers: Answers, embedder: Embedder | None = None, seed: int = 0) -> dict[str, Any]:
    """Everything that is known of a team's answers, as JSON values; K* of texts where there is an embedder.

    Shares are 0 to 1. ``score`` is ``[value, low, high]``, ``gain`` the same over the best single agent, paired; both
    over questions, 95 %.

    Raises:
        BadInput: one agent alone.
    """
    if len(answers.agents) < 2:
        where = "teams.channels.measure"
        raise BadInput("one agent alone", got=list(answers.agents), expected="two agents or more", where=where)
    agents, right_QA, everyone = answers.agents, answers.right_QA, range(len(answers.agents))
    best = int(right_QA.mean(0).argmax())
    arms = {"single greedy": right_QA[:, agents.index(answers.greedy)]} if answers.greedy else {}
    arms |= {(alone := f"best single ({agents[best]})"): right_QA[:, best], "mean of members": right_QA.mean(1)}
    arms |= {f"all {len(agents)}, {name}": rule(answers, everyone) for name, rule in rules(answers).items()}
    arms["any is right"] = either(answers, everyone)
    same_QAA = answers.answer_QA[:, :, None] == answers.answer_QA[:, None, :]
    tokens = answers.tokens_A / len(right_QA)
    return {
        "questions": len(right_QA),
        "left_out": answers.left_out,
        "ever_agree": bool(same_QAA[:, ~np.eye(len(agents), dtype=bool)].any()),
        "agents": [
            {"name": name, "score": score(right_QA[:, a]), "tokens": float(tokens[a]) if tokens[a] >= 0 else None}
            for a, name in enumerate(agents)
        ],
        "arms": [
            {"name": n, "score": score(x), "gain": None if n == alone else gain(x, right_QA[:, best])}
            for n, x in arms.items()
        ],
        "by_number": [_of_size(answers, size, seed) for size in range(1, len(agents) + 1)],
        "error_correlation": _correlation(answers),
        "k_star": {
            "answers": _spread(
                [diversity.k_star(np.eye(answers.right_QN.shape[1] + 1)[row]) for row in answers.answer_QA]
            ),
            **({} if embedder is None else embedded(answers, embedder)),
        },
        "teams": chosen(answers, seed) if len(right_QA) >= FEWEST else [],
    }


def embedded(answers: Answers, embedder: Embedder) -> dict[str, Any]:
    """K* of the texts, means over questions: all, those right, those wrong, what each adds. K* of unrelated texts."""
    from evolvent.memory.embedders import UNRELATED

    flat = list(dict.fromkeys(text or " " for row in answers.text_QA for text in row))
    place, vec_ND = {text: i for i, text in enumerate(flat)}, embedder.embed(flat)
    vec_QAD = [vec_ND[[place[text or " "] for text in row]] for row in answers.text_QA]
    labels = [diversity.k_star_by_label(v, list(r)) for v, r in zip(vec_QAD, answers.right_QA > 0, strict=True)]
    return {
        "embedder": embedder.id,
        "texts": _spread([diversity.k_star(vec_AD) for vec_AD in vec_QAD]),
        "unrelated": diversity.k_star(embedder.embed(UNRELATED[: len(answers.agents)])),
        **{of: _mean([one[of] for one in labels]) for of in ("right", "wrong")},
        "adds": dict(zip(answers.agents, np.mean([diversity.k_star_without(v) for v in vec_QAD], axis=0), strict=True)),
    }


def chosen(answers: Answers, seed: int = 0) -> list[dict[str, Any]]:
    """The best two and the best three by each rule: chosen on one half of the questions, judged on the other.

    ``gain`` is over the agent that was best alone on the first half.
    """
    order, size = np.random.default_rng(seed).permutation(len(answers.answer_QA)), len(answers.answer_QA) // 2
    first, second, right_QA, out = order[:size], order[size:], answers.right_QA, list[dict[str, Any]]()
    single = int(right_QA[first].mean(0).argmax())
    for n in range(2, min(3, len(answers.agents)) + 1):
        for name, rule in rules(answers).items():
            outcomes = [(team, rule(answers, team)) for team in subsets(len(answers.agents), n, seed)]
            team, outcome = max(outcomes, key=lambda one: one[1][first].mean())
            out.append(
                {
                    "members": [answers.agents[i] for i in team],
                    "rule": name,
                    "score": score(outcome[second]),
                    "either": score(either(answers, team)[second]),
                    "single": answers.agents[single],
                    "single_score": score(right_QA[second, single]),
                    "gain": gain(outcome[second], right_QA[second, single]),
                    "questions": [len(first), len(second)],
                }
            )
    return out


def score(outcome_Q: np.ndarray) -> list[float]:
    """``[share, low, high]`` over questions: Wilson's interval of outcomes 0 and 1, else Student's."""
    if np.isin(outcome_Q, (0, 1)).all():
        return [float(outcome_Q.mean()), *wilson(float(outcome_Q.sum()), len(outcome_Q))]
    value, *ends = _spread(outcome_Q)
    return [value, *(min(max(end, 0.0), 1.0) for end in ends)]


def gain(outcome_Q: np.ndarray, other_Q: np.ndarray) -> list[float]:
    """``[mean difference, low, high]``, paired over questions."""
    sharp = np.isin(outcome_Q, (0, 1)).all() and np.isin(other_Q, (0, 1)).all()
    return list((paired_rates_interval if sharp else paired_bootstrap)(outcome_Q, other_Q))


def _spread(values: Sequence[float] | np.ndarray) -> list[float]:
    return [float(np.mean(values)), *student_interval(values)]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else None


def _of_size(answers: Answers, size: int, seed: int) -> dict[str, Any]:
    teams = subsets(len(answers.agents), size, seed)
    ways = {**rules(answers), "any is right": either}
    means = {name: np.mean([rule(answers, team) for team in teams], axis=0) for name, rule in ways.items()}
    return {"agents": size, "teams": len(teams), **{name: score(outcome_Q) for name, outcome_Q in means.items()}}


def _correlation(answers: Answers) -> dict[str, Any]:
    corr_AA, n = diversity.error_correlation(answers.right_QA), len(answers.agents)
    pairs = [([answers.agents[i], answers.agents[j]], float(corr_AA[i, j])) for i, j in combinations(range(n), 2)]
    mean = _mean([value for _, value in pairs])
    size = None if mean is None else min(float(n), diversity.effective_size(n, max(mean, 0.0)))
    return {"mean": mean, "effective_size": size, "pairs": [{"agents": who, "value": value} for who, value in pairs]}
