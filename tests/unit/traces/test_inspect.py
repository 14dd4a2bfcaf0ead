"""Logs of inspect_ai: its own mock run, as its library reads it; and the library itself, where it is installed."""

import json
from pathlib import Path

import pytest

from evolvent.core.errors import BadInput
from evolvent.traces import inspect
from evolvent.traces.build import build
from evolvent.traces.events import Repairs

LOGS = Path(__file__).parent / "fixtures" / "inspect"


def stored():
    return json.loads((LOGS / "read.json").read_text())


def made(sample, repairs=None):
    return build(inspect.attempt_of(stored()["header"], sample, "here", repairs or Repairs()))


def test_a_hand_off_and_a_submission():
    repairs = Repairs()
    episode = made(stored()["samples"][0], repairs)
    assert episode.agents_T == ["react", "react", "scout", "react"]
    tools = [(n.data["name"], n.text, n.data["outcome"], n.agent) for n in episode.nodes if n.kind == "tool"]
    assert tools == [
        ("add", "3", "ok", "react"),
        ("transfer_to_scout", "Successfully transferred to scout.", "ok", "react"),
        ("submit", "nobody here", "ok", "scout"),
        ("submit", "3", "ok", "react"),
    ]
    assert (episode.task_id, episode.env, episode.group) == ("sums/sum", "sums", "sums/sum | mockllm/model")
    assert episode.success is True and episode.total_reward == 1.0 and episode.rewards_by_kind == {"includes": 1.0}
    assert list(episode.meta["source"]["called_by"].values()) == [int(episode.step_nodes_T[1])]
    assert not episode.truncated and episode.finish_T == ["stop"] * 4
    assert episode.meta["usage"]["prompt"] > 0 and "cost_usd" not in episode.meta["usage"]
    assert "results without a call" not in repairs.counts


def test_a_tool_that_failed_and_a_limit():
    episode = made(stored()["samples"][1])
    (tool,) = [n for n in episode.nodes if n.kind == "tool"]
    assert (tool.text, tool.data["outcome"]) == ("zero is not allowed", "raised")
    assert episode.truncated and episode.stop == "message" and episode.success is False and episode.valid


def test_scores_errors_and_logs_without_events():
    sample = stored()["samples"][0]
    sample["scores"] = {"judge": {"value": {"a": "P", "b": True}}, "odd": {"value": "fine"}}
    repairs = Repairs()
    episode = made(sample, repairs)
    assert episode.rewards_by_kind == {"judge.a": 0.5, "judge.b": 1.0} and not episode.valid
    assert repairs.counts["scores that are no numbers, left out"] == 1
    broken = {**stored()["samples"][0], "scores": {}, "error": {"message": "boom"}}
    assert (made(broken).valid, made(broken).success, made(broken).stop) == (False, None, "boom")
    silent = {**stored()["samples"][1], "events": []}
    repairs = Repairs()
    assert made(silent, repairs).n_steps > 1 and repairs.counts["logs without events, messages taken instead"] == 1


def test_eval_and_json_give_equal_episodes(tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    log.write_eval_log(log.read_eval_log(str(LOGS / "log.eval")), str(tmp_path / "log.json"))
    ways = [[build(a) for a in inspect.read(path, Repairs())] for path in (LOGS / "log.eval", tmp_path / "log.json")]
    assert ways[0] == ways[1] and len(ways[0]) == 4
    assert [e.success for e in ways[0]] == [True, True, False, False]
    assert [e.truncated for e in ways[0]] == [False, False, True, True]
    assert len({e.group for e in ways[0]}) == 2
    assert all(made(sample) in ways[0] for sample in stored()["samples"])
    for name in ("log.eval", "log.json"):
        whole = (LOGS if name == "log.eval" else tmp_path) / name
        (tmp_path / f"cut-{name}").write_bytes(whole.read_bytes()[:9000])
        with pytest.raises(BadInput, match="cut"):
            list(inspect.read(tmp_path / f"cut-{name}", Repairs()))
