"""The local model on real weights: what it samples, what it scores, and that reuse does not show in the numbers."""

import json
import threading

import numpy as np
import pytest

from evolvent import models
from evolvent.core.errors import BadInput, ModelError
from evolvent.testing.model import check_model

pytestmark = pytest.mark.model

HEAD = "You are in a house and tidy up: take each loose thing, then put it in its usual place.\n\n"
PROMPT = HEAD + "In the kitchen. Loose things: dirty fork, apple. Holding: nothing.\n>"
COMMANDS = [
    " take the dirty fork",
    " take the apple",
    " open the door to the north",
    " put the apple in the fridge",
    " look around",
    " take the dirty fork and wash it",
    " go north",
    " take the apple",
]


@pytest.fixture(scope="module")
def model():
    """SmolLM2-135M, fetched into the cache at first use."""
    m = models.load("smollm2-135m", n_ctx=1024)
    yield m
    m.close()


def logits(model, prompt):
    _, kept, row = model._prefill(model.tokenize(prompt), 1)
    return row.copy(), kept


def test_conformance(model):
    check_model(model)


def test_tokens_round_trip(model):
    text = "Wie geht's, Ω 東京 🙂?\n  tabs\tand spaces"
    assert model.detokenize(model.tokenize(text)) == text


def test_tokens_are_those_sampled(model):
    done = model.generate(PROMPT, max_tokens=12, temperature=1.0, seed=4)
    assert done.text == model.detokenize(done.token_ids)
    assert len(done.token_ids) == len(done.logp) == 12 and done.finish == "length"


def test_a_stop_string_across_tokens_is_cut_and_its_tokens_stay(model):
    whole = model.generate(PROMPT, max_tokens=16)
    stop = whole.text[9:15]  # begins and ends inside tokens
    done = model.generate(PROMPT, max_tokens=16, stop=["never seen", stop])
    assert done.text == whole.text[: whole.text.index(stop)] and done.finish == "stop"
    n = len(done.token_ids)
    assert done.token_ids.tolist() == whole.token_ids[:n].tolist() and stop in model.detokenize(done.token_ids)


# ------------------------------------------------------------------------------------------------ reuse
def test_reuse_does_not_show_in_the_logits(model):
    """Bit by bit: cold, after a prompt with a common beginning, after generation, after scoring."""
    model.forget()
    cold, kept = logits(model, PROMPT)
    assert kept == 0
    for before in (PROMPT, PROMPT[:-30], HEAD + "Another question altogether, and a longer one", PROMPT + " take"):
        model.forget()
        logits(model, before)
        model.generate(before, max_tokens=5)
        model.score(before, COMMANDS)
        warm, kept = logits(model, PROMPT)
        assert kept > 10 and np.array_equal(cold, warm)


def test_warm_text_equals_cold_text(model):
    model.forget()
    cold = model.generate(PROMPT, max_tokens=24)
    model.generate(HEAD + "In the hall. Loose things: coat.\n>", max_tokens=8)
    warm = model.generate(PROMPT, max_tokens=24)
    assert cold.cached_tokens == 0 and warm.cached_tokens >= 15
    assert warm.text == cold.text and np.array_equal(warm.logp, cold.logp)


def test_two_kinds_of_prompt_keep_their_beginnings(model):
    model.forget()
    other = "Write one SQLite query for the question. " * 6
    cached = []
    for i in range(3):
        cached += [model.generate(p + f"Nr. {i}:", max_tokens=1).cached_tokens for p in (HEAD * 2, other)]
    assert cached[:2] == [0, 0] and min(cached[2:]) > 30


# ------------------------------------------------------------------------------------------------ scoring
def test_a_batch_of_commands_scores_as_one_by_one(model):
    batch = model.score(PROMPT, COMMANDS)
    single = np.array([model.score(PROMPT, [c])[0] for c in COMMANDS])
    assert batch[1] == batch[7]
    # Activations are rounded to 8 bits, and another cell of the cache can tip one (see models.context): most are equal
    # bit by bit, the others within a hundredth of a nat a token.
    n = [len(model.tokenize(c, special=False)) for c in COMMANDS]
    assert (np.abs(batch - single) <= 0.01 * np.array(n)).all()
    assert (np.abs(batch - single) <= 1e-4).sum() >= 4
    assert np.argsort(batch).tolist() == np.argsort(single).tolist()


