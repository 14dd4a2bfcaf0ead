"""A local language model: llama.cpp in this process, token in and token out.

The prompt's keys and values are kept between calls (``prefixes``), given continuations are scored in one batch as a
trie behind the shared prompt, and tokens and log-probabilities are returned as sampled.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, EvolventError, ModelError
from evolvent.core.protocols import Completion, Sampling
from evolvent.models.sampling import Counters, log_normaliser, sample
from evolvent.models.served import engine
from evolvent.models.served.constrain import Constraint, grammar_text
from evolvent.models.served.context import N_BRANCHES, Context, Trie, choose
from evolvent.models.weights import identity

N_CONTEXTS = 2  # kinds of prompt kept side by side; the second context is made when it is needed


class Llama:
    """A GGUF model, implementing ``core.protocols.Model``. Safe to share between threads (calls queue up).

    Prompt and answer together have at most ``n_ctx`` tokens; all kept prompts share this room. ``n_threads`` is by
    default the cores this process may use. Reports call it ``name``, by default the file's stem.

    Raises:
        ModelError: no such file, not a usable GGUF, or the engine cannot be used.
        BadInput: ``n_ctx`` is beyond what the model was trained for.
    """

    def __init__(self, path: str | Path, *, name: str = "", n_ctx: int = 4096, n_threads: int | None = None) -> None:
        self.path = Path(path)
        self.name = name or self.path.stem
        self.n_ctx, self.n_threads = n_ctx, n_threads or _cores()
        self.counters = Counters()
        self._lock, self._calls = threading.RLock(), 0
        self._contexts: list[Context] = []
        self._ffi, self._lib = engine.load()
        self._model = self._open()
        self._vocab = self._lib.llama_model_get_vocab(self._model)
        self.n_vocab: int = self._lib.llama_vocab_n_tokens(self._vocab)
        self._scratch = np.empty(self.n_vocab, np.float32)
        self._pieces: dict[int, bytes] = {}
        trained = self._lib.llama_model_n_ctx_train(self._model)
        try:
            if not 16 <= n_ctx <= trained:
                raise BadInput("n_ctx is out of range", got=n_ctx, expected=f"16 to {trained}", where=self.name)
            self._contexts.append(Context(self._ffi, self._lib, self._model, n_ctx, self.n_threads))
        except EvolventError:
            self.close()
            raise

    def _open(self) -> Any:
        if not self.path.is_file():
            raise ModelError("no such model file", got=str(self.path), expected="a GGUF file", where="Llama")
        with self.path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise ModelError(
                    "not a GGUF file", got=str(self.path), expected="a file that begins with GGUF", where="Llama"
                )
        model = self._lib.llama_model_load_from_file(str(self.path).encode(), self._lib.llama_model_default_params())
        if model == self._ffi.NULL:
            raise ModelError(
                "the model file cannot be loaded",
                got=engine.last_messages(),
                expected="a whole GGUF file of a kind that this llama.cpp knows",
                where=str(self.path),
                do="fetch or copy it again",
            )
        return model

    @property
    def identity(self) -> str:
        """Names weights and engine, for a cache of completions: SHA-256 of the file and the engine's version."""
        version = self._ffi.string(self._lib.llama_version()).decode()
        return f"gguf:{identity(self.path)}:llama.cpp-{version}:n_ctx-{self.n_ctx}"

    # ------------------------------------------------------------------------------------------------ tokens
    def tokenize(self, text: str, *, special: bool = True) -> np.ndarray:
        """Token ids int32 ``[K]``; ``special`` adds what the model wants at the start of a text (BOS).

        Markup of the model's own chat format, such as ``<|im_end|>``, becomes the token it names.
        """
        if self._model is None:
            raise ModelError("the model was closed", where=self.name)
        raw = text.encode()
        out = np.empty(len(raw) + 8, np.int32)
        pointer = self._ffi.cast("llama_token *", out.ctypes.data)
        n = self._lib.llama_tokenize(self._vocab, raw, len(raw), pointer, len(out), special, True)
        if n < 0:
            raise ModelError("the text cannot be tokenised", got=f"{len(raw)} bytes", where=self.name)
        return out[:n].copy()

    def detokenize(self, token_ids: Sequence[int] | np.ndarray) -> str:
        """The text of tokens; end-of-text and other control tokens are left out."""
        return b"".join(self._piece(int(t)) for t in token_ids).decode(errors="replace")

    def _piece(self, token: int) -> bytes:
        piece = self._pieces.get(token)
        if piece is None:
            room = self._ffi.new("char[256]")
            n = self._lib.llama_token_to_piece(self._vocab, token, room, 256, 0, False)
            piece = self._pieces[token] = bytes(self._ffi.buffer(room, max(n, 0)))
        return piece

    # ------------------------------------------------------------------------------------------------ evaluation
    def _prefill(self, tokens: np.ndarray, n_more: int) -> tuple[Context, int, np.ndarray]:
        """Evaluate a prompt that leaves room for ``n_more``: (context, tokens kept from before, logits)."""
        if not self._contexts:
            raise ModelError("the model was closed", where=self.name)
        if len(tokens) == 0:
            raise BadInput("the prompt is empty", expected="at least one token", where=self.name)
        if len(tokens) + n_more > self.n_ctx:
            raise BadInput(
                "the prompt does not fit into the context",
                got=f"{len(tokens)} tokens of prompt and at least {n_more} more",
                expected=f"at most n_ctx = {self.n_ctx} tokens together",
                where=self.name,
                do=f"shorten the prompt (fewer or shorter memories), or give more room: NAME,n_ctx={2 * self.n_ctx}",
            )
        self._calls += 1
        which = choose([c.cached for c in self._contexts], [c.used for c in self._contexts], tokens, N_CONTEXTS)
        if which == len(self._contexts):
            self._contexts.append(Context(self._ffi, self._lib, self._model, self.n_ctx, self.n_threads))
        context = self._contexts[which]
        context.used = self._calls
        cached, logits = context.prefill(tokens)
        self.counters.prompt += len(tokens)
        self.counters.cached += cached
        return context, cached, logits

    # ------------------------------------------------------------------------------------------------ generation
    def generate(self, prompt: str, **sampling: Any) -> Completion:
        """Complete ``prompt``; see ``core.protocols.Model``.

        ``token_ids`` and ``logp`` hold every token that was sampled, the end-of-text token and the token that
        completed a stop string included; ``logp`` is the model's own at temperature 1, before nucleus and grammar.
        ``score_tokens`` of the same tokens gives the same up to the rounding of activations to 8 bits, which differs
        between one row and many: seen up to 0.5 nats over 20 tokens of a 4-bit 135M model, 0.01 of a 1.5B one.
        ``finish`` is "length" when ``max_tokens`` or the context ended the text.

        Raises:
            BadInput: the prompt does not fit into ``n_ctx``, a setting is out of range, or the grammar is invalid.
            ModelError: the engine failed.
        """
        how, started = Sampling(**sampling).checked(self.name), time.perf_counter()
        with self._lock:
            tokens = self.tokenize(prompt)
            limit = min(how.max_tokens, self.n_ctx - len(tokens))
            text = grammar_text(how.grammar, how.json_schema)
            constraint = Constraint(self._ffi, self._lib, self._vocab, text) if text else None
            try:
                context, cached, logits = self._prefill(tokens, 1)
                rng = np.random.default_rng(how.seed) if how.temperature else None
                chooser, stop = (how.temperature, how.top_p, rng, constraint), [s.encode() for s in how.stop if s]
                ids, logp, raw, (finish, stopped) = self._continue(context, logits, limit, chooser, stop)
            finally:
                if constraint:
                    constraint.close()
            seconds = time.perf_counter() - started
            self.counters.sampled += len(ids)
            self.counters.seconds += seconds
        return Completion(
            text=raw.decode(errors="replace"),
            token_ids=np.array(ids, np.int32),
            logp=np.array(logp, np.float32),
            prompt_tokens=len(tokens),
            cached_tokens=cached,
            seconds=seconds,
            finish=finish,
            stopped=stopped,
        )

    def _continue(
        self,
        context: Context,
        logits: np.ndarray,
        limit: int,
        chooser: tuple[float, float, Any, Constraint | None],
        stop: list[bytes],
    ) -> tuple[list[int], list[float], bytes, tuple[str, str]]:
        """Sample until end of text, a stop string or ``limit`` tokens: ids, log-probabilities, bytes, why it ended."""
        ids: list[int] = []
        logp: list[float] = []
        raw, is_eog, position = bytearray(), self._lib.llama_vocab_is_eog, len(context.cached)
        while len(ids) < limit:
            token = self._choose(logits, *chooser)
            ids.append(token)
            logp.append(float(logits[token]) - log_normaliser(logits, self._scratch))
            if is_eog(self._vocab, token):
                return ids, logp, bytes(raw), ("stop", "")
            before = len(raw)
            raw += self._piece(token)
            ends = [(at, s) for s in stop if (at := raw.find(s, max(0, before - len(s) + 1))) >= 0]
            if ends:
                at, which = min(ends)
                return ids, logp, bytes(raw[:at]), ("stop", which.decode())
            if len(ids) == limit:
                break
            context.step(token, position)
            position, logits = position + 1, context.row(0)
        return ids, logp, bytes(raw), ("length", "")

    def _choose(
        self, logits: np.ndarray, temperature: float, top_p: float, rng: Any, constraint: Constraint | None
    ) -> int:
        if constraint:
            return constraint.choose(logits, temperature, top_p, rng)
        return sample(logits, temperature, top_p, rng) if temperature else int(logits.argmax())

    # ------------------------------------------------------------------------------------------------ scoring
    def score(self, prompt: str, continuations: Sequence[str]) -> np.ndarray:
        """Summed log-probability of each continuation given the prompt: float64 ``[N]``, nats.

        Prompt and continuation are tokenised apart, so a continuation should begin where a token may begin (with its
        space). An empty continuation scores 0.

        Raises:
            BadInput: prompt and continuation do not fit into ``n_ctx``.
            ModelError: the engine failed.
        """
        return self.score_tokens(self.tokenize(prompt), [self.tokenize(c, special=False) for c in continuations])

    def score_tokens(self, prompt: np.ndarray, continuations: Sequence[np.ndarray]) -> np.ndarray:
        """``score`` for token ids int32 ``[K]``: exactly the tokens that were sampled, whatever their text."""
        started = time.perf_counter()
        out = np.zeros(len(continuations))
        todo = [i for i, c in enumerate(continuations) if len(c)]
        if not todo:
            return out
        with self._lock:
            prompt = np.asarray(prompt, np.int32)
            context, _, logits = self._prefill(prompt, max(len(continuations[i]) for i in todo))
            normaliser = log_normaliser(logits, self._scratch)
            for i in todo:
                out[i] = float(logits[continuations[i][0]]) - normaliser
            # Sorted, so that continuations with a common beginning meet in one trie.
            todo = sorted((i for i in todo if len(continuations[i]) > 1), key=lambda i: tuple(continuations[i]))
            while todo:
                trie = Trie(continuations, todo, N_BRANCHES, self.n_ctx - len(prompt))
                context.score(trie, out)
                todo = todo[trie.taken :]
                self.counters.scored += len(trie.tokens)
            self.counters.seconds += time.perf_counter() - started
        return out

    # ------------------------------------------------------------------------------------------------ housekeeping
    def forget(self) -> None:
        """Drop every kept prompt: the next call is a cold one."""
        with self._lock:
            for context in self._contexts:
                context.forget()

    def close(self) -> None:
        """Free weights and caches; any later call raises ``ModelError``."""
        with self._lock:
            for context in self._contexts:
                context.close()
            self._contexts = []
            if self._model is not None:
                self._lib.llama_model_free(self._model)
            self._model = None

    def __enter__(self) -> Llama:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cores() -> int:
    """``$EVOLVENT_THREADS``, or the cores this process may use. On a machine busy with other work fewer are faster."""
    named = os.environ.get("EVOLVENT_THREADS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
