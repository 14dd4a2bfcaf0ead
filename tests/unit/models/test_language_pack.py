"""Packed rows: each sequence can be read back, nothing shared is stored twice, and runs cover the row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.models.language.pack import batches, pack

SEQUENCES = st.lists(
    st.lists(st.integers(0, 2), max_size=8).map(lambda s: np.array(s, np.int32)), min_size=1, max_size=9
)


@settings(max_examples=150, deadline=None)
@given(SEQUENCES, st.integers(1, 20))
def test_every_prefix_is_there_once(sequences, merge):
    packed = pack(sequences, merge)
    for i, sequence in enumerate(sequences):
        at = packed.where(i)
        assert packed.token_ids[at].tolist() == sequence.tolist()
        assert packed.positions[at].tolist() == list(range(len(sequence)))
    prefixes = {tuple(s[: k + 1]) for s in sequences for k in range(len(s))}
    assert len(packed.token_ids) == len(prefixes)


@settings(max_examples=100, deadline=None)
@given(SEQUENCES, st.integers(1, 20))
def test_a_run_and_its_parents_are_a_prefix(sequences, merge):
    packed, start = pack(sequences, merge), 0
    for run in packed.runs:
        assert run.start == start and sum(run.parts) == run.length
        assert sum(packed.runs[p].length for p in run.parents) == run.depth
        assert all(len(packed.runs[p].parts) == 1 for p in run.parents)
        assert len(run.parts) == 1 or run.length <= merge
        start += run.length
    assert start == len(packed.token_ids)


@settings(max_examples=100, deadline=None)
@given(SEQUENCES, st.integers(1, 12))
def test_batches_hold_every_sequence_once_and_keep_the_bound(sequences, bound):
    groups = batches(sequences, bound)
    assert sorted(i for group in groups for i in group) == list(range(len(sequences)))
    for group in groups:
        assert len(group) == 1 or len(pack([sequences[i] for i in group]).token_ids) <= bound


def test_a_conversation_is_one_chain():
    turns = [np.arange(n) for n in (3, 7, 12, 20)]
    packed = pack(turns)
    assert len(packed.token_ids) == 20 and [run.length for run in packed.runs] == [3, 4, 5, 8]
