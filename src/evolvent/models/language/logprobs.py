"""Log-probabilities of given tokens, for training: packed, without repetition, and only where tokens are predicted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.models.language import pack as packing
from evolvent.models.language.choices import Choices
from evolvent.models.language.head import log_softmax_at, logits_at, segment_log_softmax


@dataclass(frozen=True, eq=False)
class Row:
    """A decision whose log-probabilities are computed: its context, int ``[P]``, and its tokens, int ``[K]``.

    ``choices``: token ids of every allowed action, int ``[…]`` each, including the one taken. If given, each token's
    distribution is restricted to the tokens that continue some choice.
    """

    context: np.ndarray
    tokens: np.ndarray
    choices: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, eq=False)
class Logprobs:
    """What the model says about the tokens of all rows, in their order, float32.

    Attributes:
        logp_K: natural log-probability of each token, temperature and choices included.
        entropy_K: of the distribution that each token was drawn from, nats.
        hidden_KD: the last hidden state that predicts each token, or ``None`` where it was not wanted.
        logits_KV: logits over the whole vocabulary divided by the temperature, choices not applied; or ``None``.
    """

    logp_K: Tensor
    entropy_K: Tensor
    hidden_KD: Tensor | None = None
    logits_KV: Tensor | None = None


@dataclass(frozen=True)
class Head:
    """The output layer: ``weight`` ``[V, D]`` and ``bias`` ``[V]``."""

    weight: Tensor
    bias: Tensor | None

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 ``[M, V]`` of hidden states ``[M, D]``."""
        return torch.nn.functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias).float()


Forward = Callable[[packing.Pack, np.ndarray], Tensor]
"""A packed row and places in it int64 ``[M]`` to the last hidden states there ``[M, D]``."""


def row_logprobs(
    rows: Sequence[Row], forward: Forward, head: Head, temperature: float, want: Sequence[str], max_tokens: int
) -> Logprobs:
    """See ``LanguageModel.logprobs``."""
    trees = _trees(rows)
    if "hidden" in want or "logits" in want:
        hidden = states(rows, forward, head.weight.device, max_tokens)
        offsets = np.concatenate([[0], np.cumsum([len(row.tokens) for row in rows])])
        places = [np.arange(a, b) for a, b in itertools.pairwise(offsets)]
        numbers = _Questions(rows, trees, places).answer(
            lambda at: hidden[tensor_on(at, hidden.device)], head, temperature
        )
        logits = head.logits(hidden) / temperature if "logits" in want else None
        return Logprobs(*numbers, hidden if "hidden" in want else None, logits)
    ends: list[Tensor] = []
    sequences = [_needed(row, tree) for row, tree in zip(rows, trees, strict=True)]
    groups = packing.batches(sequences, max_tokens)
    for group in groups:
        packed = packing.pack([sequences[i] for i in group])
        places = [_predicting(packed, j, rows[i]) for j, i in enumerate(group)]
        questions = _Questions([rows[i] for i in group], [trees[i] for i in group], places)
        ends.append(torch.stack(questions.answer(partial(forward, packed), head, temperature)))
    both = torch.cat([torch.zeros(2, 0, device=head.weight.device), *ends], dim=1)
    both = both[:, tensor_on(_back(rows, groups), both.device)]
    return Logprobs(both[0], both[1])


def states(rows: Sequence[Row], forward: Forward, device: torch.device, max_tokens: int) -> Tensor:
    """The last hidden states that predict the tokens of all rows, in their order: float32 ``[K, D]``."""
    sequences = [_needed(row, None) for row in rows]
    parts: list[Tensor] = []
    groups = packing.batches(sequences, max_tokens)
    for group in groups:
        packed = packing.pack([sequences[i] for i in group])
        places = np.concatenate([_predicting(packed, j, rows[i]) for j, i in enumerate(group)])
        distinct, back = np.unique(places, return_inverse=True)
        parts.append(forward(packed, distinct).float()[tensor_on(back.reshape(-1), device)])
    return torch.cat(parts)[tensor_on(_back(rows, groups), device)]


