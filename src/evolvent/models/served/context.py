"""One llama.cpp context: a prompt kept in its KV cache, evaluated so that what was kept changes nothing.

Reuse must not show in the numbers, else a resumed run would differ from an uninterrupted one. On CPU the engine's
kernels take rows in blocks, with other code for what is left over and for a single row; sums over the cache depend on
where in it a token lies; and activations are rounded to 8 bits, which makes a difference of 1e-7 one of 0.5 in the
logits now and then. All is pinned down here: a prompt is evaluated in multiples of eight rows (filled up with rows of a
sequence of their own), without flash attention, each token in the cell of its position, and what was generated is
forgotten after the call. Logits after a warm and a cold evaluation of a prompt are then equal bit by bit (tested).

Scores of the same set of continuations are equal bit by bit too, whatever their order. A set that differs puts a
continuation into other cells, which can move its score by that rounding: usually 0, seen up to 0.15 in 27 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.errors import ModelError
from evolvent.models.sampling import log_normaliser
from evolvent.models.served import engine

N_BRANCHES = 48  # continuations scored side by side
N_OUTPUTS = 128  # rows of logits at a time; the engine's buffer is [N_OUTPUTS, vocabulary] float32
_ROWS = 8  # rows per block; 4 is enough for plain 4-bit weights, K-quants need 8
_PROMPT, _FILL = 0, N_BRANCHES + 1  # sequence ids; branch b is b + 1


def common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the longest common prefix of two int arrays."""
    n = min(len(a), len(b))
    differ = a[:n] != b[:n]
    first = int(differ.argmax()) if n else 0
    return first if n and differ[first] else n


class Trie:
    """The inner nodes of a trie over token sequences, parents before children: a shared beginning is evaluated once.

    It takes from the front of ``order`` (what still waits, common beginnings neighbours, two tokens or more each) at
    most ``max_branches`` sequences and ``max_nodes`` nodes, and the first sequence always.

    Attributes:
        taken: how many of ``order`` this trie holds.
        tokens, depths: int32 ``[N]`` of the inner nodes; depth 0 follows the prompt.
        branches, branch_offsets: branch numbers (0 … taken - 1) through node ``i`` are
            ``branches[branch_offsets[i] : branch_offsets[i + 1]]``.
        edges: for node ``i`` the pairs (index into ``sequences``, token) whose log-probability its logits give.
    """

    def __init__(
        self, sequences: Sequence[np.ndarray], order: Sequence[int], max_branches: int, max_nodes: int
    ) -> None:
        children: dict[tuple[int, int], int] = {}
        tokens: list[int] = []
        depths: list[int] = []
        through: list[list[int]] = []
        self.edges: list[list[tuple[int, int]]] = []
        self.taken = 0
        for which in order[:max_branches]:
            sequence = [int(t) for t in sequences[which]]
            if self.taken and len(tokens) + len(sequence) - 1 > max_nodes:
                break
            node = -1
            for depth, token in enumerate(sequence[:-1]):
                child = children.setdefault((node, token), len(tokens))
                if child == len(tokens):
                    tokens.append(token)
                    depths.append(depth)
                    through.append([])
                    self.edges.append([])
                node = child
                through[node].append(self.taken)
                self.edges[node].append((which, sequence[depth + 1]))
            self.taken += 1
        self.tokens = np.array(tokens, np.int32)
        self.depths = np.array(depths, np.int32)
        self.branches = np.array([b for row in through for b in row], np.int32)
        self.branch_offsets = np.concatenate([[0], np.cumsum([len(row) for row in through])]).astype(np.int64)


