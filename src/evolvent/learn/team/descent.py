"""Minibatches of a rollout: one step of an optimizer for each, its gradient gathered in pieces that fit the cache.

The rows of a large rollout do not fit a processor's cache: layer norms and activations then wait for memory, and every
intermediate result is memory fresh from the system. Pieces give the same gradient, up to rounding, for less of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Rows = Tensor | slice
PIECE = 8_192
"""Entries of ``like`` in a piece. Seen: 2,048 to 8,192 rows of 128 numbers cost the same, 61,440 1.6 times as much."""


def descend(
    optimizer: torch.optim.Optimizer,
    passes: Iterable[Rows],
    loss_of: Callable[[Rows], tuple[Tensor, Mapping[str, Tensor | float]]],
    like: Tensor,
    *,
    mask: Tensor | None = None,
    grad_clip: float,
    whole: bool = False,
) -> dict[str, float]:
    """One step of the optimizer for each part of ``passes``; returns means over them for the log, and ``grad_norm``.

    ``loss_of`` takes rows to the mean loss over those entries that count (``mask``), with gradients, and to what is
    logged of it; ``like`` is any tensor of a number for each entry, ``[rows, ...]``. ``grad_clip`` bounds the norm of
    the gradient of each group of the optimizer's parameters: one group a learner. ``whole`` is for a loss that is not a
    mean over the entries that count: never in pieces.
    """
    steps: list[dict[str, float]] = []
    for rows in passes:
        optimizer.zero_grad()
        metrics: dict[str, float] = {}
        for piece, share in [(rows, 1.0)] if whole else pieces(rows, like, mask):
            loss, seen = loss_of(piece)
            (loss if share == 1.0 else share * loss).backward()
            for name, number in seen.items():
                metrics[name] = metrics.get(name, 0.0) + share * (
                    number.item() if isinstance(number, Tensor) else number
                )
        sizes = [nn.utils.clip_grad_norm_(group["params"], grad_clip) for group in optimizer.param_groups]
        optimizer.step()
        steps.append(metrics | {"grad_norm": torch.stack(sizes).norm().item()})
    return means(steps)


def decaying(parts: Mapping[str, Any], end: float) -> Callable[[float], None]:
    """Brings the rates of the optimizers among ``parts`` to ``end`` times what they are now, linearly.

    Returns:
        What is told the share of the run that is over, 0..1, before each update.
    """
    optimizers = [part for part in parts.values() if isinstance(part, torch.optim.Optimizer) and end != 1.0]
    rates = [[group["lr"] for group in one.param_groups] for one in optimizers]

    def at(done: float) -> None:
        for optimizer, own in zip(optimizers, rates, strict=True):
            for group, rate in zip(optimizer.param_groups, own, strict=True):
                group["lr"] = rate * (1.0 + (end - 1.0) * done)

    return at


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means by name, for the log; nothing of nothing."""
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}


def pieces(rows: Rows, like: Tensor, mask: Tensor | None = None) -> Iterator[tuple[Rows, float]]:
    """``rows`` of ``like`` in pieces of at most ``PIECE`` entries, each with its share of the entries that count.

    On a GPU, which wants large products, it is one piece.
    """
    n = len(range(*rows.indices(len(like)))) if isinstance(rows, slice) else len(rows)
    most = max(PIECE // max(like[:1].numel(), 1), 1)
    if n <= most or like.device.type != "cpu":
        yield rows, 1.0
        return
    total = n if mask is None else max(int(mask[rows].sum()), 1)
    where = range(*rows.indices(len(like))) if isinstance(rows, slice) else rows
    for start in range(0, n, most):
        some = where[start : start + most]
        piece = slice(some.start, some.stop, some.step) if isinstance(some, range) else some
        yield piece, (len(some) if mask is None else int(mask[piece].sum())) / total
