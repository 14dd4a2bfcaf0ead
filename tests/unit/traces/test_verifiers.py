"""Traces of verifiers: a file that its own models wrote, and what those models let through."""

import json
from pathlib import Path

from evolvent.traces import verifiers
from evolvent.traces.build import build
from evolvent.traces.events import Repairs

TRACES = Path(__file__).parent / "fixtures" / "verifiers.jsonl"


def read(path, repairs=None):
    return [build(attempt) for attempt in verifiers.read(path, repairs or Repairs())]


def of(tmp_path, change, repairs=None):
    record = json.loads(TRACES.read_text())
    change(record)
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    return read(tmp_path / "t.jsonl", repairs)


def test_a_tree_with_its_tokens():
    (episode,) = read(TRACES)
    assert [(n.kind, n.text, n.parent) for n in episode.nodes] == [
        ("observation", "Add.", -1),
        ("observation", "1+2?", 0),
        ("action", 'add({"x": 1})', 1),
        ("tool", "3", 2),
        ("observation", "", 3),
        ("action", "3", 4),
        ("action", "4", 1),
    ]
    assert episode.token_ids.tolist() == [6, 7, 10, 11] and episode.logp.tolist() == [-0.5, -0.25, -1.0, -2.0]
    assert [episode.context_ids(t).tolist() for t in range(3)] == [
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 5],
        [1, 2, 3, 4, 5],
    ]
    assert episode.rewards_by_kind == {"right": 1.0, "short": 0.5, "reward": 1.25} and episode.total_reward == 1.25
    assert (episode.task_id, episode.env, episode.agents_T[0], episode.success) == ("sum-1", "sums", "solver", None)
    assert episode.meta["source"]["nodes"]["5"]["advantages"] == [0.5]


def test_what_its_models_let_through(tmp_path):
    def change(record):
        record["nodes"][2]["mask"] = [True]
        record["nodes"][3]["parent"] = 5
        record["rewards"] = {"right": {"score": float("nan"), "weight": 1.0}}
        record["is_timeout"] = True

    repairs = Repairs()
    (episode,) = of(tmp_path, change, repairs)
    assert {"masks that do not fit their tokens, ids left out", "parents that come later, cut"} <= set(repairs.counts)
    assert not episode.valid and episode.success is None and episode.truncated and episode.n_steps == 3
    assert of(tmp_path, lambda record: record.update(version=9)) == []
