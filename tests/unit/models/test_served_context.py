"""One context of the engine: what is kept between prompts, and what happens when the engine fails."""

from types import SimpleNamespace

import numpy as np
import pytest

from evolvent.core.errors import ModelError
from evolvent.models.served import context as served
from evolvent.models.served.context import Context, Trie

VOCAB = 8


class Engine:
    """Stands for llama.cpp: a cell for every token of a sequence; logits say which tokens stand before, in order.

    ``NULL``, ``new``, ``cast`` and ``buffer`` are those of ``cffi``, everything else of the library.
    """

    NULL = None

    def __init__(self):
        self.cells, self.code, self.decoded, self.can_cut, self.made, self.freed = {}, 0, [], True, True, 0
        self.rows = np.zeros((256, VOCAB), np.float32)

    def __getattr__(self, name):
        if name.startswith("llama_"):
            return lambda *args: name
        raise AttributeError(name)

    def new(self, kind):
        return _Batch()

    def cast(self, kind, address):
        return address

    def buffer(self, pointer, size):
        return self.rows[pointer].tobytes()

    def string(self, text):
        return b"why it failed"

    def llama_context_default_params(self):
        return SimpleNamespace()

    def llama_init_from_model(self, model, params):
        self.params = params
        return self if self.made else self.NULL

    def llama_vocab_n_tokens(self, vocab):
        return VOCAB

    def llama_get_logits_ith(self, context, i):
        return i

    def llama_memory_clear(self, memory, data):
        self.cells.clear()

    def llama_memory_seq_rm(self, memory, sequence, start, stop):
        if not self.can_cut and start > 0:
            return False
        kept = self.cells.get(sequence, {})
        self.cells[sequence] = {at: token for at, token in kept.items() if at < max(start, 0)}
        return True

    def llama_memory_seq_cp(self, memory, source, target, start, stop):
        self.cells[target] = {at: t for at, t in self.cells.get(source, {}).items() if start <= at < stop}

    def llama_decode(self, context, batch):
        if self.code:
            return self.code
        box = self.context
        n = batch.n_tokens
        self.decoded.append(n)
        first = box._seq_ids.ctypes.data
        for i in range(n):
            start = (int(box._seq_pointers[i]) - first) // 4
            sequences = box._seq_ids[start : start + int(box._n_seqs[i])].tolist()
            at = int(box._positions[i])
            for sequence in sequences:
                self.cells.setdefault(sequence, {})[at] = int(box._tokens[i])
            self.rows[i] = logits_after([self.cells[sequences[0]][j] for j in range(at + 1)])
        return 0

    def llama_free(self, context):
        self.freed += 1


class _Batch(SimpleNamespace):
    def __getitem__(self, index):
        return self


def logits_after(tokens):
    """Another row for every sequence of tokens, whatever was evaluated before it."""
    return np.random.default_rng([len(tokens), *tokens]).normal(size=VOCAB).astype(np.float32)


def opened(n_ctx=40):
    engine = Engine()
    engine.context = Context(engine, engine, None, n_ctx, 1)
    return engine, engine.context


def prompt(*tokens):
    return np.array(tokens, np.int32)


def test_only_what_is_new_is_evaluated_and_the_logits_are_those_of_the_whole_prompt():
    engine, box = opened()
    for tokens, kept, rows in (
        ((1, 2, 3, 4), 0, 8),  # in blocks of eight rows
        ((1, 2, 3, 4), 4, 0),  # the same again costs nothing
        ((1, 2, 3, 4, 5, 6), 4, 8),
        ((1, 2), 1, 8),  # shorter: the last token anew, for its logits
        ((7,), 0, 8),
    ):
        engine.decoded.clear()
        found, logits = box.prefill(prompt(*tokens))
        assert (found, sum(engine.decoded)) == (kept, rows), tokens
        assert logits.tolist() == logits_after(list(tokens)).tolist()
        assert box.cached.tolist() == list(tokens)
    assert engine.cells[served._PROMPT] == {0: 7}


def test_what_was_sampled_is_forgotten_with_the_next_prompt():
    engine, box = opened()
    box.prefill(prompt(1, 2, 3))
    box.step(6, 3)
    assert box.row(0).tolist() == logits_after([1, 2, 3, 6]).tolist()
    kept, logits = box.prefill(prompt(1, 2, 3))
    assert kept == 3 and logits.tolist() == logits_after([1, 2, 3]).tolist(), "the logits of before are still there"
    assert engine.cells[served._PROMPT] == {0: 1, 1: 2, 2: 3}


def test_a_state_that_cannot_be_cut_is_made_anew():
    engine, box = opened()
    box.prefill(prompt(1, 2, 3, 4))
    engine.can_cut = False
    kept, logits = box.prefill(prompt(1, 2, 5))
    assert kept == 0 and logits.tolist() == logits_after([1, 2, 5]).tolist()


def test_continuations_are_scored_behind_the_prompt_and_leave_nothing_behind():
    engine, box = opened()
    box.prefill(prompt(1, 2))
    sequences = [prompt(3, 4, 5), prompt(3, 4, 6), prompt(7, 1)]
    out = np.zeros(3)
    box.score(Trie(sequences, [0, 1, 2], served.N_BRANCHES, 30), out)
    for tokens, found in zip(sequences, out, strict=True):
        wanted = 0.0
        for at in range(1, len(tokens)):
            row = logits_after([1, 2, *tokens[:at].tolist()]).astype(np.float64)
            wanted += row[tokens[at]] - np.log(np.exp(row).sum())
        assert found == pytest.approx(wanted, abs=1e-5)
    assert {sequence for sequence, cells in engine.cells.items() if cells} == {served._PROMPT}


def test_a_failure_says_why_and_leaves_the_context_usable(monkeypatch):
    monkeypatch.setattr(served.engine, "last_messages", lambda: "no KV slot")
    engine, box = opened()
    box.prefill(prompt(1, 2, 3))
    engine.code = 1
    with pytest.raises(ModelError, match=r"code 1, 8 rows: no KV slot[\s\S]*larger n_ctx than 40"):
        box.prefill(prompt(4, 5))
    engine.code = -3
    with pytest.raises(ModelError, match="code -3") as error:
        box.score(Trie([prompt(3, 4)], [0], 4, 30), np.zeros(1))
    assert "larger n_ctx" not in str(error.value), "more room would not help"
    engine.code = 0
    _, logits = box.prefill(prompt(1, 2, 6))
    assert logits.tolist() == logits_after([1, 2, 6]).tolist(), "nothing of the failed calls is taken for the prompt"
    box.close()
    box.close()
    assert engine.freed == 1


def test_no_room_for_a_context_is_said(monkeypatch):
    monkeypatch.setattr(served.engine, "last_messages", lambda: "out of memory")
    engine = Engine()
    engine.made = False
    with pytest.raises(ModelError, match=r"n_ctx=40: out of memory[\s\S]*smaller n_ctx"):
        Context(engine, engine, None, 40, 1)
