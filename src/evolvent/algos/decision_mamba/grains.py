"""The backbone of Decision Mamba: state-space mixers over tokens and over whole steps, side by side.

    u = LN x;   x <- x + coarse(u) + LN(fine(fold u), one step later)

``coarse`` mixes all tokens; ``fold`` makes one vector of the three tokens of a step, which ``fine`` mixes over steps.
What it says of a step is given to the tokens of the next one: to its own tokens it would tell the action that they are
asked for. The released code repeats the vectors in the order g1, g2, …, gK, g1, …, so that early tokens are told of
later steps.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from evolvent.algos.decision_mamba.scan import Mixer

_GROUP = 3


class BlockKept:
    """Where one block stands: both mixers, the tokens of the step that is not whole yet, what was said of the last."""

    def __init__(self, block: Grains, batch: int) -> None:
        zeros = block.norm.weight.new_zeros
        self.coarse, self.fine = block.coarse.start(batch), block.fine.start(batch)
        self.open, self.last = zeros(batch, _GROUP, block.width), zeros(batch, block.width)


class Kept:
    """Where all blocks stand; ``count_B`` tokens of each row are in."""

    def __init__(self, blocks: list[Grains], batch: int) -> None:
        self.blocks = [BlockKept(block, batch) for block in blocks]
        self.count_B = torch.zeros(batch, dtype=torch.int64, device=self.blocks[0].last.device)

    def forget(self, rows: Tensor) -> None:
        """These rows (int64) start over."""
        self.count_B[rows] = 0
        for one in self.blocks:
            one.coarse.forget(rows)
            one.fine.forget(rows)
            one.last[rows] = 0.0


class Grains(nn.Module):
    """One block; see the module."""

    def __init__(self, width: int, states: int, dropout: float) -> None:
        super().__init__()
        self.width, self.dropout = width, dropout
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.fold = nn.Linear(_GROUP * width, width)
        self.coarse, self.fine = Mixer(width, states=states), Mixer(width, states=states)

    def forward(self, x_BKW: Tensor) -> Tensor:
        """All tokens of whole steps."""
        u = self.norm(x_BKW)
        said = self.fine(self.fold(u.unflatten(1, (-1, _GROUP)).flatten(2)))
        before = torch.cat([torch.zeros_like(said[:, :1]), said[:, :-1]], 1)
        fine = self.after(before).repeat_interleave(_GROUP, 1)
        return x_BKW + functional.dropout(self.coarse(u) + fine, self.dropout, self.training)

    def step(self, x_MJW: Tensor, kept: BlockKept, rows: Tensor, phase: int) -> Tensor:
        """J further tokens of M rows, which all have ``phase`` tokens of a step that is not whole."""
        u, fine = self.norm(x_MJW), torch.empty_like(x_MJW)
        for j in range(x_MJW.shape[1]):
            at = (phase + j) % _GROUP
            fine[:, j] = self.after(kept.last[rows])
            kept.open[rows, at] = u[:, j]
            if at == _GROUP - 1:
                whole = self.fold(kept.open[rows].flatten(1))
                kept.last[rows] = self.fine.step(whole[:, None], kept.fine, rows)[:, 0]
        return x_MJW + self.coarse.step(u, kept.coarse, rows) + fine


class Mamba(nn.Module):
    """``[B, 3 K, width]`` to the same, causal; a backbone of ``StepNet``."""

    def __init__(self, width: int, *, layers: int, states: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Grains(width, states, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BKW: Tensor) -> Tensor:
        """All tokens at once, for learning."""
        for block in self.blocks:
            x_BKW = block(x_BKW)
        return self.norm(x_BKW)

    def start(self, batch: int, most: int) -> Kept:
        """Nothing seen yet; a state takes any number of tokens."""
        return Kept(cast("list[Grains]", list(self.blocks)), batch)

    @torch.no_grad()
    def step(self, x_MJW: Tensor, kept: Kept, rows: Tensor) -> Tensor:
        """J further tokens of M rows (int64, distinct), all as far in a step; without dropout or gradients."""
        phase = int(kept.count_B[rows[0]]) % _GROUP
        for block, its in zip(cast("list[Grains]", list(self.blocks)), kept.blocks, strict=True):
            x_MJW = block.step(x_MJW, its, rows, phase)
        kept.count_B[rows] += x_MJW.shape[1]
        return self.norm(x_MJW)
