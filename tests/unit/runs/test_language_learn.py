"""What a language run hands to its learner and tells of it: truncated answers, bfloat16, the reference, other rules."""

from importlib import import_module

import numpy as np
import pytest

import tiny_language
from evolvent.core.config import with_fields
from evolvent.core.episode import Episode
from evolvent.credit import step_gae, token_bad
from evolvent.evaluate.live import Live
from evolvent.runs.language import run as language
from evolvent.runs.language.credit import standard_rules
from evolvent.runs.language.log import facts
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=512)


def rows(name, model, path, *, env="arithmetic:addition,shots=2", **more):
    """The updates of a run of two."""
    module = import_module(f"evolvent.algos.{name}")
    base = {"env": env, "model": model, "updates": 2, "prompts": 2, "group": 3, "lr": 0.01}
    config = with_fields(module.Config(), **base | {"dtype": "float32", "eval_every": 0, "eval_tasks": 2} | more)
    with begin(path, name, config) as folder, Live(plain=True) as live:
        module.run(config, folder, live)
        return [row for row in folder.read_metrics() if "update" in row]


def test_answers_that_were_cut_off_are_counted_or_left_out(model, tmp_path):
    counted = rows("reinforce", model, tmp_path / "count")
    assert all(row["cut_mean"] > 0.5 and row["tokens"] > 0 for row in counted), "a random model hardly ever stops"
    for name in ("leave_out", "leave_out_episode"):
        first = rows("reinforce", model, tmp_path / name, truncated=name)[0]
        assert first["cut_mean"] == counted[0]["cut_mean"], "logged as ever"
        whole = round(6 * (1.0 - counted[0]["cut_mean"]))
        assert first["untrained"] == 1.0 if whole == 0 else first["tokens"] < counted[0]["tokens"]


def fresh_of(model, path, monkeypatch, name, dtype):
    """Of how many attempts of each update the log-probabilities were judged anew."""
    seen, made = [], language.training_batch

    def noted(*given, fresh, **settings):
        seen.append((len(given[0].episodes), fresh))
        batch = made(*given, fresh=fresh, **settings)
        assert (batch.units.fresh is not None) == bool(fresh)
        return batch

    monkeypatch.setattr(language, "training_batch", noted)
    rows(name, model, path, env="microwave:step_limit=3", dtype=dtype)
    return seen


def test_in_bfloat16_what_was_just_sampled_is_judged_anew(model, tmp_path, monkeypatch):
    """``test_fresh_units`` shows what that does."""
    assert fresh_of(model, tmp_path / "exact", monkeypatch, "gspo", "float32") == [(6, 0), (6, 0)]
    monkeypatch.undo()
    assert fresh_of(model, tmp_path / "rounded", monkeypatch, "gspo", "bfloat16") == [(6, 6), (6, 6)]
    monkeypatch.undo()
    counts = fresh_of(model, tmp_path / "replay", monkeypatch, "spear", "bfloat16")
    assert counts[0] == (6, 6) and all(fresh == 6 for _, fresh in counts), "not what older policies sampled"


@pytest.mark.parametrize("name", ["reinforce", "poad"])
def test_the_divergence_from_the_reference_is_reported_by_everyone(name, model, tmp_path):
    first, second = rows(name, model, tmp_path / "run", env="microwave:step_limit=3", lr=0.05)
    assert first["kl_ref"] == pytest.approx(0.0, abs=1e-6), "adapters begin without effect"
    assert second["kl_ref"] > 1e-4


def test_rules_beside_the_one_that_trained_have_its_discount():
    episode = Episode("task", group="g")
    for reward in (0.0, 1.0):
        episode.observe("seen", token_ids=[1], parent=-1)
        episode.act("act", token_ids=[2, 3], logp=[-1.0, -1.0], reward=reward)
    episode.end(terminated=True)
    episode.note("value", np.zeros(4))

    found = {rule.name: rule for rule in standard_rules([episode], step_gae.Config(gamma=0.5, gae_lambda=1.0))}
    assert "discount 0.5" in found["ntpo"].summary and "lambda 1" in found["turn_gae"].summary
    np.testing.assert_allclose(found["ntpo"].assign([episode]).values("token"), [0.125, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(found["poad"].assign([episode]).values("token"), [0.5, 0.5, 1.0, 1.0])

    settings = token_bad.Config(gamma=0.5, gae_lambda=0.5, gae_lambda_inside=1.0)
    inside = {rule.name: rule for rule in standard_rules([episode], settings)}["poad"]
    np.testing.assert_allclose(inside.assign([episode]).values("token"), [0.25, 0.25, 1.0, 1.0])
    assert {rule.name for rule in standard_rules([episode])} == {"group_std", "leave_one_out", "return_to_go"}


def test_the_live_line_has_health():
    row = {
        "update": 3,
        "return": 0.5,
        "success_mean": 0.5,
        "sampled_per_s": 10.0,
        "trained_per_s": 5.0,
        "flat_mean": 0.25,
        "entropy": 1.234,
        "kl_ref": 0.01,
    }
    line = " · ".join(facts(row))
    assert "flat groups 0.25" in line and "entropy 1.2" in line and "KL 0.01" in line
