"""ATIF: a document made by the format's own package, its trial, and documents that are broken in known ways."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.credit import step_leave_one_out
from evolvent.traces import atif
from evolvent.traces.build import Options, build
from evolvent.traces.events import Repairs

TRIAL = Path(__file__).parent / "fixtures" / "trial"


def read(path, repairs=None, options=Options()):
    return [build(attempt, options) for attempt in atif.read_all([path], repairs or Repairs())]


def document():
    return json.loads((TRIAL / "agent" / "trajectory.json").read_text())


def of(tmp_path, content, repairs=None, name="trajectory.json"):
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return read(tmp_path / name, repairs)


def agent_step(number, text, **more):
    return {"step_id": number, "source": "agent", "message": text, **more}


def small(*steps, **more):
    return {
        "schema_version": "ATIF-v1.8",
        "trajectory_id": "t",
        "agent": {"name": "a", "version": "1"},
        "steps": [*steps],
        **more,
    }


def actions(episode):
    return [node.text for node in episode.nodes if node.kind == "action"]


def test_a_trial_is_one_attempt_with_its_sub_agent_and_tokens():
    repairs = Repairs()
    (episode,) = read(TRIAL, repairs)
    assert episode.agents_T == ["planner", "planner", "scout", "planner"]
    assert (episode.task_id, episode.group) == ("fruit-prices", "fruit-prices | planner 2.1 large")
    assert episode.success is True and episode.total_reward == 1.0
    assert episode.rewards_by_kind == {"reward": 1.0, "style": 0.5}
    tools = [(n.text, n.data["arguments"], n.data["outcome"]) for n in episode.nodes if n.kind == "tool"]
    assert tools[:2] == [("2", {"item": "apple"}, "ok"), ("3", {"item": "pear"}, "ok")]
    assert episode.token_ids.tolist() == [10, 11, 12, 20, 21, 52, 30]
    assert episode.logp.tolist() == [-0.5, -0.25, -0.125, -1.0, -0.5, -0.25, -0.0625]
    prompts = [one["metrics"]["prompt_token_ids"] for one in document()["steps"][2:]]
    for step, prompt in zip((0, 1, 3), prompts, strict=True):
        assert episode.context_ids(step).tolist() == prompt
    assert episode.context_ids(2).tolist() == [50, 51]  # the sub-agent saw nothing of its caller
    source, nodes = episode.meta["source"], list(episode.nodes)
    (first, caller), *_ = source["called_by"].items()
    assert nodes[int(first)].text == "Find the price list." and nodes[int(first)].parent == -1
    assert nodes[caller].text.startswith("ask_scout(") and source["extra"] == {"lab": "bench-3"}
    assert source["nodes"][str(nodes[2].index)]["temperature"] == 0.7
    assert episode.meta["usage"]["cost_usd"] == pytest.approx(0.06) and "cached" not in episode.meta["usage"]
    assert not [what for what in repairs.counts if "usage" in what]


def test_credit_of_steps_and_tokens():
    (episode,) = read(TRIAL)
    assert step_leave_one_out.assign([episode]).values("step").tolist() == [1.0] * 4
    assert not set(episode.token_ids.tolist()) & {90, 91, 92, 93, 94, 95}


def test_credit_goes_back_into_the_document():
    made, original = document(), document()
    (episode,) = read(TRIAL)
    places = [episode.meta["source"]["nodes"][str(n)]["origin"] for n in episode.step_nodes_T]
    assert places == ["/steps/2", "/steps/3", "/subagent_trajectories/0/steps/1", "/steps/4"]
    assert atif.write_credit(made, {place: {"credit": {"r": 0.1}} for place in places}, {"schema": 1}) == 4
    assert made["subagent_trajectories"][0]["steps"][1]["extra"]["evolvent"] == {"credit": {"r": 0.1}}

    def without(value):
        if isinstance(value, dict):
            kept = {k: without(v) for k, v in value.items() if k != "evolvent"}
            return {k: v for k, v in kept.items() if (k, v) != ("extra", {})}
        return [without(one) for one in value] if isinstance(value, list) else value

    assert without(made) == original


def test_steps_without_a_model_several_calls_and_copied_steps(tmp_path):
    tokens = {"prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-1.0]}
    steps = [
        agent_step(1, "said before", is_copied_context=True),
        agent_step(
            2,
            "",
            llm_call_count=0,
            tool_calls=[{"tool_call_id": "x", "function_name": "ls", "arguments": {}}],
            observation={"results": [{"source_call_id": "x", "content": "file"}]},
        ),
        agent_step(3, "both", llm_call_count=3, metrics=tokens, extra={"reward": 0.5}),
        agent_step(4, "end", surprise=1),
    ]
    (episode,) = of(tmp_path, small(*steps))
    assert [n.kind for n in episode.nodes] == ["observation", "component", "tool", "action", "action"]
    assert episode.n_tokens == 0 and episode.rewards_T.tolist() == [0.5, 0.0]
    assert episode.meta["source"]["nodes"]["4"]["surprise"] == 1


def test_compaction_begins_a_new_context(tmp_path):
    boundary = {"context_management": {"type": "summary", "boundary": "replace"}}
    ask = {"step_id": 1, "source": "user", "message": "long"}
    summary = {"step_id": 3, "source": "system", "message": "short", "extra": boundary}
    (episode,) = of(tmp_path, small(ask, agent_step(2, "a"), summary, agent_step(4, "b")))
    nodes = list(episode.nodes)
    assert [nodes[i].text for i in episode.branch(nodes[-1].index)] == ["short", "b"]


def test_continuations_join_and_alone_are_read(tmp_path):
    second = small(agent_step(1, "copied", is_copied_context=True), agent_step(2, "two"), trajectory_id="t2")
    (tmp_path / "trajectory.cont-1.json").write_text(json.dumps(second))
    first = small(agent_step(1, "one"), continued_trajectory_ref="trajectory.cont-1.json")
    (episode,) = of(tmp_path, first)
    assert actions(episode) == ["one", "two"] and [n.text for n in episode.nodes] == ["one", "copied", "two"]
    both = list(atif.read_all([tmp_path / "trajectory.cont-1.json", tmp_path / "trajectory.json"], Repairs()))
    assert len(both) == 1
    repairs = Repairs()
    assert len(read(tmp_path / "trajectory.cont-1.json", repairs)) == 1
    assert repairs.counts["continuations without their beginning"] == 1


def test_files_elsewhere_are_not_opened(tmp_path):
    (tmp_path / "secret.json").write_text(json.dumps(small(agent_step(1, "secret"))))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "secret.json")
    refs = [
        {"trajectory_path": p}
        for p in ("../secret.json", "link.json", "https://x/y.json", str(tmp_path / "secret.json"))
    ]
    call = {"tool_call_id": "c", "function_name": "f", "arguments": {}}
    back = {"results": [{"source_call_id": "c", "content": "kept", "subagent_trajectory_ref": refs}]}
    repairs = Repairs()
    (episode,) = of(tmp_path / "in", small(agent_step(1, "x", tool_calls=[call], observation=back)), repairs)
    assert episode.n_steps == 1 and repairs.counts["sub-agents not followed, their result is kept"] == 4
    assert [n.text for n in episode.nodes if n.kind == "tool"] == ["kept"]


def test_sub_agents_that_lead_back_are_cut(tmp_path):
    def asks(number, ref):
        call = {"tool_call_id": f"c{number}", "function_name": "f", "arguments": {}}
        back = {"results": [{"source_call_id": f"c{number}", "subagent_trajectory_ref": [{"trajectory_id": ref}]}]}
        return agent_step(1, "x", tool_calls=[call], observation=back)

    repairs = Repairs()
    (episode,) = of(
        tmp_path, small(asks(0, "s"), subagent_trajectories=[small(asks(1, "t"), trajectory_id="s")]), repairs
    )
    assert episode.n_steps == 2 and repairs.counts["sub-agents that lead back, cut"] == 1


def test_token_ids_from_the_result_of_the_trial(tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "trajectory.json").write_text(json.dumps(small(agent_step(1, "a"), agent_step(2, "b"))))
    details = {"prompt_token_ids": [[1], [1, 2, 3]], "completion_token_ids": [[2], [4]], "logprobs": [[-0.5], [-0.25]]}
    result = {"agent_result": {"rollout_details": [details]}, "exception_info": {"exception_type": "AgentTimeoutError"}}
    (tmp_path / "result.json").write_text(json.dumps(result | {"verifier_result": {"rewards": {"reward": 0.0}}}))
    (episode,) = read(tmp_path)
    assert episode.token_ids.tolist() == [2, 4] and episode.context_ids(1).tolist() == [1, 2, 3]
    assert episode.truncated and episode.stop == "AgentTimeoutError" and episode.success is False and episode.valid


def test_broken_documents(tmp_path):
    text = json.dumps(document())
    deep = copy.deepcopy(document())
    nested = []
    for _ in range(499):
        nested = [nested]
    deep["extra"] = {"x": nested}
    cases = {
        text[: len(text) // 2]: "not JSON",
        json.dumps(deep): "nested too deep",
        "{}": "no ATIF document of version 1",
    }
    cases[json.dumps({**document(), "schema_version": "ATIF-v2.0"})] = "no ATIF document of version 1"
    for content, what in cases.items():
        repairs = Repairs()
        assert of(tmp_path, content, repairs) == [] and list(repairs.counts) == [f"documents left out: {what}"]
        with pytest.raises(BadInput, match=what):
            of(tmp_path, content, Repairs(strict=True))
    newer = Repairs()
    assert (
        of(tmp_path, {**document(), "schema_version": "ATIF-v1.9"}, newer)
        and "documents of a newer version" in newer.counts
    )


def test_values_that_other_validators_take(tmp_path):
    bad = document()
    bad["steps"][2]["metrics"]["logprobs"] = [-0.5, float("nan"), 0.25]
    bad["steps"][4]["metrics"]["logprobs"] = [-0.5, -0.5]
    repairs = Repairs()
    (episode,) = of(tmp_path, bad, repairs)
    assert repairs.counts["log-probabilities that do not fit their tokens, left out"] == 2
    assert np.isnan(episode.logp[:3]).all()
    assert not episode.valid and episode.success is None  # alone it has no outcome
