"""The transformers network as sampler and trainer both see it: one way in for packed rows and for cached steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.core.errors import ModelError
from evolvent.models.language.adapters import Adapters
from evolvent.models.language.attention import Layout, Packed, Shared
from evolvent.models.language.logprobs import Head
from evolvent.models.language.pack import Pack, pack

ROUNDING = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Most total variation that is still rounding, by what the network computes in (measured: LOG.md)."""


def total_variation(logits: Tensor, others: Tensor) -> float:
    """Total variation of the distributions of two rows of logits ``[K, V]``, mean over ``K``: 0 to 1."""
    return float((logits.softmax(-1) - others.softmax(-1)).abs().sum(-1).mean()) / 2


class Network:
    """A causal language model whose attention is ours, its adapters, and the number format it computes in.

    Weights that are trained stay in float32, whatever ``dtype`` is.
    """

    def __init__(self, model: Any, adapters: Adapters, dtype: torch.dtype) -> None:
        self.model, self.adapters, self.dtype = model, adapters, dtype
        self.device: torch.device = model.device
        self._lock = threading.RLock()
        self._mask = torch.zeros(1, 1, 1, 1, device=self.device)  # transformers takes a mask of four axes as it is
        self._name = model.name_or_path
        self._exact = False

    @contextmanager
    def acting(self, adapter: str | None, *, exact: bool = False) -> Iterator[None]:
        """A context in which this thread alone computes, with this adapter (``None`` = the frozen base).

        ``exact`` computes in float32 whatever the format, with the same weights and without gradient.

        Raises:
            BadInput: no such adapter.
            ModelError: the model was closed.
        """
        if self.model is None:
            raise ModelError("the model was closed", where=self._name)
        self.adapters.check(adapter)
        mixed = self.adapters.full and self.dtype != torch.float32 and not exact
        with (
            self._lock,
            self.adapters.active(adapter),
            torch.autocast(self.device.type, self.dtype, enabled=mixed),
            self._widened(exact),
        ):
            yield

    @contextmanager
    def _widened(self, exact: bool) -> Iterator[None]:
        """A context in which each module computes with a float32 copy of its weights, made for each call."""
        self._exact, before = exact, self._exact
        narrow: dict[nn.Parameter, Tensor] = {}

        def widen(module: nn.Module, _: Any) -> None:
            for weight in module.parameters(recurse=False):
                if weight.dtype != torch.float32:
                    narrow[weight], weight.data = weight.data, weight.data.float()

        def restore(module: nn.Module, *_: Any) -> None:
            for weight in module.parameters(recurse=False):
                if weight in narrow:
                    weight.data = narrow.pop(weight)

        hooks: list[Any] = []
        if exact:
            for module in self.model.modules():
                if any(weight.dtype != torch.float32 for weight in module.parameters(recurse=False)):
                    hooks.append(module.register_forward_pre_hook(widen))
                    hooks.append(module.register_forward_hook(restore, always_call=True))
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not exact):
                yield
        finally:
            self._exact = before
            for hook in hooks:
                hook.remove()

    def step(self, ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        """Last hidden states ``[L, D]`` of tokens int64 ``[L]`` at positions int64 ``[L]``."""
        out = self.model.base_model(
            input_ids=ids[None], position_ids=positions[None], attention_mask=self._mask, use_cache=False, layout=layout
        )
        return out.last_hidden_state[0]

    def forward(self, packed: Pack, places: np.ndarray) -> Tensor:
        """Last hidden states ``[M, D]`` at ``places`` of a packed row."""
        ids, positions = (torch.from_numpy(a).to(self.device) for a in (packed.token_ids, packed.positions))
        hidden = self.step(ids, positions, Packed(packed, self.device))
        return hidden[torch.from_numpy(places).to(self.device)]

    @property
    def head(self) -> Head:
        """The output layer."""
        layer = self.model.get_output_embeddings()
        weight, bias = layer.weight, getattr(layer, "bias", None)
        return Head(weight.float(), None if bias is None else bias.float()) if self._exact else Head(weight, bias)

    def checkpoint_layers(self) -> None:
        """Keep no activations inside layers; they are computed again in the backward pass.

        Raises:
            ModelError: the model has no layers that can do so.
        """
        from transformers.modeling_layers import GradientCheckpointingLayer

        layers: list[Any] = [m for m in self.model.modules() if isinstance(m, GradientCheckpointingLayer)]
        if not layers:
            raise ModelError("no gradient checkpointing here", got=type(self.model).__name__, where=self._name)
        for layer in layers:
            layer.gradient_checkpointing = True
            layer._gradient_checkpointing_func = self.adapters.checkpointed
            layer.training = True  # of the layer alone: it asks for it, and what is inside stays as in evaluation

    @torch.no_grad()
    def verify(self, rows: Sequence[np.ndarray]) -> None:
        """Check on some texts that packed rows and the cache predict what the model predicts by itself.

        Two tokens or more each; some begin alike. What is compared is the distribution of the next token, the mean over
        a text: rounding moves logits of a trained adapter by more than half their spread, where no probability stands
        on them.

        Raises:
            ModelError: this kind of model cannot be used (its attention, positions or output differ too much).
        """
        first = next(iter(self.adapters.names), "policy")
        try:
            with self.acting(first):
                truth = [self.model(self._ids(row)[None], use_cache=False).logits[0].float() for row in rows]
                packed = pack(rows)
                ours = [self.head.logits(self.forward(packed, packed.where(i))) for i in range(len(rows))]
                steps = [self._stepped(row) for row in rows]
        except (TypeError, RuntimeError, AttributeError, KeyError, ValueError, IndexError) as error:
            raise self._unusable(str(error)) from error
        pairs = [*zip(ours, truth, strict=True), *((s, t[-len(s) :]) for s, t in zip(steps, truth, strict=True))]
        gap = max(total_variation(mine, its) for mine, its in pairs)
        if not gap <= ROUNDING[self.dtype]:
            raise self._unusable(f"next-token probabilities differ by {gap:.3g} (total variation)")

    def _ids(self, row: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(row, np.int64)).to(self.device)

    def _stepped(self, row: np.ndarray) -> Tensor:
        """Logits behind the last tokens of a text, the second half of it, which go through the cache one by one."""
        begun = len(row) - len(row) // 2
        packed = pack([row[:begun]])
        layout = Packed(packed, self.device, retain=True)
        self.step(self._ids(packed.token_ids), self._ids(packed.positions), layout)
        layers = [(k[None], v[None]) for _, (k, v) in sorted(layout.retained.items())]
        lengths = torch.tensor([begun], device=self.device)
        cache = Shared(layers, lengths, torch.zeros(1, dtype=torch.int64, device=self.device))
        out: list[Tensor] = []
        for at in range(begun, len(row)):
            cache.step()
            out.append(self.head.logits(self.step(self._ids(row[at : at + 1]), self._ids(np.array([at])), cache))[0])
        return torch.stack(out)

    def _unusable(self, got: str) -> ModelError:
        return ModelError(
            "this kind of model cannot be sampled and trained here",
            got=f"{type(self.model).__name__}: {got}",
            where=self._name,
            expected="a decoder with softmax attention over all earlier tokens, as Llama or Qwen",
        )
