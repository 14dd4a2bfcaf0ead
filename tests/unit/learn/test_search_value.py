"""Learned values of states: what they read, what they learn, the folder that transformers loads, what is refused."""

import json
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.core.errors import BadInput, ModelError
from evolvent.formulas.statistics import auc
from evolvent.learn.critics.search_value import FROZEN, Fit, SearchValue, _paths
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.search.search import State

folder = tiny_language.fixture()
QUICK = Fit(lr=5e-2, epochs=12, steps=1)


def load(folder, **settings):
    return tiny_language.stir(language.load(folder, **({"lora_rank": 4, "dtype": "float32"} | settings)))


def rows(model, n=48):
    """Texts that are worth 1 where their last letter is an ``a``."""
    draw = np.random.default_rng(0)
    texts = ["".join(draw.choice(list("abc"), 6)) for _ in range(n)]
    return [model.encode(t) for t in texts], [float(t[-1] == "a") for t in texts]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("kind", ["value", "process"])
def test_it_learns_and_reads_where_it_was_taught(folder, kind, frozen):
    model = load(folder)
    value = SearchValue(model, kind, frozen=frozen, adapter="policy" if frozen else "value")
    contexts, targets = rows(model)
    before = {k: v.clone() for k, v in model.state_dict("policy").items()}
    metrics = value.fit(contexts, targets, FROZEN if frozen else QUICK)
    assert metrics["value_auc"] > 0.95
    said = value([State(0, 0, "", ("x",), context=c) for c in contexts])
    assert auc(said, targets) == metrics["value_auc"]
    assert all(torch.equal(before[k], v) for k, v in model.state_dict("policy").items())  # the policy stays
    if kind == "process":
        assert said.min() >= 0 and said.max() <= 1


def test_labels_stand_where_the_score_is_read(folder):
    """OpenR's trainer shifts labels by one token; here the state behind the last token is the one that is scored."""
    model = load(folder)
    value = SearchValue(model, "process")
    ids = model.encode("abcab")
    hidden = model.states([Row(ids[:1], np.append(ids[1:], 0))], adapter="value")  # behind tokens 0, 1, … 4
    want = value.head(hidden)[:, 0].sigmoid().tolist()
    assert value.judge([ids[: i + 1] for i in range(5)]).tolist() == pytest.approx(want, abs=1e-6)
    taught = []
    real = value._states
    value._states = lambda contexts: taught.extend(map(len, contexts)) or real(contexts)
    value.fit([ids[:3], ids], [0.0, 1.0], Fit(epochs=1, steps=1))
    assert sorted(taught) == [3, 3, 5, 5]  # once taught, once read: the whole prefix both times
    a = value.judge([ids[:3]])
    value.fit([ids[:3]], [1.0], Fit(lr=1e-2, epochs=3, steps=1))
    assert value.judge([ids[:3]]) > a


LOAD = """
import json, sys
import numpy as np, torch
from peft import AutoPeftModelForSequenceClassification
folder, contexts = sys.argv[1], json.loads(sys.argv[2])
model = AutoPeftModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32)
with torch.no_grad():
    print(json.dumps([float(model(torch.tensor([ids])).logits[0, 0]) for ids in contexts]))
assert not any(name.startswith("evolvent") for name in sys.modules)
"""


def test_transformers_and_peft_load_what_it_saves(folder, tmp_path):
    model = load(folder)
    value = SearchValue(model, "process")
    contexts, targets = rows(model, 12)
    value.fit(contexts, targets, QUICK)
    value.save(tmp_path / "value")
    words = [sys.executable, "-c", LOAD, str(tmp_path / "value"), json.dumps([c.tolist() for c in contexts])]
    run = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600, cwd=tmp_path)
    said = 1 / (1 + np.exp(-np.array(json.loads(run.stdout.splitlines()[-1]))))
    assert value.judge(contexts).tolist() == pytest.approx(said.tolist(), abs=1e-4)
    assert np.ptp(said) > 0.1  # it learned something that the head alone could not say


def test_a_folder_of_an_earlier_version_is_read(folder, tmp_path):
    value = SearchValue(load(folder))
    contexts, targets = rows(value.model, 12)
    value.fit(contexts, targets, QUICK)
    value.save(tmp_path / "value")
    value.model.save(tmp_path / "value" / "adapter", "value")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / "value" / name).unlink()
    again = SearchValue.load(load(folder), tmp_path / "value")
    assert again.judge(contexts).tolist() == pytest.approx(value.judge(contexts).tolist(), abs=1e-6)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_folder_gives_the_same_values_again(folder, tmp_path, frozen):
    model = load(folder)
    value = SearchValue(model, "process", frozen=frozen, adapter="policy" if frozen else "value")
    contexts, targets = rows(model)
    value.fit(contexts, targets, Fit(lr=1e-2, epochs=1, steps=1))
    value.save(tmp_path / "v")
    model.save(tmp_path / "policy")
    again = language.load(str(tmp_path / "policy"), dtype="float32")
    assert SearchValue.load(again, tmp_path / "v").judge(contexts).tolist() == pytest.approx(
        value.judge(contexts).tolist(), abs=1e-6
    )
    kept = value.state_dict()
    other = SearchValue(load(folder), "process", frozen=frozen, adapter="policy" if frozen else "value")
    other.load_state_dict(kept)
    assert other.judge(contexts).tolist() == pytest.approx(value.judge(contexts).tolist(), abs=1e-6)


def test_what_cannot_be(folder, tmp_path):
    model = load(folder)
    value = SearchValue(model, "process")
    ids = model.encode("ab")
    for targets in ([np.nan], [2.0], [0.0, 1.0]):
        with pytest.raises(BadInput, match="target"):
            value.fit([ids], targets)
    with pytest.raises(BadInput, match="reads tokens"):
        value([State(0, 0, "", ("x",), context="text")])
    with pytest.raises(BadInput, match="no such kind"):
        SearchValue(model, cast(Any, "reward"))
    with pytest.raises(BadInput, match="no learned value"):
        SearchValue.load(model, tmp_path)
    with pytest.raises(BadInput, match="does not fit"):
        SearchValue(language.load(folder, lora_rank=0))
    probe = SearchValue(model, frozen=True, adapter="policy")
    probe.save(tmp_path / "probe")
    tiny_language.stir(model, seed=5)
    with pytest.raises(BadInput, match="another policy"):
        SearchValue.load(model, tmp_path / "probe")
    (tmp_path / "probe" / "value.json").write_text(json.dumps({"kind": "value"}))
    with pytest.raises(ModelError, match="cannot be read"):
        SearchValue.load(model, tmp_path / "probe")


def test_the_area_under_the_curve():
    assert auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert auc([1, 1, 1], [0, 1, 1]) == 0.5
    assert auc([1, 2], [1, 1]) == 0.5


def test_rows_of_one_path_are_learned_together_and_how_far_it_is_is_reported(folder):
    one, two, other = (np.array(ids) for ids in ([5], [5, 300], [5, 301, 7]))
    assert sorted(map(sorted, _paths([two, other, one, two]))) == [[0, 2, 3], [1]]
    model, shares = load(folder), list[float]()
    contexts, targets = rows(model, 40)
    SearchValue(model).fit(contexts, targets, Fit(epochs=2, steps=1), progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 2 * -(-len(_paths(contexts)) // 16)
