"""Attention of a transformers model over packed rows and over a cache that completions share.

A function of this module is put in place of the model's own through transformers' attention interface; which of the
two layouts a call has travels with it as the keyword ``layout``. Calls without one behave as "sdpa" does.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evolvent.models.language.pack import Pack

NAME = "evolvent_shared"


class Layout(Protocol):
    """How the tokens of a call attend: ``Packed``, ``Shared``, or ``kept.Behind``."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attention of ``[1, heads, L, D]``: ``[1, L, heads, D]``; keys and values ``[1, kv heads, L, D]``."""
        ...


def register() -> str:
    """Make the attention known to transformers; the name to ask for."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    layout: Layout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention interface of transformers: query ``[B, heads, Q, D]``, key and value ``[B, kv heads, S, D]``."""
    if layout is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    layer: int = module.layer_idx  # pyright: ignore[reportAssignmentType]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return layout.attend(layer, query, key, value, scale, kwargs.get("sliding_window")), None


class Packed:
    """Layout of one packed row; differentiable.

    With ``retain`` the keys and values of every layer stay readable in ``retained``, each ``[kv heads, L, D]``.
    """

    def __init__(self, pack: Pack, device: torch.device, *, retain: bool = False) -> None:
        self.pack, self.device, self.retain = pack, device, retain
        self.sizes = [run.length for run in pack.runs]
        self.retained: dict[int, tuple[Tensor, Tensor]] = {}
        self._masks: dict[tuple[int, int | None, torch.dtype], Tensor | None] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attention of the row ``[1, heads, L, D]`` to itself: ``[1, L, heads, D]``."""
        if self.retain:
            self.retained[layer] = (key[0], value[0])
        # split, and not slices: its backward is one concatenation however many runs there are
        queries, keys, values = (x.split(self.sizes, dim=2) for x in (query, key, value))
        out = []
        for i, run in enumerate(self.pack.runs):
            k = torch.cat([keys[j] for j in (*run.parents, i)], dim=2) if run.parents else keys[i]
            v = torch.cat([values[j] for j in (*run.parents, i)], dim=2) if run.parents else values[i]
            out.append(softmax_attention(queries[i], k, v, self._mask(i, window, query.dtype), scale))
        return torch.cat(out, dim=2).transpose(1, 2)

    def _mask(self, i: int, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """Additive ``[Q, S]``, or ``None`` where plain causal attention is meant."""
        run = self.pack.runs[i]
        window = window if window and run.depth + max(run.parts) > window else None
        slot = (i, window, dtype)
        if slot not in self._masks:
            self._masks[slot] = None if not run.parents and window is None else self._make_mask(i, window, dtype)
        return self._masks[slot]

    def _make_mask(self, i: int, window: int | None, dtype: torch.dtype) -> Tensor:
        runs = self.pack.runs
        run = runs[i]
        part = np.repeat(np.arange(len(run.parts)), run.parts)
        at = np.concatenate([np.arange(run.depth, run.depth + n) for n in run.parts])
        before = [np.arange(runs[j].depth, runs[j].depth + runs[j].length) for j in run.parents]
        behind = np.concatenate([*before, at])
        part_behind = np.concatenate([np.full(len(behind) - len(at), -1), part])
        seen = (part_behind == -1) | (part_behind == part[:, None])
        seen &= behind <= at[:, None]
        if window is not None:
            seen &= behind > at[:, None] - window
        mask = torch.zeros(seen.shape, dtype=dtype)
        mask[torch.from_numpy(~seen)] = float("-inf")
        return mask.to(self.device)


class Shared:
    """Layout of one new token for each of several completions, whose prompts' keys and values exist once.

    ``prompts`` by layer (key, value), each ``[U, kv heads, P, D]``, right-padded, with ``lengths`` int64 ``[U]``;
    ``owner`` int64 ``[R]`` is the prompt of each completion, ascending.
    """

    def __init__(self, prompts: list[tuple[Tensor, Tensor]], lengths: Tensor, owner: Tensor) -> None:
        self.prompts, self.lengths, self.owner = prompts, lengths, owner
        self.steps = 0
        self.own: list[tuple[Tensor, Tensor]] = []
        self._arrange()

    def _arrange(self) -> None:
        """Which slot of its prompt each completion has; the mask of padded prompt positions."""
        n_prompts = len(self.lengths)
        counts = torch.bincount(self.owner, minlength=n_prompts)
        self.width = int(counts.max())
        first = torch.cumsum(counts, 0) - counts
        self.slot = (
            self.owner * self.width + torch.arange(len(self.owner), device=self.owner.device) - first[self.owner]
        )
        self.full = bool((counts == self.width).all())
        key = self.prompts[0][0]
        ends, places = self.lengths[:, None], torch.arange(key.shape[2], device=key.device)
        self.pad = None
        if bool((self.lengths != key.shape[2]).any()):
            self.pad = torch.zeros(n_prompts, 1, 1, key.shape[2], dtype=key.dtype, device=key.device)
            self.pad.masked_fill_((places >= ends)[:, None, None], float("-inf"))

    def step(self) -> None:
        """Make room for one more token of every completion; call before each forward pass."""
        if not self.own or self.steps == self.own[0][0].shape[2]:
            room = max(16, 2 * self.steps)
            self.own = [self._grown(i, room) for i in range(len(self.prompts))]
        self.steps += 1

    def _grown(self, layer: int, room: int) -> tuple[Tensor, Tensor]:
        pair = []
        for which in (0, 1):
            shape = self.prompts[layer][which].shape
            new = self.prompts[layer][which].new_empty(len(self.owner), shape[1], room, shape[3])
            if self.own:
                new[:, :, : self.steps] = self.own[layer][which]
            pair.append(new)
        return pair[0], pair[1]

    def keep(self, rows: Tensor) -> None:
        """Only these completions (ascending indices) go on; prompts without any are dropped."""
        owner = self.owner[rows]
        used, self.owner = torch.unique(owner, return_inverse=True)
        self.own = [(k[rows], v[rows]) for k, v in self.own]
        if len(used) < len(self.lengths):
            self.lengths = self.lengths[used]
            longest = int(self.lengths.max())
            self.prompts = [(k[used, :, :longest], v[used, :, :longest]) for k, v in self.prompts]
        self._arrange()

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attention of the new tokens ``[1, heads, R, D]``: ``[1, R, heads, D]``."""
        prompt_k, prompt_v = self.prompts[layer]
        own_k, own_v = self.own[layer]
        n, heads, dim = query.shape[2], prompt_k.shape[1], query.shape[3]
        own_k[:, :, self.steps - 1] = key[0].transpose(0, 1)
        own_v[:, :, self.steps - 1] = value[0].transpose(0, 1)
        rows = (query[0].transpose(0, 1) * scale).reshape(n, heads, -1, dim)  # [R, kv heads, heads of one, D]
        first = self._scatter(rows) @ prompt_k.transpose(2, 3)
        if self.pad is not None:
            first = first + self.pad
        second = rows @ own_k[:, :, : self.steps].transpose(2, 3)
        scores = torch.cat([self._gather(first), second], dim=-1)
        if window:
            scores = scores + self._window(window, prompt_k.shape[2], scores.dtype)
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
        split = prompt_k.shape[2]
        out = self._gather(self._scatter(weights[..., :split]) @ prompt_v)
        out = out + weights[..., split:] @ own_v[:, :, : self.steps]
        return out.reshape(1, n, -1, out.shape[-1])

    def _scatter(self, rows: Tensor) -> Tensor:
        """``[R, kv heads, g, X]`` to ``[U, kv heads, slots * g, X]``."""
        _, heads, group, size = rows.shape
        n_prompts = len(self.lengths)
        if not self.full:
            wide = rows.new_zeros(n_prompts * self.width, heads, group, size)
            wide[self.slot] = rows
            rows = wide
        rows = rows.view(n_prompts, self.width, heads, group, size).transpose(1, 2)
        return rows.reshape(n_prompts, heads, self.width * group, size)

    def _gather(self, wide: Tensor) -> Tensor:
        n_prompts, heads, _, size = wide.shape
        rows = wide.view(n_prompts, heads, self.width, -1, size).transpose(1, 2)
        rows = rows.reshape(n_prompts * self.width, heads, -1, size)
        return rows if self.full else rows[self.slot]

    def _window(self, window: int, n_prompt: int, dtype: torch.dtype) -> Tensor:
        """Additive ``[R, 1, 1, P + steps]`` that hides what lies ``window`` or more tokens back."""
        lengths = self.lengths[self.owner][:, None]
        device = lengths.device
        places = torch.arange(n_prompt, device=device).expand(len(self.owner), -1)
        places = torch.cat([places, lengths + torch.arange(self.steps, device=device)], dim=1)
        hidden = places <= lengths + self.steps - 1 - window
        return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))[:, None, None]


def softmax_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """``[1, heads, Q, D]`` of query to ``[1, kv heads, S, D]``; causal where there is no mask."""
    groups = query.shape[1] // key.shape[1]
    if query.device.type != "cpu" and mask is not None and groups > 1:
        # with a mask, the fast kernels of GPUs want one key head for each query head
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        groups = 1
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=groups > 1
    )