def test_one_more_continuation_behind_changes_nothing(model):
    """Where a continuation keeps its cells its score is equal bit by bit."""
    alone = model.score(PROMPT, [COMMANDS[3]])
    assert np.array_equal(model.score(PROMPT, [COMMANDS[3]] * 3), np.repeat(alone, 3))


def test_scores_do_not_depend_on_order_or_history(model):
    first = model.score(PROMPT, COMMANDS)
    model.generate(HEAD + "Something else", max_tokens=3)
    assert np.array_equal(model.score(PROMPT, COMMANDS[::-1])[::-1], first)


def test_many_long_continuations_stay_within_rounding(model):
    many = [
        f" SELECT COUNT(*) FROM flights WHERE month={m} AND {c} IS NULL AND day>{m}\n"
        for m in range(1, 5)
        for c in ("dep_time", "arr_time", "tailnum", "air_time", "dest")
    ]
    scored = model.score(PROMPT, many)
    for i in (0, 11, 19):
        n = len(model.tokenize(many[i], special=False))
        assert abs(model.score(PROMPT, [many[i]])[0] - scored[i]) < 0.02 * n


def test_generated_tokens_score_what_they_were_sampled_with(model):
    done = model.generate(PROMPT, max_tokens=20, temperature=0.7, seed=1)
    score = model.score_tokens(model.tokenize(PROMPT), [done.token_ids])[0]
    assert abs(score - float(done.logp.sum())) < 0.05 * len(done.logp)


def test_scores_follow_the_chain_rule(model):
    a, b = " take the apple", " and eat it"
    ids = [model.tokenize(t, special=False) for t in (a, b)]
    prompt = model.tokenize(PROMPT)
    whole = model.score_tokens(prompt, [np.concatenate(ids)])[0]
    parts = model.score_tokens(prompt, ids[:1])[0] + model.score_tokens(np.concatenate([prompt, ids[0]]), ids[1:])[0]
    assert abs(whole - parts) < 0.05 * len(np.concatenate(ids))


def test_probabilities_of_all_first_tokens_sum_to_one(model):
    ids = np.arange(model.n_vocab)
    total = np.exp(model.score_tokens(model.tokenize(PROMPT), ids[:, None])).sum()
    assert abs(total - 1.0) < 1e-4


# ------------------------------------------------------------------------------------------------ constraints
SCHEMAS = [
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}},
        "required": ["name"],
    },
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": ["null", "number"]}, "c": {"const": "x"}},
    },
    {"type": "array", "items": {"enum": ["ja", 'n"ein', 3, None]}, "minItems": 2, "maxItems": 4},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "required": ["v"],
                "properties": {
                    "v": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": 3}]},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1},
                },
            }
        },
    },
]


def fits(value, schema, root):
    """An independent check of the few keywords above."""
    if "$ref" in schema:
        return fits(value, root["$defs"]["tree"], root)
    if "anyOf" in schema:
        return any(fits(value, s, root) for s in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, kinds[k]) for k in names):
        return False
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 99)
    if isinstance(value, list):
        size = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 99)
        return size and all(fits(v, schema["items"], root) for v in value)
    if isinstance(value, dict):
        known = all(k in schema["properties"] and fits(v, schema["properties"][k], root) for k, v in value.items())
        return known and set(schema.get("required", ())) <= set(value)
    return True


@pytest.mark.parametrize("schema", SCHEMAS)
def test_json_schema_is_kept(model, schema):
    ends = set()
    for settings in ({}, {"temperature": 1.5, "seed": 1}, {"temperature": 1.2, "top_p": 0.9, "seed": 2}):
        done = model.generate("JSON:", json_schema=schema, max_tokens=120, **settings)
        if done.finish == "stop":
            assert fits(json.loads(done.text), schema, schema), done.text
        ends.add(done.finish)
    assert "stop" in ends


