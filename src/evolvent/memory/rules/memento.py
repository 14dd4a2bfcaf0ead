"""Memento: cases by similarity, or by a learned estimate of whether a case helps this question.

Paper: Zhou et al. 2025, Memento (arXiv 2508.16153). A case is a question, an answer and what came of it. Read is the
top k; with ``learn`` by

    kernel        Q(s, c) = sum_i k(s, s_i) r_i / sum_i k(s, s_i)      k = exp((cos - 1) / width), over past uses of c
    classifier    Q(s, c) = P(success | s, c), cross-entropy with r

over settled receipts: question s, case c that was shown, outcome r (scaled to [0, 1]). A quarter of the *questions* is
held out, with all their cases. Until an estimate predicts these better than the cosine does (cross-entropy, mean over
questions; both fitted on the others), cases come by cosine, as with ``learn="no"``. It is fitted anew every ``every``
uses. ``rank`` is pure: the same store gives the same model.

Deviations: the classifier is logistic in the cosine, whether the case is a success, and the product of both embeddings,
number by number; the released one is a pair of encoders whose vectors are joined, right and wrong weighted by their
numbers. The paper prints the soft value without a division; with one step an attempt nothing is bootstrapped, so none
is needed here (``formulas/cases.py`` has the consistent form). The outcome is that of all cases shown together, as in
the released code. Values are kept as in MemRL, for reports: they rank nothing.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.formulas.cases import cross_entropy, fit_logistic, kernel_value, logistic
from evolvent.memory.ledger import Known, ledger_of
from evolvent.memory.rule import Candidates, Pairs, Policy, Ranking, within
from evolvent.memory.rules import memrl

LEVEL = "memory"
UNBIASED = None
PAIRS = True
HELD_OUT = 4
"""One question in so many is held out."""
LEAST = 6
"""Questions that must be held out, and uses to learn from for each number of the simplest model."""
credit = memrl.credit


@dataclass(frozen=True)
class Config(Policy):
    """Settings of Memento's case memory."""

    name: str = "memento"
    k: int = 4
    pool: int = 32
    gate: float | None = -1.0
    alpha: float = memrl.Config.alpha
    """Learning rate of the values that reports show."""
    learn: Literal["no", "kernel", "classifier"] = "no"
    """What ranks beside the cosine: nothing (non-parametric), past uses of each case, or a model (parametric)."""
    every: int = 16
    """Uses between two fits."""
    ridge: float = 1.0
    """Shrinkage of the classifier's weights."""
    width: float = 0.2
    """Width of the kernel over questions, in cosine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0.0, 1.0, "alpha")
        within(self, 0.0, np.inf, "ridge", "width", "every", inside=True)
        if self.learn not in ("no", "kernel", "classifier"):
            expected = "no, kernel or classifier"
            raise BadInput(
                "unknown estimate", got=self.learn, expected=expected, where="policy 'memento'", code="bad_policy"
            )


def rank(config: Config, pool: Candidates) -> Ranking:
    """By cosine; by the estimate once it predicts held-out questions better. Ties: the more similar first."""
    pairs = pool.pairs
    if config.learn == "no" or pairs is None or not len(pool.ids):
        return Ranking(pool.relevance)
    used = pairs.first(len(pairs.reward_P) // config.every * config.every)
    if not better(config, used):
        return Ranking(pool.relevance)
    q_N = _estimate(config, used, used.now())
    order = np.lexsort((-pool.relevance, -q_N))
    return Ranking(q_N, value=q_N, best=order[: pool.k].tolist())


def better(config: Config, pairs: Pairs) -> bool:
    """Whether the estimate predicts the outcomes of held-out questions better than the cosine does."""
    held_P = np.array([zlib.crc32(str(q).encode()) % HELD_OUT == 0 for q in pairs.question_P], bool)
    questions = np.array(pairs.question_P)[held_P]
    if len(set(questions)) < LEAST or (~held_P).sum() < 3 * LEAST:
        return False
    learn, test = pairs.rows(~held_P), pairs.rows(held_P)
    if len(set(learn.reward_P.tolist())) < 2:
        return False
    by_cosine = logistic(_cosine(test), _cosine_model(learn, config.ridge))
    losses = [cross_entropy(p, test.reward_P) for p in (_estimate(config, learn, test), by_cosine)]
    by_question = [np.mean([loss[questions == q].mean() for q in sorted(set(questions))]) for loss in losses]
    return bool(by_question[0] < by_question[1])


def _estimate(config: Config, learn: Pairs, asked: Pairs) -> np.ndarray:
    """Q of each asked pair ``[P]``, from what was learned of others."""
    if config.learn == "classifier":
        return logistic(_features(asked), _model(_Frozen(learn), config.ridge))
    base = float(learn.reward_P.mean())
    near_PP = np.exp((asked.query_PD @ learn.query_PD.T - 1.0) / config.width)
    estimate_P = np.empty(len(asked.case_P))
    for i, case in enumerate(asked.case_P):
        same = np.array([one == case for one in learn.case_P], bool)
        # one use at full nearness by the mean of all: a case that was tried once is not believed at once
        estimate_P[i] = kernel_value(np.append(near_PP[i, same], 1.0), np.append(learn.reward_P[same], base))
    return estimate_P


def _cosine(pairs: Pairs) -> np.ndarray:
    return np.einsum("pd,pd->p", pairs.query_PD, pairs.key_PD, dtype=np.float64)[:, None]


def _features(pairs: Pairs) -> np.ndarray:
    product = pairs.query_PD.astype(np.float64) * pairs.key_PD
    return np.column_stack([_cosine(pairs), pairs.success_P, product * np.sqrt(product.shape[1])])


def _cosine_model(pairs: Pairs, ridge: float) -> np.ndarray:
    return fit_logistic(_cosine(pairs), pairs.reward_P, ridge)


class _Frozen:
    """Pairs that compare by their content, so that one model is fitted once."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        parts = (pairs.query_PD, pairs.key_PD, pairs.success_P, pairs.reward_P)
        self._digest = hashlib.blake2b(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and other._digest == self._digest


@lru_cache(maxsize=8)
def _model(of: _Frozen, ridge: float) -> np.ndarray:
    return fit_logistic(_features(of.pairs), of.pairs.reward_P, ridge)


def assign(episodes: Sequence[Episode], config: Config = Config(), known: Known = Known()) -> Ledger:
    """Change of value of every memory shown in a valid episode, in units of reward; see ``memory/ledger.py``."""
    return ledger_of(credit, episodes, config, known)