class Context:
    """Room for ``n_ctx`` tokens. Not thread safe; ``Llama`` holds the lock.

    ``cached`` are the tokens of the prompt whose keys and values are in the cache.
    """

    def __init__(self, ffi: Any, lib: Any, model: Any, n_ctx: int, n_threads: int) -> None:
        self._ffi, self._lib, self.n_ctx = ffi, lib, n_ctx
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = n_ctx + 2 * _ROWS
        params.n_seq_max = N_BRANCHES + 2
        params.n_outputs_max, params.n_outputs_max_per_seq = N_OUTPUTS, 0
        params.n_threads = params.n_threads_batch = n_threads
        params.kv_unified, params.flash_attn_type = True, 0
        self._context = lib.llama_init_from_model(model, params)
        if self._context == ffi.NULL:
            self._context = None
            raise ModelError(
                "no context of this size can be made",
                got=f"n_ctx={n_ctx}: {engine.last_messages()}",
                where="llama.cpp",
                do="use a smaller n_ctx, or free memory",
            )
        self._memory = lib.llama_get_memory(self._context)
        self.n_vocab: int = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self._scratch = np.empty(self.n_vocab, np.float32)
        self._logits = np.empty(self.n_vocab, np.float32)
        self._cached = np.zeros(n_ctx, np.int32)
        self._n = 0
        self.used = 0
        self._allocate_batch()

    def _allocate_batch(self) -> None:
        """Arrays that the engine's batch points into, filled by numpy: no Python work per token."""
        n, cast = self.n_ctx + 2 * _ROWS, self._ffi.cast
        self._tokens, self._positions, self._n_seqs = (np.zeros(n, np.int32) for _ in range(3))
        self._wanted, self._seq_pointers = np.zeros(n, np.int8), np.zeros(n, np.uint64)
        self._seq_ids = np.zeros(2 + N_OUTPUTS * N_BRANCHES, np.int32)  # [prompt, fill, lists of branches …]
        self._seq_ids[:2] = _PROMPT, _FILL
        self._pool = self._seq_ids.ctypes.data
        batch = self._batch = self._ffi.new("llama_batch *")
        batch.token = cast("llama_token *", self._tokens.ctypes.data)
        batch.pos = cast("llama_pos *", self._positions.ctypes.data)
        batch.n_seq_id = cast("int32_t *", self._n_seqs.ctypes.data)
        batch.seq_id = cast("llama_seq_id **", self._seq_pointers.ctypes.data)
        batch.logits = cast("int8_t *", self._wanted.ctypes.data)

    @property
    def cached(self) -> np.ndarray:
        """Tokens of the last prompt, int32 ``[n]``."""
        return self._cached[: self._n]

    def prefill(self, tokens: np.ndarray) -> tuple[int, np.ndarray]:
        """Evaluate a prompt int32 ``[n]``, n >= 1: how many tokens were kept from before, and the logits after it.

        The logits, float32 ``[V]``, stay valid until the next prompt; the same prompt again costs nothing.
        """
        k = common_prefix(self.cached, tokens)
        again = k == len(tokens) == self._n
        self._n = k = k if again else min(k, len(tokens) - 1)  # a last token is evaluated anew, for its logits
        # Clears what was generated, and what an interrupted call may have left. Recurrent states cannot be cut.
        if not self._lib.llama_memory_seq_rm(self._memory, _PROMPT, k, -1):
            self.forget()
            again, k = False, 0
        if again:
            return k, self._logits
        n = len(tokens) - k
        self._tokens[:n] = tokens[k:]
        self._positions[:n] = np.arange(k, len(tokens))
        self._n_seqs[:n] = 1
        self._seq_pointers[:n] = self._pool
        self._wanted[:n] = 0
        self._wanted[n - 1] = 1
        self._evaluate_filled(n, wanted=0)
        self._logits[:] = self.row(n - 1)
        self._cached[: len(tokens)] = tokens
        self._n = len(tokens)
        return k, self._logits

    def step(self, token: int, position: int) -> None:
        """Evaluate one sampled token; its logits are row 0."""
        self._tokens[0], self._positions[0] = token, position
        self._n_seqs[0] = self._wanted[0] = 1
        self._seq_pointers[0] = self._pool
        self._evaluate(1)

    def row(self, i: int) -> np.ndarray:
        """Logits float32 ``[V]`` of batch entry ``i``: a view, valid until the next evaluation."""
        pointer = self._lib.llama_get_logits_ith(self._context, i)
        return np.frombuffer(self._ffi.buffer(pointer, 4 * self.n_vocab), np.float32)

    def score(self, trie: Trie, out: np.ndarray) -> None:
        """Evaluate a trie's inner nodes behind the prompt; add each edge's log-probability to ``out`` ``[N]``."""
        lib, offsets = self._lib, trie.branch_offsets
        try:
            for branch in range(1, trie.taken + 1):
                lib.llama_memory_seq_cp(self._memory, _PROMPT, branch, 0, self._n)
            for start in range(0, len(trie.tokens), N_OUTPUTS):
                stop = min(start + N_OUTPUTS, len(trie.tokens))
                n, first = stop - start, offsets[start]
                ids = trie.branches[first : offsets[stop]]
                self._seq_ids[2 : 2 + len(ids)] = ids + 1
                self._tokens[:n] = trie.tokens[start:stop]
                self._positions[:n] = trie.depths[start:stop] + self._n
                self._n_seqs[:n] = np.diff(offsets[start : stop + 1])
                self._seq_pointers[:n] = self._pool + 4 * (2 + offsets[start:stop] - first)
                self._wanted[:n] = 1
                self._evaluate_filled(n, wanted=1)
                for i in range(n):
                    logits = self.row(i)
                    normaliser = log_normaliser(logits, self._scratch)
                    for which, token in trie.edges[start + i]:
                        out[which] += float(logits[token]) - normaliser
        finally:
            for branch in range(1, trie.taken + 1):
                lib.llama_memory_seq_rm(self._memory, branch, -1, -1)

    def _evaluate_filled(self, n: int, *, wanted: int) -> None:
        """Evaluate ``n`` rows, filled up to a multiple of ``_ROWS``."""
        more = slice(n, n - n % -_ROWS)
        self._tokens[more] = self._tokens[0]
        self._positions[more] = np.arange(more.stop - n)
        self._n_seqs[more] = 1
        self._seq_pointers[more] = self._pool + 4
        self._wanted[more] = wanted
        try:
            self._evaluate(more.stop)
        finally:
            self._lib.llama_memory_seq_rm(self._memory, _FILL, -1, -1)

    def _evaluate(self, n: int) -> None:
        self._batch.n_tokens = n
        code = self._lib.llama_decode(self._context, self._batch[0])
        if code:
            raise ModelError(
                "the engine could not evaluate a batch",
                got=f"code {code}, {n} rows: {engine.last_messages()}",
                where="llama_decode",
                do=f"load the model with a larger n_ctx than {self.n_ctx}" if code == 1 else "",
            )

    def forget(self) -> None:
        """Empty the cache."""
        self._lib.llama_memory_clear(self._memory, False)
        self._n = 0

    def close(self) -> None:
        """Free the engine's memory."""
        if self._context is not None:
            self._lib.llama_free(self._context)
        self._context = None


def choose(prompts: list[np.ndarray], used: list[int], tokens: np.ndarray, limit: int) -> int:
    """Which of the cached prompts the next one should replace; ``len(prompts)`` means a new context.

    The one with the longest common prefix, unless that would throw away three times what it saves: then the prompts
    are of two kinds, and a new context, or beyond ``limit`` the one used longest ago, serves the new kind.
    """
    if not prompts:
        return 0
    shared = [common_prefix(k, tokens) for k in prompts]
    best = int(np.argmax(shared))
    if 4 * shared[best] >= len(prompts[best]):
        return best
    empty = [i for i, k in enumerate(prompts) if not len(k)]
    if empty:
        return empty[0]
    return len(prompts) if len(prompts) < limit else int(np.argmin(used))