def test_a_grammar_leaves_the_choice_to_the_model(model):
    done = model.generate("Water is wet. True or false?", grammar='root ::= " True" | " False"')
    assert done.text in (" True", " False") and done.finish == "stop"
    scores = model.score("Water is wet. True or false?", [" True", " False"])
    assert done.text == (" True", " False")[int(scores.argmax())]


def test_sampling_under_a_grammar_follows_the_model(model):
    """The share of each first token over many seeds is the model's own, renormalised over what the grammar allows."""
    prompt, answers, n = "The colour is", [" red", " blue", " "], 60
    grammar = 'root ::= " red" | " blue"'
    drawn = [model.generate(prompt, grammar=grammar, max_tokens=1, temperature=1.0, seed=s).text for s in range(n)]
    p = np.exp([model.score(prompt, [a])[0] for a in answers])
    for answer, expected in zip(answers, p / p.sum(), strict=True):
        assert abs(drawn.count(answer) / n - expected) < 4 * np.sqrt(expected * (1 - expected) / n) + 0.01
    nuclear = model.generate(prompt, grammar=grammar, max_tokens=4, temperature=1.0, top_p=0.5, seed=1)
    assert nuclear.text in answers[:2]


def test_a_grammar_that_does_not_parse(model):
    with pytest.raises(BadInput, match="grammar cannot be parsed"):
        model.generate("x", grammar="root ::= (")
    with pytest.raises(BadInput, match="two constraints"):
        model.generate("x", grammar='root ::= "a"', json_schema={})


# ------------------------------------------------------------------------------------------------ limits
def test_a_prompt_beyond_the_context_names_n_ctx(model):
    with pytest.raises(BadInput, match="n_ctx = 1024"):
        model.generate("word " * 1100)
    with pytest.raises(BadInput, match="n_ctx = 1024"):
        model.score("word " * 1020, [" a b c d e f g h"])
    with pytest.raises(BadInput, match="n_ctx is out of range"):
        models.load("smollm2-135m", n_ctx=100_000)


def test_the_context_can_be_filled_to_the_last_token():
    with models.load("smollm2-135m", n_ctx=128) as small:
        prompt = "word" + " word" * 120
        n = len(small.tokenize(prompt))
        full = small.generate(prompt, max_tokens=100, grammar='root ::= "a"*')
        assert len(full.token_ids) == 128 - n and full.finish == "length"
        scores = small.score(prompt, [" a b c d e", " d", "", " f g h i", *(f" {i} x y" for i in range(60))])
        assert np.isfinite(scores).all() and scores[2] == 0.0 and (scores[3:] < 0).all()


def test_threads_take_turns(model):
    expected = {i: model.generate(f"{HEAD}{i}", max_tokens=6).text for i in range(4)}
    got = {}

    def ask(i):
        got[i] = model.generate(f"{HEAD}{i}", max_tokens=6).text

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == expected


def test_a_closed_model_says_so():
    m = models.load("smollm2-135m", n_ctx=64)
    m.close()
    m.close()
    with pytest.raises(ModelError, match="closed"):
        m.generate("x")


def test_counters_and_identity(model):
    before = (model.counters.prompt, model.counters.sampled)
    done = model.generate(PROMPT, max_tokens=3)
    assert (model.counters.prompt, model.counters.sampled) == (before[0] + done.prompt_tokens, before[1] + 3)
    assert "b179c9523d0e6a0f" in model.identity


def test_a_damaged_file(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match="cannot be loaded"):
        models.load(str(path))


def test_completions_come_from_the_cache(model, tmp_path):
    Cached = pytest.importorskip("cached_model").Cached
    first = Cached(model, tmp_path / "c.db")
    done = first.generate(PROMPT, max_tokens=5, temperature=1.0, seed=1)
    scored = first.score(PROMPT, COMMANDS)
    first.close()
    again = Cached(model, tmp_path / "c.db")
    kept = again.generate(PROMPT, max_tokens=5, temperature=1.0, seed=1)
    assert kept.text == done.text and np.array_equal(kept.logp, done.logp) and kept.seconds == done.seconds
    assert np.array_equal(again.score(PROMPT, COMMANDS), scored)
    assert (again.hits, again.misses) == (2, 0)
    again.generate(PROMPT, max_tokens=5, temperature=1.0, seed=2)
    assert again.misses == 1
    again.close()
