"""Models without weights: scripted replies, the names that ``load`` knows, grammars, tries, sampling."""

import json

import numpy as np
import pytest

from evolvent import models
from evolvent.core.errors import BadInput, ModelError
from evolvent.core.protocols import cut
from evolvent.models.sampling import log_normaliser, sample
from evolvent.models.served.context import Trie, choose, common_prefix
from evolvent.models.served.grammar import schema_grammar
from evolvent.models.served.scripted import Scripted
from evolvent.testing.model import check_model


# ------------------------------------------------------------------------------------------------ scripted
def test_scripted_passes_conformance():
    check_model(Scripted(lambda p: " Wednesday, Thursday"), samples=False)


def test_replies_in_order_then_none_left():
    model = Scripted(["one", "two\nthree"])
    assert [model.generate("a").text, model.generate("b", stop=["\n"]).text] == ["one", "two"]
    assert model.prompts == ["a", "b"]
    with pytest.raises(ModelError, match="no reply is left"):
        model.generate("c")


def test_replies_by_prompt():
    model = Scripted({"a": "x", "*": "y"})
    assert (model.generate("a").text, model.generate("b").text) == ("x", "y")
    with pytest.raises(ModelError, match="no reply is written"):
        Scripted({"a": "x"}).generate("b")


def test_scores_uniform_by_table_and_by_function():
    assert np.allclose(Scripted().score("p", ["a", "b"]), np.log(0.5))
    assert Scripted(scores={"a": -1.0, "b": -2.0}).score("p", ["b", "a"]).tolist() == [-2.0, -1.0]
    assert Scripted(scores=lambda p, c: -len(p + c)).score("p", ["ab"]).tolist() == [-3.0]
    with pytest.raises(ModelError, match="no score"):
        Scripted(scores={"a": -1.0}).score("p", ["b"])


def test_cut_takes_the_first_stop():
    assert cut("a;b\nc", ["\n", ";", ""]) == ("a", ";")
    assert cut("a", [";"]) == ("a", "")


# ------------------------------------------------------------------------------------------------ load
def test_load_by_name(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"replies": ["hello"]}))
    assert models.load(f"scripted:{path}").generate("").text == "hello"
    none = models.load("none")
    assert none.score("p", ["a"]).tolist() == [0.0]
    with pytest.raises(ModelError):
        none.generate("p")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("smollm3", "qwen2.5-coder-1.5b"),
        ("remote:x", "remote:MODEL@http"),
        ("scripted:missing.json", "cannot be read"),
        ("missing.gguf", "no such model file"),
    ],
)
def test_names_that_do_not_load(spec, says):
    with pytest.raises((BadInput, ModelError), match=says):
        models.load(spec)


def test_the_catalogue_is_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path))
    rows = models.cached_models()
    assert {"smollm2-135m", "qwen2.5-coder-1.5b", "gemma-3-270m"} == {r["name"] for r in rows}
    assert not any(r["cached"] for r in rows)


def test_a_file_that_is_no_gguf(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelError, match="not a GGUF"):
        models.load(str(path))


def test_a_library_that_is_none(tmp_path, monkeypatch):
    from evolvent.models.served import engine

    engine.load.cache_clear()
    monkeypatch.setenv(engine.LIBRARY_VARIABLE, str(tmp_path / "missing.so"))
    with pytest.raises(ModelError, match="no such library"):
        engine.load()
    (tmp_path / "missing.so").write_bytes(b"not a library")
    with pytest.raises(ModelError, match="cannot be used"):
        engine.load()
    monkeypatch.undo()
    engine.load()


def test_another_struct_layout_is_refused(monkeypatch):
    import cffi

    from evolvent.models.served import engine

    shifted = engine._CDEF.replace("uint32_t n_ctx; uint32_t n_batch;", "uint64_t n_ctx; uint32_t n_batch;")
    ffi = cffi.FFI()
    ffi.cdef(shifted)
    with pytest.raises(ModelError, match="struct layout"):
        engine._check_layout(ffi, ffi.dlopen(str(engine._library_path())), engine._library_path())


