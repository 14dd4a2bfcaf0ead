"""Whatever happened to a memory: out and in again gives the same bytes, to the other engine and back too."""

import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evolvent.core.errors import BadInput
from evolvent.memory.maintenance import transfer
from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store.opening import open_store

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30).filter(
    lambda text: text.strip()
)
NAME = st.sampled_from(["a", "ß", "naïve word", '"quoted"', "back\\slash", "\u2028", "🙂"])
STEP = st.one_of(
    st.tuples(st.just("remember"), TEXT, TEXT, NAME),
    st.tuples(st.just("recall"), TEXT, st.integers(0, 4), st.floats(-3.0, 5.0)),
    st.tuples(st.just("invalid"), TEXT, NAME),
    st.tuples(st.just("archive"), st.integers(1, 8), TEXT),
    st.tuples(st.just("supersede"), st.integers(1, 8), TEXT),
    st.tuples(st.just("note"), NAME, st.recursive(st.none() | st.integers() | TEXT, lambda inner: st.lists(inner))),
)


def drive(path, steps, policy):
    with Memory(path, policy=policy, embedder="hash:16", reward_range=(-3.0, 5.0), sync="normal") as memory:
        for verb, *rest in steps:
            try:
                if verb == "remember":
                    memory.remember(rest[0], rest[1], kind=rest[2], source=rest[2])
                elif verb == "recall":
                    r = memory.recall(rest[0], k=rest[1])
                    memory.remember(rest[0], "under a receipt", parents=r, merge=0.2)
                    memory.settle(r, rest[2], action=rest[0])
                elif verb == "invalid":
                    memory.settle(memory.recall(rest[0]), None, valid=False, idempotency_key=rest[1])
                elif verb == "archive":
                    memory.archive(f"m{rest[0]}", rest[1])
                elif verb == "supersede":
                    memory.remember("key", rest[1], supersedes=f"m{rest[0]}")
                else:
                    memory.meta_set(rest[0], rest[1])
            except BadInput:
                pass  # unknown ids: part of the game


def exported(path):
    store = open_store(path, create=False)
    out = io.BytesIO()
    result = transfer.export_jsonl(store, out)
    assert result.digest == transfer.digest(store)
    store.close()
    return out.getvalue()


def same_answers(paths, steps):
    """Recalls after a copy give what they give in the original, with the same ids."""
    tasks = [rest[0] for verb, *rest in steps if verb in ("remember", "recall")][:3] or ["anything"]
    found = []
    for path in paths:
        with Memory(path, policy="memlift", sync="normal") as memory:
            found.append([memory.recall(task, k=5) for task in tasks])
            found[-1].append(memory.items(None))
            found[-1].append(memory.remember("after the copy", "after the copy"))
            assert verify(memory) == [] and memory.rebuild_values() == 0
    assert all(answers == found[0] for answers in found)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=14), st.sampled_from(["memlift", "memq"]))
def test_export_import_export_is_the_same_bytes(steps, policy):
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a.db"), Path(folder, "b.db")
        drive(a, steps, policy)
        first = exported(a)
        Path(folder, "a.jsonl").write_bytes(first)
        transfer.import_jsonl(b, Path(folder, "a.jsonl"))
        assert exported(b) == first
        same_answers((a, b), steps)


@pytest.mark.postgres
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEP, min_size=4, max_size=14), st.sampled_from(["memlift", "memq"]), st.uuids())
def test_to_postgresql_and_back_is_the_same_digest(postgres_store, steps, policy, name):
    with tempfile.TemporaryDirectory() as folder:
        a, there, back = Path(folder, "a.db"), postgres_store(name.hex), Path(folder, "b.db")
        drive(a, steps, policy)
        first = transfer.migrate(a, there)
        assert transfer.migrate(there, back).digest == first.digest
        assert exported(a) == exported(there) == exported(back)
        same_answers((a, there, back), steps)