def checked_rows(rows: Sequence[Row], n_vocab: int, n_context: int) -> list[Row]:
    """Rows whose tokens are int32.

    Raises:
        BadInput: an empty context, more tokens than the model can see, or tokens that it does not have.
    """
    out: list[Row] = []
    for i, row in enumerate(rows):
        context, tokens = (checked_ids(ids, n_vocab, f"rows[{i}]") for ids in (row.context, row.tokens))
        if not len(context) or len(context) + len(tokens) > n_context:
            raise BadInput(
                "a row that does not fit into the context",
                got=f"{len(context)} + {len(tokens)} tokens",
                expected=f"a context of at least 1 token, {n_context} together",
                where=f"rows[{i}]",
            )
        out.append(Row(context, tokens, row.choices))
    return out


def checked_prompts(prompts: Sequence[np.ndarray], n_vocab: int, n_context: int, model: str) -> list[np.ndarray]:
    """Prompts as int32, each with room for a token behind it.

    Raises:
        BadInput: an empty one, one that fills the context, or tokens that the model does not have.
    """
    checked = [checked_ids(prompt, n_vocab, f"prompts[{i}]") for i, prompt in enumerate(prompts)]
    for i, prompt in enumerate(checked):
        if not 0 < len(prompt) < n_context:
            raise BadInput(
                "the prompt does not fit into the context" if len(prompt) else "the prompt is empty",
                got=f"{len(prompt)} tokens",
                expected=f"1 to {n_context - 1} tokens, so that one can follow",
                where=f"{model}, prompts[{i}]",
                do="shorten the prompt, or use a model with a longer context",
            )
    return checked


