"""A local causal language model that samples and is trained with the same weights, in place.

``sample`` draws completions with a key/value cache that completions of a prompt share; ``logprobs`` gives
differentiable log-probabilities of given tokens, with shared beginnings computed once. Both go through the same modules
with the same attention, so what was sampled and what is trained agree to rounding. Models come through transformers,
adapters through peft.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, ModelError, missing_extra
from evolvent.core.protocols import Completion, Sampling

try:
    import torch
except ImportError as _error:
    raise missing_extra("torch", "train", "models.language") from _error

from torch import Tensor, nn

from evolvent.models.language import load as loading
from evolvent.models.language import pack as packing
from evolvent.models.language.adapters import POLICY, Adapters
from evolvent.models.language.choices import action_log_probs, check_allowed, units_of
from evolvent.models.language.logprobs import Logprobs, Row, checked_prompts, checked_rows, needed, row_logprobs, states
from evolvent.models.language.network import Network
from evolvent.models.language.retained import Cache
from evolvent.models.language.sample import Sampled, SamplingParams, TemperatureSchedule, sample_batch, waves
from evolvent.models.language.text import Text

__all__ = ["LanguageModel", "Logprobs", "Row", "Sampled", "TemperatureSchedule", "load"]

WANTS = ("entropy", "hidden", "logits")


def load(
    spec: str,
    *,
    dtype: str = "auto",
    lora_rank: int = 8,
    lora_alpha: int = 16,
    targets: Sequence[str] = ("q_proj", "v_proj"),
    adapters: Sequence[str] = (POLICY,),
    device: str = "cpu",
    gradient_checkpointing: bool = False,
    seed: int = 0,
    progress: loading.Progress | None = None,
) -> LanguageModel:
    """A model to sample from and to train.

    Args:
        spec: ``smollm2-135m`` (or another name of ``models.weights``), ``PATH.gguf``, a Hugging Face model id, or a
            folder, each also with ``train:`` before it, as searches name it; a folder of adapters that ``save`` or peft
            wrote loads its base, and the adapter as the first.
        dtype: "float32", "bfloat16", or "auto": bfloat16 where the machine has it. Trained weights stay float32.
        lora_rank: 0 trains all weights.
        lora_alpha: LoRA's scale is ``lora_alpha / lora_rank``.
        targets: modules that get LoRA weights.
        adapters: names of adapters on the one base, such as one for each agent.
        device: "cpu", "cuda", …
        gradient_checkpointing: compute activations a second time in the backward pass instead of keeping them.
        seed: of the adapters' first weights.
        progress: called as ``progress(bytes_done, bytes_total, text)`` while weights are fetched.

    Raises:
        BadInput: no such folder, or a setting that cannot be.
        MissingExtra: the extra ``train`` is not installed.
        ModelError: it cannot be fetched, loaded, or computed with.
    """
    if lora_rank < 0 or (lora_rank and not adapters):
        raise BadInput("rank or adapters", got=(lora_rank, tuple(adapters)), expected="rank >= 0, a name", where="load")
    kind, spec = loading.dtype_of(dtype, device), spec.removeprefix("train:")
    place, folder = loading.source(spec, progress)
    if folder is not None and not lora_rank:
        raise BadInput("adapters cannot be trained as whole weights", got=spec, expected="lora_rank > 0", where="load")
    network, tokenizer = loading.network(place, torch.float32 if not lora_rank else kind)
    network.to(device)
    parts = Adapters(network, (lora_rank, lora_alpha, tuple(targets)), seed)
    if lora_rank:
        network.requires_grad_(False)
        for i, name in enumerate(adapters):
            parts.load(folder, name) if folder and i == 0 else parts.add(name)
    engine = Network(network, parts, kind)
    if gradient_checkpointing:
        engine.checkpoint_layers()
    loaded = LanguageModel(loading.base_of(folder) if folder else spec, engine, tokenizer)
    loaded.started_from = folder
    engine.verify(loaded.text.probes())
    return loaded


class LanguageModel:
    """A causal language model with a tokenizer; ``load`` makes it. Implements ``core.protocols.Model`` too.

    Safe to share between threads: calls queue up. Gradients flow through ``logprobs`` and ``choice_logprobs`` only.

    Attributes:
        name: the spec it was loaded from.
        device, dtype, tokenizer: where and in what it computes; that of transformers.
        context: tokens of prompt and answer together.
        end_ids: tokens that end an answer.
        started_from: the folder of the adapter that was loaded, where one was.
        width: size of hidden states. retained: what stays between calls (``keeping``).
        max_tokens_per_pass: bounds a packed row of ``logprobs``.
        max_kv_tokens: bounds the tokens that ``sample`` keeps at once.
        sampler: ``models.language.vllm.VllmSampler``, where it is to draw free text; ``None`` draws with the model
            itself.
    """

    def __init__(self, name: str, engine: Network, tokenizer: Any) -> None:
        self.name, self.tokenizer, self._engine = name, tokenizer, engine
        self.device, self.dtype = engine.device, engine.dtype
        config = engine.model.config.get_text_config()
        settings = engine.model.generation_config
        self.context = getattr(config, "max_position_embeddings", None) or 1 << 20
        self.width = int(config.hidden_size)
        self.n_vocab = len(engine.head.weight)
        ends = None if settings is None else settings.eos_token_id
        self.text = Text(tokenizer, ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.end_ids = self.text.end_ids
        self.started_from: Path | None = None
        self.max_tokens_per_pass, self.max_kv_tokens = 1 << 13, 1 << 15
        self.sampler: Any = None
        self.retained = Cache()

    @property
    def network(self) -> Any:
        """The transformers model itself; its weights are the ones that are trained."""
        return self._engine.model

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the adapters; ("policy",) where all weights are trained."""
        return tuple(self._engine.adapters.names) or (POLICY,)

    # ------------------------------------------------------------------------------------------------ text
    def encode(self, text: str, *, start: bool = False) -> np.ndarray:
        """Token ids int32 ``[K]`` of plain text; strings of control tokens inside it stay plain text.

        ``start`` puts the token in front that this model wants at the beginning of a text (BOS), if it wants one.
        """
        ids = self.text.encode(text)
        return np.concatenate([np.array(self.text.start_ids, np.int32), ids]) if start else ids

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of tokens, control tokens as their strings."""
        return self.text.decode(ids)

    def chat(
        self, messages: Sequence[Mapping[str, Any]], *, open: bool = True, tools: Sequence[Mapping[str, Any]] = ()
    ) -> np.ndarray:
        """Token ids int32 ``[P]`` of a conversation by the model's chat template.

        Contents are plain text: control tokens inside them are spelled out and end nothing. ``open`` begins the
        assistant's next turn. ``tools`` are those on offer, in OpenAI's form.

        Raises:
            BadInput: the model has no template, its template refuses the messages, or shows no tools.
        """
        return self.text.chat(messages, open=open, tools=tools)

    def conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), *, open: bool = True
    ) -> np.ndarray:
        """Token ids int32 ``[P]`` of a conversation with tools as the chat template itself writes it; see ``Text``."""
        return self.text.conversation(messages, tools, open=open)

    # ------------------------------------------------------------------------------------------------ sampling
    def sample(
        self,
        prompts: Sequence[np.ndarray],
        *,
        seeds: Sequence[int],
        max_tokens: int,
        n: int = 1,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        adapter: str | None = POLICY,
        allowed: Sequence[Sequence[np.ndarray] | None] | None = None,
        temperature_schedule: TemperatureSchedule | None = None,
    ) -> list[Sampled]:
        """``n`` completions of each prompt, prompt-major.

        Args:
            prompts: token ids int ``[P]`` each, not empty.
            seeds: one for each completion, prompt-major; a completion depends on its own seed alone.
            max_tokens: at most so many tokens each (fewer where the context ends).
            n: completions of each prompt.
            temperature: divides the logits; 0 takes the most probable token.
            top_k: only the so many most probable tokens; 0 is all.
            top_p: then only the most probable ones whose mass reaches this.
            stop: strings that end the text.
            adapter: which adapter acts; ``None`` is the frozen base.
            allowed: for each prompt token ids of all admissible actions, or ``None`` for free text; each token is then
                drawn among those that continue some action.
            temperature_schedule: lets the temperature follow the entropy of each token; log-probabilities are those
                without it.

        Raises:
            BadInput: a prompt longer than the context, or a setting that cannot be.
        """
        settings = replace(
            self._settings(max_tokens, temperature, top_p, top_k, stop), temperature_schedule=temperature_schedule
        )
        if self.sampler is not None and not any(allowed or ()) and temperature_schedule is None:
            return self.sampler.sample(prompts, n, seeds, settings, adapter)
        return self._sample(prompts, n, seeds, settings, adapter, allowed)

    def _settings(
        self, max_tokens: int, temperature: float, top_p: float, top_k: int, stop: Sequence[str], plain: bool = False
    ) -> SamplingParams:
        Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p).checked(self.name)
        if top_k < 0 or isinstance(stop, str):
            raise BadInput("top_k or stop", got=(top_k, stop), expected="top_k >= 0, a list of texts", where=self.name)
        stops = tuple(s for s in stop if s)
        return SamplingParams(max_tokens, temperature, top_k, top_p, stops, self.end_ids, plain)

    def _sample(
        self,
        prompts: Sequence[np.ndarray],
        n: int,
        seeds: Sequence[int],
        settings: SamplingParams,
        adapter: str | None,
        allowed: Sequence[Sequence[np.ndarray] | None] | None,
    ) -> list[Sampled]:
        if n < 1 or len(seeds) != n * len(prompts):
            raise BadInput("seeds", got=len(seeds), expected=f"{n * len(prompts)}, one a completion", where="sample")
        prompts = checked_prompts(prompts, self.n_vocab, self.context, self.name)
        trees = check_allowed(allowed, len(prompts))
        limits = [min(settings.max_tokens, self.context - len(prompt)) for prompt in prompts]
        out: list[list[Sampled]] = [[] for _ in prompts]
        with self._engine.acting(adapter):
            machine = (self._engine.step, self._engine.head, self.text.decode)
            for wave in waves(prompts, limits, n, self.max_kv_tokens):
                some = sample_batch(
                    [prompts[i] for i in wave],
                    n,
                    [trees[i] for i in wave],
                    [seeds[i * n + j] for i in wave for j in range(n)],
                    [limits[i] for i in wave],
                    settings,
                    machine,
                    self.retained.of(adapter, self.trainable),
                )
                for at, i in enumerate(wave):
                    out[i] = some[at * n : (at + 1) * n]
        return [one for many in out for one in many]

    def keeping(self, tokens: int = 1 << 14) -> AbstractContextManager[None]:
        """Inside, what was read and written stays: a text that goes on from it costs its new tokens only.

        For searches; of ``sample``, and ``states`` and ``logprobs`` without gradients. Numbers are the same to
        rounding. The latest ``tokens`` stay, of each adapter; none when its weights have changed.
        """
        return self.retained.on(tokens)

    # ------------------------------------------------------------------------------------------------ judging
    def logprobs(
        self,
        rows: Sequence[Row],
        *,
        adapter: str | None = POLICY,
        temperature: float = 1.0,
        want: Sequence[str] = ("entropy",),
        exact: bool = False,
    ) -> Logprobs:
        """Log-probabilities of given tokens; differentiable unless under ``torch.no_grad``.

        Rows that begin alike share the computation of what they have in common, and equal rows all of it.

        Args:
            rows: what was seen and what was answered; a context is not empty, an answer may be.
            adapter: which adapter answers; ``None`` is the frozen base.
            temperature: divides the logits, above 0; as sampled.
            want: "hidden" and "logits" are given only where named here; log-probabilities and entropies always.
            exact: in float32 with the same weights, whatever ``dtype`` is; not differentiable.

        Raises:
            BadInput: a row longer than the context, tokens that are no tokens, or not one of their choices.
        """
        if not 0.0 < temperature < float("inf") or not set(want) <= set(WANTS):
            got, expected = (temperature, tuple(want)), f"temperature above 0, of {', '.join(WANTS)}"
            raise BadInput("temperature or want", got=got, expected=expected, where="logprobs")
        rows = checked_rows(rows, self.n_vocab, self.context)
        engine = self._engine
        with engine.acting(adapter, exact=exact):
            retained = None if torch.is_grad_enabled() or exact else self.retained.of(adapter, self.trainable)
            forward = (
                engine.forward if retained is None else partial(retained.forward, step=engine.step, device=self.device)
            )
            return row_logprobs(rows, forward, engine.head, temperature, want, self.max_tokens_per_pass)

    def states(self, rows: Sequence[Row], *, adapter: str | None = None) -> Tensor:
        """The last hidden states that predict each token of the rows, in their order: float32 ``[K, D]``; of one token,
        whichever, the state behind the context. No pass through the vocabulary: for value heads.
        """
        rows = checked_rows(rows, self.n_vocab, self.context)
        with self._engine.acting(adapter):
            retained = None if torch.is_grad_enabled() else self.retained.of(adapter, self.trainable)
            if retained is not None and all(len(row.tokens) == 1 for row in rows):
                return retained.behind([row.context for row in rows], self._engine.step, self.device)
            return states(rows, self._engine.forward, self.device, self.max_tokens_per_pass)

    def choice_logprobs(
        self,
        contexts: Sequence[np.ndarray],
        choices: Sequence[Sequence[np.ndarray]],
        *,
        normalise: str = "word",
        adapter: str | None = POLICY,
    ) -> list[Tensor]:
        """Log-probabilities float32 ``[N]`` of all admissible actions of each decision; differentiable.

        TWOSOME (Tan et al. 2024, arXiv:2401.14151): a softmax over actions of the log-likelihood of their tokens
        behind the context, divided by their number of words or tokens, or not at all ("sum").
        """
        if len(contexts) != len(choices) or any(not len(some) for some in choices):
            raise BadInput(
                "choices for each context", got=len(choices), expected=len(contexts), where="choice_logprobs"
            )
        rows = [Row(context, choice) for context, some in zip(contexts, choices, strict=True) for choice in some]
        logp = self.logprobs(rows, adapter=adapter).logp_K
        lengths = [len(row.tokens) for row in rows]
        at = torch.repeat_interleave(torch.tensor(lengths, device=self.device))
        sums = torch.zeros(len(rows), device=self.device).index_add(0, at, logp)
        texts = [self.decode(row.tokens) for row in rows] if normalise == "word" else [""] * len(rows)
        units = torch.tensor(units_of(texts, lengths, normalise), dtype=torch.float32, device=self.device)
        parts = [len(some) for some in choices]
        pairs = zip(sums.split(parts), units.split(parts), strict=True)
        return [action_log_probs(mine, by) for mine, by in pairs]

    def micro_batches(self, rows: Sequence[Row], max_tokens: int) -> list[list[int]]:
        """Indices of rows in groups that pass through the model as at most ``max_tokens`` tokens each.

        Rows that share a beginning stay together. A row that is longer stands alone.
        """
        return packing.batches(needed(rows), max_tokens)

    # ------------------------------------------------------------------------------------------------ protocol
    def generate(self, prompt: str, **sampling: Any) -> Completion:
        """Complete ``prompt`` with the first adapter; see ``core.protocols.Model``.

        Raises:
            ModelError: a grammar or schema is asked for.
        """
        how = Sampling(**sampling)
        if how.grammar or how.json_schema:
            raise ModelError("no grammars here", where=self.name, do="use the same weights through models.load(NAME)")
        settings = self._settings(how.max_tokens, how.temperature, how.top_p, 0, how.stop, plain=True)
        started, ids = time.perf_counter(), self.encode(prompt, start=True)
        (done,) = self._sample([ids], 1, [how.seed], settings, self.adapters[0], None)
        spent = time.perf_counter() - started
        return Completion(done.text, done.token_ids, done.logp, len(ids), 0, spent, done.finish, done.stopped)

    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """Summed log-probability of each continuation given the prompt: float64 ``[N]``, nats."""
        context = self.encode(prompt, start=True)
        rows = [Row(context, self.encode(text)) for text in continuations]
        with torch.no_grad():
            logp = self.logprobs(rows, adapter=self.adapters[0]).logp_K.double().cpu().numpy()
        ends = np.cumsum([len(row.tokens) for row in rows])
        return np.array([part.sum() for part in np.split(logp, ends[:-1])]) if rows else np.zeros(0)

    # ------------------------------------------------------------------------------------------------ weights
    def trainable(self, adapter: str = POLICY) -> list[nn.Parameter]:
        """The parameters of an adapter, or of the whole model: float32 leaves for an optimizer."""
        return self._engine.adapters.trainable(adapter)

    def state_dict(self, adapter: str | None = None) -> dict[str, Tensor]:
        """The trained tensors by name, of one adapter or of all: views, not copies."""
        return self._engine.adapters.state_dict(adapter)

    def load_state_dict(self, state: Mapping[str, Tensor], adapter: str | None = None) -> None:
        """Put such tensors back in place.

        Raises:
            ModelError: they are those of another model.
        """
        with torch.no_grad():
            self._engine.adapters.load_state_dict(state, adapter)

    def save(self, folder: str | Path, adapter: str = POLICY) -> None:
        """Write a folder that peft (all weights: transformers) loads as it is; an old one is replaced at once."""
        self._engine.adapters.save(Path(folder), adapter, self.name, self.tokenizer)

    def save_merged(self, folder: str | Path, *, base: str, dtype: str = "float32", adapter: str = POLICY) -> None:
        """Write a folder for transformers with an adapter's weights added to those of the base; ends this model.

        Args:
            folder: where; an old one is replaced at once.
            base: how the configuration calls the model.
            dtype: number format; sums are made in that of this model, so load it in float32.
            adapter: whose weights.
        """
        self._engine.adapters.save_merged(Path(folder), adapter, base, getattr(torch, dtype), self.tokenizer)
        self.close()

    def load_adapter(self, folder: str | Path, name: str) -> None:
        """Read an adapter folder into the adapter ``name``, made if it is new.

        Raises:
            ModelError: it belongs to another base model, or does not fit.
        """
        if self._engine.adapters.full:
            raise BadInput("all weights are trained here, there are no adapters", got=str(folder), where="load_adapter")
        self._engine.adapters.load(Path(folder), name)

    def add_adapter(self, name: str) -> None:
        """Make a further LoRA adapter, at first without effect; one that is there stays as it is."""
        if name not in self._engine.adapters.names:
            self._engine.adapters.add(name)

    def close(self) -> None:
        """Let go of the weights; any later call raises ``ModelError``."""
        self._engine.model = None
