"""Sampling and scoring inside a list of allowed actions: the tokens that continue some choice, node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput

WAYS = ("word", "token", "sum")


class Choices:
    """The prefix tree of some token sequences.

    Nodes are numbers; 0 is the beginning. ``allowed[i]`` are the tokens that may follow node ``i``, ascending: int64;
    none where a choice is complete.
    """

    def __init__(self, choices: Sequence[np.ndarray]) -> None:
        self._next: list[dict[int, int]] = [{}]
        ends = set[int]()
        for choice in choices:
            node = 0
            for token in np.asarray(choice).tolist():
                child = self._next[node].get(token)
                if child is None:
                    child = self._next[node][token] = len(self._next)
                    self._next.append({})
                node = child
            ends.add(node)
        self.ambiguous = any(self._next[node] for node in ends)
        self.allowed = [np.array(sorted(after), np.int64) for after in self._next]

    def is_open(self, node: int) -> bool:
        """Whether more than one token may follow, so that there is something to decide."""
        return len(self.allowed[node]) > 1

    def after(self, node: int, token: int) -> int:
        """The node that ``token`` leads to; -1 where it is not allowed."""
        return self._next[node].get(token, -1)

    def forced(self, node: int) -> list[int] | None:
        """The tokens that must follow up to the end of the choice; ``None`` where something is still to decide."""
        ahead = list[int]()
        while len(self.allowed[node]) == 1:
            token = int(self.allowed[node][0])
            ahead.append(token)
            node = self._next[node][token]
        return None if len(self.allowed[node]) else ahead

    def path(self, tokens: np.ndarray) -> list[int]:
        """The nodes before each token.

        Raises:
            BadInput: the tokens are not those of a choice, nor its beginning.
        """
        node, nodes = 0, list[int]()
        for token in tokens.tolist():
            nodes.append(node)
            node = self.after(node, token)
            if node < 0:
                raise BadInput(
                    "the tokens are not one of the choices",
                    got=tokens.tolist(),
                    where="Row(choices=…)",
                    expected="one of them, token by token",
                )
        return nodes


def check_allowed(allowed: Sequence[Sequence[np.ndarray] | None] | None, n_prompts: int) -> list[Choices | None]:
    """The trees of the choices of each prompt.

    Raises:
        BadInput: not one list for each prompt, an empty list or choice, or one choice that begins another.
    """
    if allowed is None:
        return [None] * n_prompts
    if len(allowed) != n_prompts:
        raise BadInput("choices for each prompt", got=len(allowed), expected=n_prompts, where="sample(allowed=…)")
    known: dict[int, Choices] = {}
    trees: list[Choices | None] = []
    for choices in allowed:
        if choices is None:
            trees.append(None)
            continue
        if not len(choices) or any(not len(choice) for choice in choices):
            raise BadInput(
                "no choices, or an empty one", got=len(choices), expected="tokens", where="sample(allowed=…)"
            )
        if id(choices) not in known:
            known[id(choices)] = Choices(choices)
        tree = known[id(choices)]
        if tree.ambiguous:
            raise BadInput(
                "one choice begins another, so sampling could not know where to end",
                where="sample(allowed=…)",
                do="end every choice with the same token, such as a line break",
            )
        trees.append(tree)
    return trees


def action_log_probs(logp_sum: Tensor, units: Tensor) -> Tensor:
    """Log-probabilities of actions from the summed log-probabilities of their tokens, ``[N]`` to ``[N]``.

    ``units`` is what sums are divided by: the number of words or tokens, or ones. TWOSOME (Tan et al. 2024,
    arXiv:2401.14151), equations 2 to 4: softmax over actions of the (normalised) log-likelihood of their text.
    """
    return torch.log_softmax(logp_sum / units, dim=-1)


def units_of(texts: Sequence[str], lengths: Sequence[int], normalise: str) -> list[int]:
    """What each action's sum is divided by: its words (white space separates them), its tokens, or 1.

    Raises:
        BadInput: no such normalisation.
    """
    if normalise not in WAYS:
        raise BadInput("no such normalisation", got=normalise, expected=", ".join(WAYS), where="choice_logprobs")
    if normalise == "word":
        return [max(1, len(text.split())) for text in texts]
    return [max(1, n) if normalise == "token" else 1 for n in lengths]