def checked_ids(ids: np.ndarray, n_vocab: int, where: str) -> np.ndarray:
    """Token ids int32 ``[K]``.

    Raises:
        BadInput: they are no token ids of this model.
    """
    array = np.asarray(ids)
    if array.ndim != 1 or (len(array) and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise BadInput("no token ids", got=array.dtype, expected="one axis of integers >= 0", where=where)
    if len(array) and array.max() >= n_vocab:
        raise BadInput("a token beyond the vocabulary", got=int(array.max()), expected=n_vocab, where=where)
    return array.astype(np.int32, copy=False)


def needed(rows: Sequence[Row]) -> list[np.ndarray]:
    """The tokens that must pass through the model for the log-probabilities of each row: int32."""
    return [_needed(row, tree) for row, tree in zip(rows, _trees(rows), strict=True)]


def _back(rows: Sequence[Row], groups: Sequence[Sequence[int]]) -> np.ndarray:
    """For each token of the rows, in order, its place among the tokens of the groups."""
    offsets = np.concatenate([[0], np.cumsum([len(row.tokens) for row in rows])])
    at = [np.arange(offsets[i], offsets[i + 1]) for group in groups for i in group]
    return np.argsort(np.concatenate([np.empty(0, np.int64), *at]), kind="stable")


def _trees(rows: Sequence[Row]) -> list[Choices | None]:
    known: dict[tuple[int, ...] | tuple[bytes, ...], Choices] = {}
    out: list[Choices | None] = []
    for row in rows:
        if not row.choices:
            out.append(None)
            continue
        key = tuple(np.asarray(c, np.int32).tobytes() for c in row.choices)
        if key not in known:
            known[key] = Choices(row.choices)
        out.append(known[key])
    return out


def _needed(row: Row, tree: Choices | None) -> np.ndarray:
    """Context and tokens without what predicts nothing: the last token, and forced tokens behind the last choice."""
    n = len(row.tokens)
    if tree is not None:
        n = max((k + 1 for k, node in enumerate(tree.path(row.tokens)) if tree.is_open(node)), default=0)
    if n == 0:
        return np.empty(0, np.int32)
    return np.concatenate([row.context, row.tokens[: n - 1]])


def _predicting(packed: packing.Pack, sequence: int, row: Row) -> np.ndarray:
    """Places whose hidden states predict the tokens of a row; as many as the packed sequence has."""
    first = len(row.context) - 1
    return packed.where(sequence, first, first + len(row.tokens))


class _Questions:
    """Which (place, token) pairs rows ask for, each once; forced tokens are known without asking.

    ``places`` int64: the place whose hidden state predicts each token, as far as it is needed.
    """

    def __init__(self, rows: Sequence[Row], trees: Sequence[Choices | None], places: Sequence[np.ndarray]) -> None:
        free: list[np.ndarray] = [np.empty((0, 2), np.int64)]
        bound: list[tuple[int, int, int, int]] = []  # (place, index of the tree, node, token)
        self.trees = list({id(tree): tree for tree in trees if tree is not None}.values())
        which = {id(tree): i for i, tree in enumerate(self.trees)}
        n_free, source = 0, list[np.ndarray]()
        for row, tree, at in zip(rows, trees, places, strict=True):
            n = len(row.tokens)
            if tree is None:
                free.append(np.stack([at, row.tokens.astype(np.int64)], axis=1))
                source.append(np.arange(1 + n_free, 1 + n_free + n))
                n_free += n
                continue
            mine = np.zeros(n, np.int64)
            for k, node in enumerate(tree.path(row.tokens)):
                if tree.is_open(node):
                    bound.append((int(at[k]), which[id(tree)], node, int(row.tokens[k])))
                    mine[k] = -len(bound)
            source.append(mine)
        self.free = np.concatenate(free)
        self.bound = np.array(bound, np.int64).reshape(-1, 4)
        # 0 is the forced token, then the free ones, then the bound ones
        order = np.concatenate([np.empty(0, np.int64), *source])
        self.source = np.where(order < 0, n_free - order, order)

    def answer(
        self, hidden_at: Callable[[np.ndarray], Tensor], head: Head, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies ``[K]`` of the tokens of the rows in order."""
        device = head.weight.device
        pairs, pair_back = np.unique(self.free, axis=0, return_inverse=True)
        nodes, node_back = np.unique(self.bound[:, :3], axis=0, return_inverse=True)
        places = np.unique(np.concatenate([pairs[:, 0], nodes[:, 0]]))
        zero = torch.zeros(1, device=device)
        logps, entropies = [zero], [zero]
        if len(places):
            hidden = hidden_at(places)
            if len(pairs):
                own, position = np.unique(pairs[:, 0], return_inverse=True)
                chosen = hidden if len(own) == len(places) else hidden[tensor_on(np.searchsorted(places, own), device)]
                index = tensor_on(position.reshape(-1), device)
                token, again = tensor_on(pairs[:, 1], device), tensor_on(pair_back.reshape(-1), device)
                logp, entropy = log_softmax_at(chosen, head.weight, head.bias, index, token, temperature)
                logps.append(logp[again])
                entropies.append(entropy[index[again]])
            if len(nodes):
                at = np.searchsorted(places, nodes[:, 0])
                logp, entropy = self._restricted(nodes, node_back.reshape(-1), at, hidden, head, temperature)
                logps.append(logp)
                entropies.append(entropy)
        index = tensor_on(self.source, device)
        return torch.cat(logps)[index], torch.cat(entropies)[index]

    def _restricted(
        self, nodes: np.ndarray, back: np.ndarray, at: np.ndarray, hidden: Tensor, head: Head, temperature: float
    ) -> tuple[Tensor, Tensor]:
        allowed = [self.trees[tree].allowed[node] for _, tree, node in nodes]
        starts = np.concatenate([[0], np.cumsum([len(a) for a in allowed])])
        segment = np.repeat(np.arange(len(nodes)), [len(a) for a in allowed])
        device = hidden.device
        token = tensor_on(np.concatenate(allowed), device)
        logits = logits_at(hidden, head.weight, head.bias, tensor_on(at[segment], device), token)
        logp, entropy = segment_log_softmax(logits / temperature, tensor_on(segment, device), len(nodes))
        taken = [starts[n] + np.searchsorted(allowed[n], t) for n, t in zip(back, self.bound[:, 3], strict=True)]
        return logp[tensor_on(np.array(taken, np.int64), device)], entropy[tensor_on(back, device)]


def tensor_on(array: np.ndarray, device: torch.device) -> Tensor:
    """Integers as an int64 tensor on a device."""
    return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(device)
