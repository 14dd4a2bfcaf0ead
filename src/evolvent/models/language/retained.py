"""Keys and values that stay from one call to the next: of a text that goes on from one known, the rest is evaluated.

Tokens are slots of one pool a layer; a trie leads from the slot before and a token to its slot, so what texts share is
there once. A search that asks for the children of a state pays for what its parent had not read, which is the token
that was sampled last: all others went through the model when they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evolvent.models.language.attention import Layout, Shared, softmax_attention
from evolvent.models.language.pack import Pack

TOGETHER = 1 << 13
"""Tokens of texts that go through the model in one pass, known ones counted."""
Step = Callable[[Tensor, Tensor, Layout], Tensor]
"""Token ids int64 ``[L]``, positions int64 ``[L]`` and a layout to last hidden states ``[L, D]``."""


class Read(NamedTuple):
    """Texts that were read: their slots int64 ``[P]`` each, the hidden state behind each ``[U, D]``, and how many
    tokens of each were evaluated.
    """

    slots: list[np.ndarray]
    hidden: Tensor
    evaluated: list[int]


class Cache:
    """What is retained for each adapter, between ``on`` and its end."""

    def __init__(self) -> None:
        self._of: dict[str | None, tuple[list[int], Retained]] | None = None
        self._limit = 0

    @contextmanager
    def on(self, limit: int) -> Iterator[None]:
        """See ``LanguageModel.keeping``; inside another one it changes nothing."""
        if self._of is not None:
            yield
            return
        self._of, self._limit = {}, limit
        try:
            yield
        finally:
            self._of = None

    def of(self, adapter: str | None, weights: Callable[[str], Sequence[Tensor]]) -> Retained | None:
        """What is kept of an adapter with its weights as they are; ``None`` where nothing is to be kept."""
        if self._of is None:
            return None
        versions = [] if adapter is None else [weight._version for weight in weights(adapter)]
        if self._of.get(adapter, (None,))[0] != versions:
            self._of[adapter] = versions, Retained(self._limit)
        return self._of[adapter][1]

    def known(self, adapter: str | None, weights: Callable[[str], Sequence[Tensor]], prompt: np.ndarray) -> int:
        """How many tokens of a prompt need not be evaluated when something behind it is: never its last one."""
        retained = self.of(adapter, weights)
        return 0 if retained is None else retained.known(prompt[:-1])


class Retained:
    """The trie and its pools, of one adapter with its weights as they are.

    ``limit`` tokens stay between two calls; of more, those used longest ago go, leaves first. ``layers`` are (key,
    value) of each layer, ``[kv heads, slots, D]``, with ``n`` slots in use.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.n, self.layers = limit, 0, list[tuple[Tensor, Tensor]]()
        self._next: dict[tuple[int, int], int] = {}
        self._before, self._depth, self._used = (np.zeros(0, np.int64) for _ in range(3))
        self._time = 0

    # ------------------------------------------------------------------------------------------------ calls
    def read(self, texts: Sequence[np.ndarray], step: Step, device: torch.device) -> Read:
        """Evaluate what is new of some different texts, and the last token of each: int ``[P]`` each, not empty."""
        slots, row_of, hidden, evaluated = self._evaluate(texts, [len(text) - 1 for text in texts], step, device)
        return Read(slots, hidden[[row_of[int(mine[-1])] for mine in slots]], evaluated)

    def forward(self, packed: Pack, places: np.ndarray, step: Step, device: torch.device) -> Tensor:
        """The hidden states at places int64 ``[M]`` of a packed row ``[M, D]``: what is kept is read, the rest and what
        predicts is evaluated.
        """
        asked, texts, first, at_of = set(places.tolist()), list[np.ndarray](), list[int](), list[np.ndarray]()
        for u in range(len(packed.places)):
            at = packed.where(u)
            hits = [k for k, place in enumerate(at.tolist()) if place in asked]
            if hits:  # a row of forced tokens asks nothing
                at_of.append(at[: hits[-1] + 1])
                texts.append(packed.token_ids[at_of[-1]])
                first.append(hits[0])
        slots, row_of, hidden, _ = self._evaluate(texts, first, step, device)
        slot_at = {
            place: slot
            for at, mine in zip(at_of, slots, strict=True)
            for place, slot in zip(at.tolist(), mine.tolist(), strict=True)
        }
        out = hidden[[row_of[slot_at[place]] for place in places.tolist()]]
        self.trim()
        return out

    @torch.inference_mode()
    def _evaluate(
        self, texts: Sequence[np.ndarray], first: Sequence[int], step: Step, device: torch.device
    ) -> tuple[list[np.ndarray], dict[int, int], Tensor, list[int]]:
        """Evaluate what is new of each text, and all from its token ``first`` on, whose hidden states are missing.

        Returns the slots of each text, the row of a slot among the hidden states, these, and how many tokens each text
        cost.
        """
        self._time += 1
        ids, at, row_of, parts = list[int](), list[int](), dict[int, int](), list[tuple[int, int, np.ndarray]]()
        slots, evaluated, of_row = list[np.ndarray](), list[int](), list[int]()
        for text, wanted in zip(texts, first, strict=True):
            begun, mine = len(ids), self._path(-1, text.tolist())
            known = mine.index(-1) if -1 in mine else len(mine)
            start = next((k for k in range(wanted, known) if mine[k] not in row_of), known)
            for k in range(start, len(mine)):
                if mine[k] < 0:
                    mine[k] = self._new(mine[k - 1] if k else -1, int(text[k]))
                row_of[mine[k]] = len(ids)
                of_row.append(mine[k])
                ids.append(int(text[k]))
                at.append(k)
            slots.append(np.array(mine, np.int64))
            self._used[slots[-1]] = self._time
            if len(ids) > begun:
                parts.append((begun, len(ids) - begun, slots[-1]))
            evaluated.append(len(ids) - begun)
        hidden = step(
            torch.tensor(ids, device=device), torch.tensor(at, device=device), Behind(self, of_row, parts, device)
        )
        return slots, row_of, hidden, evaluated

    def behind(self, texts: Sequence[np.ndarray], step: Step, device: torch.device) -> Tensor:
        """The hidden state behind each text, float32 ``[N, D]``."""
        distinct: dict[bytes, int] = {}
        which = [distinct.setdefault(np.asarray(text, np.int32).tobytes(), len(distinct)) for text in texts]
        unique = [texts[which.index(u)] for u in range(len(distinct))]
        ends = np.cumsum([len(text) for text in unique]) // TOGETHER
        parts = [
            self.read([text for text, e in zip(unique, ends, strict=True) if e == end], step, device).hidden
            for end in dict.fromkeys(ends.tolist())
        ]
        self.trim()
        return torch.cat(parts).float().clone()[which]

    @torch.inference_mode()
    def add(self, cache: Shared, rows: Sequence[int], behind: Sequence[int], written: Sequence[Sequence[int]]) -> None:
        """Keep what the completions ``rows`` of a cache have written and the model has evaluated.

        ``behind`` is the slot of each one's last prompt token; the first ``cache.steps`` tokens ``written`` have keys
        and values.
        """
        new, source, places = list[int](), list[int](), list[int]()
        for row, slot, tokens in zip(rows, behind, written, strict=True):
            for t, token in enumerate(tokens[: cache.steps]):
                following = self._next.get((slot, token), -1)
                if following < 0:
                    following = self._new(slot, token)
                    new.append(following)
                    source.append(row)
                    places.append(t)
                slot = following
                self._used[slot] = self._time
        if not new:
            return
        device = cache.owner.device
        to, of, t_of = (torch.tensor(some, device=device) for some in (new, source, places))
        for layer, (own_k, own_v) in enumerate(cache.own):
            key, value = self.pool(layer, own_k[0])
            key[:, to] = own_k[of, :, t_of].transpose(0, 1)
            value[:, to] = own_v[of, :, t_of].transpose(0, 1)

    @torch.inference_mode()
    def trim(self) -> None:
        """Let go of what was used longest ago, where more than ``limit`` tokens are kept."""
        if self.n <= self.limit:
            return
        # a token was used whenever one behind it was, so what stays is whole from its beginning
        order = np.lexsort((self._depth[: self.n], -self._used[: self.n]))
        stay = np.sort(order[: 3 * self.limit // 4])
        number = np.full(self.n + 1, -1, np.int64)
        number[stay] = np.arange(len(stay))
        self._next = {(int(number[b]), token): int(number[s]) for (b, token), s in self._next.items() if number[s] >= 0}
        self._before, self._depth, self._used = number[self._before[stay]], self._depth[stay], self._used[stay]
        self.n = len(stay)
        index = torch.from_numpy(stay)
        self.layers = [(k[:, index.to(k.device)], v[:, index.to(v.device)]) for k, v in self.layers]

    def pool(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Key and value pool of a layer, with room for every slot in use; ``like``: ``[kv heads, …, D]``."""
        while layer >= len(self.layers):
            empty = like.new_empty(like.shape[0], 0, like.shape[2])
            self.layers.append((empty, empty))
        key, value = self.layers[layer]
        if key.shape[1] < self.n:
            room = max(256, min(2 * self.n, max(self.n, self.limit)))
            grown = [old.new_empty(old.shape[0], room, old.shape[2]) for old in (key, value)]
            for old, more in zip((key, value), grown, strict=True):
                more[:, : old.shape[1]] = old
            self.layers[layer] = grown[0], grown[1]
        return self.layers[layer]

    # ------------------------------------------------------------------------------------------------ inside
    def known(self, text: np.ndarray) -> int:
        """How many tokens of a text are kept, from its beginning."""
        return sum(slot >= 0 for slot in self._path(-1, text.tolist()))

    def _path(self, slot: int, tokens: Sequence[int]) -> list[int]:
        """The slots of tokens behind a slot; -1 from the first that is not known."""
        out: list[int] = []
        for token in tokens:
            slot = self._next.get((slot, token), -1)
            if slot < 0:
                break
            out.append(slot)
        return out + [-1] * (len(tokens) - len(out))

    def _new(self, before: int, token: int) -> int:
        slot, self.n = self.n, self.n + 1
        if slot == len(self._used):
            room = max(256, 2 * slot)
            columns = (
                np.concatenate([old, np.zeros(room - slot, np.int64)])
                for old in (self._before, self._depth, self._used)
            )
            self._before, self._depth, self._used = columns
        self._next[before, token] = slot
        self._before[slot], self._depth[slot] = before, self._depth[before] + 1 if before >= 0 else 0
        return slot


class Behind:
    """Layout of new tokens of several texts, each behind what is kept of it; their keys and values go to the pools.

    ``slots`` of the new tokens; ``parts`` of each text with new tokens: their first row, how many, and the slots of the
    whole text.
    """

    def __init__(
        self, retained: Retained, slots: list[int], parts: list[tuple[int, int, np.ndarray]], device: torch.device
    ) -> None:
        self.retained, self.slots = retained, torch.tensor(slots, device=device)
        self.parts = [(first, count, torch.from_numpy(whole).to(device)) for first, count, whole in parts]
        self._masks: dict[tuple[int, int, int | None], Tensor | None] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attention of the new tokens ``[1, heads, L, D]``: ``[1, L, heads, D]``."""
        keys, values = self.retained.pool(layer, key[0])
        keys[:, self.slots], values[:, self.slots] = key[0], value[0]
        out: list[Tensor] = []
        for first, count, whole in self.parts:
            mask = self._mask(count, len(whole), window, query)
            k, v = keys[:, whole][None], values[:, whole][None]
            out.append(softmax_attention(query[:, :, first : first + count], k, v, mask, scale))
        return torch.cat(out, dim=2).transpose(1, 2)

    def _mask(self, count: int, length: int, window: int | None, like: Tensor) -> Tensor | None:
        """Additive ``[count, length]`` for the last tokens of a text; ``None``: plain causal attention."""
        window = window if window and length > window else None
        slot = count, length, window
        if slot not in self._masks:
            behind, at = torch.arange(length), torch.arange(length - count, length)[:, None]
            hidden = behind > at if window is None else (behind > at) | (behind <= at - window)
            mask = torch.zeros(count, length, dtype=like.dtype).masked_fill_(hidden, float("-inf")).to(like.device)
            self._masks[slot] = None if count == length and window is None else mask
        return self._masks[slot]