# ------------------------------------------------------------------------------------------------ tries and prefixes
def test_a_trie_shares_beginnings_and_keeps_parents_first():
    c = [np.array(x) for x in ([1, 2, 3], [1, 2, 4], [1, 5, 6], [7, 8])]
    t = Trie(c, [0, 1, 2, 3], 48, 100)
    assert t.taken == 4 and t.tokens.tolist() == [1, 2, 5, 7] and t.depths.tolist() == [0, 1, 1, 0]
    assert [t.branches[a:b].tolist() for a, b in zip(t.branch_offsets, t.branch_offsets[1:], strict=False)] == [
        [0, 1, 2],
        [0, 1],
        [2],
        [3],
    ]
    assert t.edges == [[(0, 2), (1, 2), (2, 5)], [(0, 3), (1, 4)], [(2, 6)], [(3, 8)]]


def test_a_trie_stops_at_its_limits():
    c = [np.arange(i, i + 5) for i in range(0, 50, 10)]
    assert Trie(c, range(5), 2, 100).taken == 2
    assert Trie(c, range(5), 48, 9).taken == 2
    assert Trie(c, range(5), 48, 1).taken == 1, "the first is always taken"


def test_common_prefix():
    a = np.array([1, 2, 3])
    assert [common_prefix(a, np.array(b)) for b in ([1, 2, 3, 4], [1, 2], [1, 9, 3], [9], [])] == [3, 2, 1, 0, 0]


def test_a_prompt_of_another_kind_gets_a_context_of_its_own():
    one, two = np.arange(100), np.arange(1000, 1100)
    assert choose([np.array([])], [0], one, 2) == 0, "an empty context is used"
    assert choose([one], [1], np.concatenate([one[:60], two]), 2) == 0, "same kind: replace its tail"
    assert choose([one], [1], two, 2) == 1, "another kind: a new context"
    assert choose([one, two], [5, 4], np.arange(2000, 2010), 2) == 1, "no room: the one used longest ago"
    assert choose([one, two], [5, 4], two[:50], 2) == 1


# ------------------------------------------------------------------------------------------------ sampling
def test_sampling_follows_softmax_and_nucleus():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    rng = np.random.default_rng(0)
    n = 20_000

    def share(**k):
        drawn = np.bincount([sample(logits, k.get("t", 1.0), k.get("p", 1.0), rng) for _ in range(n)], minlength=4) / n
        return drawn

    assert np.abs(share() - [0.5, 0.3, 0.15, 0.05]).max() < 0.015
    assert np.abs(share(p=0.8) - [0.625, 0.375, 0, 0]).max() < 0.015
    assert np.abs(share(p=0.81) - np.array([0.5, 0.3, 0.15, 0]) / 0.95).max() < 0.015
    squared = np.array([0.5, 0.3, 0.15, 0.05]) ** 2
    assert np.abs(share(t=0.5) - squared / squared.sum()).max() < 0.015


def test_forbidden_tokens_are_never_drawn():
    logits = np.array([5.0, -np.inf, 0.0], np.float32)
    rng = np.random.default_rng(0)
    assert 1 not in {sample(logits, 2.0, p, rng) for p in (1.0, 0.99) for _ in range(500)}


def test_log_normaliser():
    x = np.random.default_rng(0).normal(0, 5, 150_000).astype(np.float32)
    exact = np.log(np.exp(x.astype(np.float64)).sum())
    assert abs(log_normaliser(x, np.empty_like(x)) - exact) < 1e-5


# ------------------------------------------------------------------------------------------------ grammars
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "string", "pattern": "a+"}, "pattern"),
        ({"type": "integer", "minimum": 1}, "minimum"),
        ({"allOf": [{}]}, "allOf"),
        ({"type": "date"}, "unknown JSON type"),
        ({"$ref": "#/$defs/x"}, "does not resolve"),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "not described"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "do not fit"),
        (3, "not a JSON schema"),
    ],
)
def test_schemas_that_a_grammar_cannot_enforce_are_refused(schema, says):
    with pytest.raises(BadInput, match=says):
        schema_grammar(schema)


def test_the_place_of_a_schema_error_is_named():
    with pytest.raises(BadInput, match="schema/properties/a/items"):
        schema_grammar({"properties": {"a": {"type": "array", "items": {"format": "date"}}}})


def test_a_function_of_ones_own_is_a_model(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def answer(prompt):\n    return prompt.upper()\n\nother = 3\n")
    assert models.load(str(file)).generate("so").text == "SO" == models.load(f"{file}:answer").generate("so").text
    with pytest.raises(BadInput, match="not a model"):
        models.load(f"{file}:other")
    with pytest.raises(BadInput, match="no such file"):
        models.load(str(tmp_path / "none.py"))
