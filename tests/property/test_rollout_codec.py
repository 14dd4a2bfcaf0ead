"""A stored rollout is the rollout: every column to the bit, and the same credit."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evolvent.cli import run
from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_codec import load_rollout, save_rollout
from evolvent.credit import agent_gae
from evolvent.learn.team.steps import Steps

quick = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def rollouts(draw):
    """Of any size, 0 included, with or without each column that may be missing."""
    t, b, a, d = (draw(st.integers(low, 3)) for low in (0, 1, 1, 1))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    columns = {
        "obs_TBAD": rng.normal(size=(t, b, a, d)).astype(draw(st.sampled_from(["f4", "f8", "i2"]))),
        "action_TBA": rng.normal(size=(t, b, a, 2)) if draw(st.booleans()) else rng.integers(0, 3, (t, b, a)),
        "reward_TBA": rng.normal(size=(t, b, a)),
        "terminated_TB": rng.random((t, b)) < 0.3,
        "truncated_TB": rng.random((t, b)) < 0.3,
    }
    more = {
        "value_TBA": rng.normal(size=(t, b, a)).astype(np.float32),
        "logp_TBA": np.full((t, b, a), np.nan),
        "mask_TBA": rng.random((t, b, a)) < 0.8,
        "bootstrap_BA": rng.normal(size=(b, a)),
        "final_value_TBA": rng.normal(size=(t, b, a)),
        "available_TBAN": rng.random((t, b, a, 5)) < 0.5,
        "state_TBS": rng.normal(size=(t, b, 7)).astype(np.float32),
        "last_obs_BAD": rng.normal(size=(b, a, d)),
        "final_obs_EAD": rng.normal(size=((columns["terminated_TB"] | columns["truncated_TB"]).sum(), a, d)),
    }
    columns |= {name: more[name] for name in draw(st.lists(st.sampled_from(sorted(more)), unique=True))}
    names = draw(st.sampled_from([(), ("near", "čost")]))
    if names:
        columns["part_TBAR"] = columns["reward_TBA"][..., None] * [0.25, 0.75]
    return Rollout(**columns, parts=names, agents=tuple(f"č{i}" for i in range(a)))


def same(one, other):
    for field in fields(Rollout):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name in ("agents", "parts") or a is None:
            assert a == b
        else:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@quick
@given(rollouts())
def test_a_rollout_round_trips(tmp_path, rollout):
    save_rollout(tmp_path / "steps.json", rollout)
    same(load_rollout(tmp_path / "steps.json"), rollout)
    assert len(list(tmp_path.iterdir())) == 2, "one manifest, one file of columns, nothing temporary"


def one():
    return Rollout(
        np.zeros((2, 1, 1, 3)),
        np.zeros((2, 1, 1), int),
        np.ones((2, 1, 1)),
        np.zeros((2, 1), bool),
        np.zeros((2, 1), bool),
    )


def changed(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_what_is_damaged_newer_or_something_else_is_refused_by_name(tmp_path):
    path = tmp_path / "steps.json"
    with pytest.raises(BadInput, match=r"no steps\.json"):
        load_rollout(path)
    for content, says in (("[1]", "no stored rollout"), ('{"kind": "run"}', "no stored rollout"), ("{", "not JSON")):
        path.write_text(content)
        with pytest.raises(BadInput, match=says):
            load_rollout(path)
    save_rollout(path, one())
    blob = next(tmp_path.glob("*.npz"))
    whole = blob.read_bytes()
    for part in (whole[:-30], whole.replace(bytes(8), bytes(7) + b"\1", 1), b""):
        blob.write_bytes(part)
        with pytest.raises(BadInput, match="file of columns"):
            load_rollout(path)
    blob.write_bytes(whole)
    for fields_, says in (
        ({"schema": 3}, "newer version of evolvent: schema 3, this one reads up to 2"),
        ({"columns": {}}, "not those of the manifest"),
        ({"file": "other.npz"}, "cannot be read"),
    ):
        save_rollout(path, one())
        changed(path, **fields_)
        with pytest.raises(BadInput, match=says):
            load_rollout(path)
    with pytest.raises(BadInput, match="obs_TBAD cannot be stored"):
        save_rollout(path, replace(one(), obs_TBAD=np.full((2, 1, 1, 3), None)))


def test_a_save_that_is_cut_off_leaves_the_pair_before(tmp_path, monkeypatch):
    path = tmp_path / "steps.json"
    save_rollout(path, one())
    monkeypatch.setattr("evolvent.core.rollout_codec.write_atomic", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_rollout(path, replace(one(), reward_TBA=np.full((2, 1, 1), 5.0)))
    same(load_rollout(path), one())


@pytest.mark.parametrize("algo", ["mappo", "mat"])
def test_a_real_collection_is_credited_again_to_the_same_ledger(tmp_path, monkeypatch, algo):
    seen, batch_of = [], Steps.batch

    def batch(self, *args, **kwargs):
        made = batch_of(self, *args, **kwargs)
        save_rollout(tmp_path / f"{len(seen)}.json", made.rollout)
        # a copy: the rollout looks into what is filled anew
        seen.append((agent_gae.assign(made.rollout).values("step"), made.rollout.reward_TBA.copy()))
        return made

    monkeypatch.setattr(Steps, "batch", batch)
    arguments = (
        f"{algo} --env spread:n=3 --steps 200 --envs 4 --horizon 25 --eval-episodes 2 --threads 1 --seed 3 --plain"
    )
    run.main([*arguments.split(), "--out", str(tmp_path / "run")])
    assert len(seen) == 2
    for number, (credit, reward) in enumerate(seen):
        again = load_rollout(tmp_path / f"{number}.json")
        np.testing.assert_array_equal(agent_gae.assign(again).values("step"), credit)
        np.testing.assert_array_equal(again.reward_TBA, reward)
