"""Lines of ``episodes.jsonl`` and a rollout that an earlier version wrote, in real runs, read today."""

import json
from pathlib import Path

import numpy as np
import pytest

from evolvent.core.codec import decode_episode, encode_episode
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.core.rollout_codec import load_rollout
from evolvent.credit import agent_gae

LINES = (Path(__file__).parent / "records" / "schema1.jsonl").read_text(encoding="utf-8").splitlines()
CONTRACT = {"finish", "turns", "calls", "stop", "answer", "choices", "final_value", "budget", "rewards"}


def test_the_lines_hold_every_key_that_was_contract():
    assert {key for line in LINES for key in json.loads(line)["meta"]} >= CONTRACT
    assert {node["kind"] for line in LINES for node in json.loads(line)["nodes"]} >= {"recall", "tool"}


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_of_schema_1_reads_to_the_same_columns(line):
    old = json.loads(line)
    meta, end, ep = old["meta"], old["end"], decode_episode(line)
    assert not CONTRACT & ep.meta.keys() and ep.meta == {k: v for k, v in meta.items() if k not in CONTRACT}
    assert ep.finish_T == meta.get("finish", [""] * ep.n_steps)
    assert ep.turn_T.tolist() == meta.get("turns", [-1] * ep.n_steps)
    assert ep.outcomes == meta.get("calls")
    assert ep.answer == (meta["answer"] or "" if "answer" in meta else None)
    assert (ep.stop, ep.final_choices) == (meta.get("stop", ""), meta.get("choices", []))
    assert (ep.final_value, ep.budget_tokens) == (meta.get("final_value"), meta.get("budget"))
    assert {kind: reward_total(ep, kind) for kind in reward_kinds(ep)} == {
        kind: float(np.sum(values)) for kind, values in meta.get("rewards", {}).items()
    }
    assert {name: getattr(ep, name) for name in end} == end
    tokens = [i for node in old["nodes"] if node["kind"] == "action" for i in node.get("token_ids", ())]
    assert ep.token_ids.tolist() == tokens and [n.text for n in ep.nodes] == [n["text"] for n in old["nodes"]]
    again = encode_episode(ep)
    assert json.loads(again)["schema"] == 2 and decode_episode(again) == ep


def test_what_a_person_wrote_under_a_key_of_schema_1_stays_in_meta():
    old = json.loads(LINES[0])
    facts = {
        "finish": ["by", "hand"],
        "turns": 3,
        "calls": [1],
        "stop": 4,
        "answer": 42,
        "choices": "none",
        "final_value": "high",
        "budget": "small",
        "rewards": [1.0],
    }
    assert decode_episode(json.dumps(old | {"meta": facts})).meta == facts


def test_a_rollout_of_schema_1_is_read_and_credited():
    rollout = load_rollout(Path(__file__).parent / "records" / "rollout_schema1.json")
    assert rollout.shape == (4, 2, 2) and rollout.agents == ("agent0", "agent1")
    assert rollout.truncated_TB[2].all() and rollout.final_value_TBA[2].all()
    assert rollout.last_obs_BAD is rollout.final_obs_EAD is None
    np.testing.assert_array_equal(rollout.obs_TBAD[..., -2:], np.broadcast_to(np.eye(2), (4, 2, 2, 2)))
    assert np.isfinite(agent_gae.assign(rollout).values("step")).all()
