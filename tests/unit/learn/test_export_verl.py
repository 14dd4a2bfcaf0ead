"""What verl reads: padded rows whose masked tokens, advantages and scores are those of the record and the ledger."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.export_verl import load, save, verl_batch

# what is seen and what is said, turn by turn: 20, 30, … are what the environment adds
SAID = [[5, 6, 7], [8], [5, 9]]
LOGP = [[-0.5, -1.0, -1.5], [-0.25], [-2.0, -0.75]]


def conversation(name, *, group="g", agents=("a", "a", "a"), valid=True, logp=LOGP, turns=3):
    """Every context continues the former one."""
    ep = Episode("task", id=name, env="world", group=group)
    for t in range(turns):
        ep.observe("seen", token_ids=[20, 21] if t == 0 else [30 + t])
        ep.act("said", agent=agents[t], token_ids=SAID[t], logp=logp[t], reward=float(t))
    ep.end(terminated=True, valid=valid)
    return ep


def fresh(name, *, choices=False, noted=False):
    """Every context is a new one."""
    ep = Episode("task", id=name, env="world", group="g")
    for t, (said, logp) in enumerate(zip(SAID, LOGP, strict=True)):
        ep.observe("seen", token_ids=[20 + t] * (t + 1), parent=-1)
        ep.act("said", agent="a", token_ids=said, logp=logp, reward=float(t), choices=[said, [3]] if choices else ())
    ep.end(terminated=True)
    if noted:
        ep.note("action_logp", np.full(6, -0.1))
    return ep


def token_credit(episodes, values):
    ledger = Ledger.for_episodes(episodes)
    ledger.set("token", values)
    return ledger


def test_a_conversation_is_one_row_with_what_was_seen_in_between_masked():
    ep = conversation("x")
    batch = verl_batch([ep], token_credit([ep], [1, 2, 3, 4, 5, 6]), level="token", pad_id=99)
    t = batch.tensors
    assert t["prompts"].tolist() == [[20, 21]]
    assert t["responses"].tolist() == [[5, 6, 7, 31, 8, 32, 5, 9]]
    assert t["response_mask"].tolist() == [[1, 1, 1, 0, 1, 0, 1, 1]]
    assert t["advantages"].tolist() == [[1, 2, 3, 0, 4, 0, 5, 6]] == t["returns"].tolist()
    assert t["old_log_probs"].tolist() == [[-0.5, -1, -1.5, 0, -0.25, 0, -2, -0.75]] == t["rollout_log_probs"].tolist()
    assert t["token_level_scores"].tolist() == [[0, 0, 0, 0, 1, 0, 0, 2]]
    assert t["input_ids"].tolist() == [[20, 21, 5, 6, 7, 31, 8, 32, 5, 9]]
    assert t["attention_mask"].all() and t["position_ids"].tolist() == [list(range(10))]
    assert batch.non_tensors["__num_turns__"] == [3] and batch.non_tensors["uid"] == ["g"]


def test_fresh_contexts_are_rows_padded_left_and_right():
    ep = fresh("x")
    batch = verl_batch([ep], token_credit([ep], [1, 2, 3, 4, 5, 6]), level="token", pad_id=99)
    t = batch.tensors
    assert t["prompts"].tolist() == [[99, 99, 20], [99, 21, 21], [22, 22, 22]]
    assert t["responses"].tolist() == [[5, 6, 7], [8, 99, 99], [5, 9, 99]]
    assert t["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]]
    assert t["position_ids"].tolist() == [[0, 0, 0, 1, 2, 3], [0, 0, 1, 2, 2, 2], [0, 1, 2, 3, 4, 4]]
    assert t["response_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert t["token_level_scores"].sum(axis=1).tolist() == [0, 1, 2]
    assert batch.non_tensors["step"] == [0, 1, 2] and batch.non_tensors["episode"] == ["x"] * 3
    assert {str(t[name].dtype) for name in ("prompts", "input_ids", "response_mask")} == {"int64"}
    assert {str(t[name].dtype) for name in ("advantages", "old_log_probs", "token_level_scores")} == {"float32"}


@pytest.mark.parametrize("made", [conversation, fresh])
def test_trained_tokens_are_the_sampled_ones_with_their_credit(made):
    episodes = [made(name) for name in "xyz"]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.arange(9) - 3.5)
    batch = verl_batch(episodes, ledger, level="step")
    ours, mask = token_batch(episodes, ledger, level="step"), batch.tensors["response_mask"] == 1
    assert batch.tensors["responses"][mask].tolist() == np.concatenate([e.token_ids for e in episodes]).tolist()
    assert batch.tensors["advantages"][mask].tolist() == ours.units.adv.tolist()
    assert batch.tensors["old_log_probs"][mask].tolist() == ours.units.old_logp.tolist()
    assert (batch.tensors["advantages"][~mask] == 0).all()
    assert batch.tensors["token_level_scores"].sum() == sum(e.total_reward for e in episodes)
    # before every trained token stands what the model saw when it was sampled
    row, at = np.nonzero(batch.tensors["response_mask"])
    seen = batch.tensors["attention_mask"].astype(bool)
    for k, (r, c) in enumerate(zip(row, at + batch.tensors["prompts"].shape[1], strict=True)):
        one = ours.rows[int(ours.units.row[k])]
        expected = [*one.context.tolist(), *one.tokens[: int(ours.units.at[k])].tolist()]
        assert batch.tensors["input_ids"][r, :c][seen[r, :c]].tolist() == expected


def test_what_has_no_credit_is_masked_or_not_there():
    episodes = [conversation("x"), conversation("y", valid=False), conversation("z", group="h")]
    values = np.full(18, 2.0)
    values[[1, 3]] = np.nan  # a token of a decision, and a whole decision in the middle of a conversation
    values[12:] = np.nan
    batch = verl_batch(episodes, token_credit(episodes, values), level="token")
    assert batch.non_tensors["episode"] == ["x"]
    assert batch.tensors["responses"].tolist() == [[5, 6, 7, 31, 8, 32, 5, 9]]
    assert batch.tensors["response_mask"].tolist() == [[1, 0, 1, 0, 0, 0, 1, 1]]
    assert batch.tensors["advantages"].sum() == 8


def test_log_probabilities_that_are_not_those_of_the_vocabulary_are_left_out():
    def made(ep):
        return verl_batch([ep], token_credit([ep], np.ones(6)), level="token")

    inside = made(fresh("x", choices=True))
    assert "old_log_probs" not in inside.tensors and "rollout_log_probs" not in inside.tensors
    assert "3 decisions" in inside.warnings[0] and "old_log_probs" in inside.warnings[0]
    # chosen whole, by likelihood: the record has the model's own
    assert "old_log_probs" in made(fresh("x", choices=True, noted=True)).tensors
    unknown = made(conversation("x", logp=[LOGP[0], [], LOGP[2]]))
    assert "old_log_probs" not in unknown.tensors and "not recorded" in unknown.warnings[0]


def test_the_file_holds_all_of_it(tmp_path):
    episodes = [conversation("x"), fresh("y")]
    batch = verl_batch(episodes, token_credit(episodes, np.arange(12)), level="token", meta_info={"temperature": 0.7})
    save(tmp_path / "new" / "batch.safetensors", batch)
    again = load(tmp_path / "new" / "batch.safetensors")
    assert again.tensors.keys() == batch.tensors.keys() and len(again) == len(batch) == 4
    for name, array in batch.tensors.items():
        assert again.tensors[name].dtype == array.dtype and np.array_equal(again.tensors[name], array)
    assert again.non_tensors == batch.non_tensors and again.meta_info == {"temperature": 0.7}
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["batch.safetensors"]
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(BadInput, match="not an export for verl"):
        load(tmp_path / "other")


def test_a_row_trains_one_policy():
    episodes = [conversation("x", agents=("a", "b", "a"))]
    ledger = token_credit(episodes, np.arange(6))
    with pytest.raises(BadInput, match="--agent a"):
        verl_batch(episodes, ledger, level="token")
    batch = verl_batch(episodes, ledger, level="token", agent="a")
    assert batch.tensors["responses"].tolist() == [[5, 6, 7, 31, 8, 32, 5, 9]]
    assert batch.tensors["response_mask"].tolist() == [[1, 1, 1, 0, 0, 0, 1, 1]]
    assert batch.non_tensors["agent"] == ["a"] and batch.non_tensors["__num_turns__"] == [2]
    with pytest.raises(BadInput, match=r"no such agent decided[^?]*got: c[^?]*'a', 'b'[^?]*where: --agent"):
        verl_batch(episodes, ledger, level="token", agent="c")


def test_what_cannot_be_trained_on_is_refused():
    ep = conversation("x")
    with pytest.raises(BadInput, match="nothing to export"):
        verl_batch([ep], Ledger.for_episodes([ep]), level="token")
    bare = Episode("task", id="bare")
    bare.act("said", token_ids=[1], logp=[-1.0])
    bare.end(terminated=True)
    with pytest.raises(BadInput, match="no context tokens"):
        verl_batch([bare], token_credit([bare], [1.0]), level="token")
